"""Semantics text to Python syntax trees with positions in the machine's file, of a limited depth, and the functions in it; and resolved semantics
back to text: canonical, with parameters in place; reading it again gives the same text."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.floating import ARITHMETIC
from toolchain.isa.semantics.floating import REDUCTIONS as FLOAT_REDUCTIONS
from toolchain.spec import expr as ex
from toolchain.spec.errors import Span, fail
from toolchain.spec.evaluate import RESERVED
from toolchain.spec.expr import Expr, check_text
from toolchain.spec.fingerprint import MeaningKey
from toolchain.spec.model import Machine, Text
from toolchain.spec.render import unparse as unparse_expression

MAX_DEPTH = 48
"""Statements and expressions, one inside the other."""


class Locator:
    """Knows where a block of text stands."""

    def __init__(self, text: Text) -> None:
        self.text = text

    def place(self, line: int, column: int) -> Span:
        """The place of line (from 1) and column (from 0) of the text."""
        start = self.text.span
        return Span(start.source, start.line + line, self.text.indent + column + 1)

    def span(self, node: ast.stmt | ast.expr) -> Span:
        return self.place(node.lineno, node.col_offset)

    def convert(self, node: ast.expr) -> Expr:
        """The expression in our own nodes, its names not resolved yet. Raises UserError E0121."""
        return ex.convert(node, self.place)

    def parse(self) -> list[ast.stmt]:
        """The statements. Raises UserError E0121 (strings, fractions), E0201 (not readable) and E0212 (nested too deep)."""
        check_text(self.text.text, self.place)
        try:
            body = ast.parse(self.text.text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line, column = getattr(error, "lineno", 1) or 1, getattr(error, "offset", 1) or 1
            raise fail("E0201", "cannot read the semantics here", self.place(line, max(column - 1, 0))) from None
        self._guard(body)
        return body

    def _guard(self, body: list[ast.stmt]) -> None:
        waiting: list[tuple[ast.AST, int]] = [(node, 1) for node in body]
        while waiting:
            node, depth = waiting.pop()
            if depth > MAX_DEPTH and isinstance(node, ast.stmt | ast.expr):
                raise fail("E0212", f"this is nested deeper than {MAX_DEPTH} levels", self.span(node), "assign a part of it to a name first")
            deeper = depth + isinstance(node, ast.stmt | ast.expr)
            waiting += [(child, deeper) for child in ast.iter_child_nodes(node)]


@dataclass(frozen=True)
class Function:
    """lets: local names in order; results: the values it returns, one or more. Names in it are not resolved yet."""

    name: str
    params: tuple[str, ...]
    lets: tuple[tuple[str, Expr], ...]
    results: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True)
class Procedure:
    """Statements that take the place of their call. Names in them are not resolved yet."""

    name: str
    params: tuple[str, ...]
    body: tuple[ast.stmt, ...]


@dataclass(frozen=True)
class Library:
    """The functions and procedures of a machine. locator: of their text; None without any."""

    functions: Mapping[str, Function]
    procedures: Mapping[str, Procedure]
    locator: Locator | None = None


def read_functions(machine: Machine) -> Library:
    """The machine's functions; those that return nothing are procedures. Raises UserError E0201, E0203, E0205."""
    return _functions(MeaningKey(machine))


@lru_cache(maxsize=128)
def _functions(key: MeaningKey) -> Library:
    """Read once for all machines that differ in prices alone: every instruction's semantics may call them."""
    machine = key.machine
    functions: dict[str, Function] = {}
    procedures: dict[str, Procedure] = {}
    locator = Locator(machine.functions) if machine.functions else None
    if locator:
        reserved = {*RESERVED, *(rule.name for rule in machine.rules)}
        for node in locator.parse():
            if not isinstance(node, ast.FunctionDef):
                raise fail("E0203", "only functions stand here", locator.span(node))
            if node.name in functions or node.name in procedures or node.name in reserved:
                raise fail("E0205", f"the name '{node.name}' is taken", locator.span(node))
            if any(isinstance(part, ast.Return) for part in ast.walk(node)):
                functions[node.name] = _function(node, locator)
            else:
                procedures[node.name] = Procedure(node.name, _params(node, locator), tuple(node.body))
    return Library(functions, procedures, locator)


def _params(node: ast.FunctionDef, locator: Locator) -> tuple[str, ...]:
    args = node.args
    plain = not (args.posonlyargs or args.vararg or args.kwonlyargs or args.kwarg or args.defaults or node.decorator_list)
    params = tuple(a.arg for a in args.args)
    if not plain or len(set(params)) != len(params):
        raise fail("E0203", f"{node.name}: a function has plain parameters only", locator.span(node))
    return params


def _function(node: ast.FunctionDef, locator: Locator) -> Function:
    params = _params(node, locator)
    lets: list[tuple[str, Expr]] = []
    for stmt in node.body:
        match stmt:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                lets.append((name, locator.convert(value)))
            case ast.Return(value=ast.Tuple(elts=values)):
                return Function(node.name, params, tuple(lets), tuple(map(locator.convert, values)), locator.span(node))
            case ast.Return(value=ast.expr() as value):
                return Function(node.name, params, tuple(lets), (locator.convert(value),), locator.span(node))
            case _:
                raise fail("E0203", "a function holds assignments and a return", locator.span(stmt))
    raise fail("E0203", f"{node.name} ends without a return", locator.span(node))


REDUCTIONS = {"+": "sum", "min": "reduce_min", "max": "reduce_max"}


def unparse_semantics(semantics: ir.Semantics) -> str:
    """The text of an instruction's semantics, a statement a line, four spaces a level."""
    return "\n".join(_Printer(semantics).block(semantics.body, "")) + "\n"


class _Printer:
    def __init__(self, semantics: ir.Semantics) -> None:
        self.semantics = semantics
        self.declared: set[str] = set()

    def block(self, body: Sequence[ir.Stmt], margin: str) -> list[str]:
        return [line for stmt in body for line in self._statement(stmt, margin)] or [f"{margin}pass"]

    def _statement(self, stmt: ir.Stmt, margin: str) -> list[str]:
        match stmt:
            case ir.For():
                return self._loop(stmt, margin)
            case ir.If():
                return self._branch(stmt, margin, "if")
            case ir.Let(name=name, value=value):
                return [f"{margin}{name} = {unparse(value)}"]
            case ir.SetTemp():
                return [margin + self._temporary(stmt)]
            case ir.Store(access=access, value=value, accumulate=accumulate):
                return [f"{margin}{_access(access)} {'+=' if accumulate else '='} {unparse(value)}"]
            case ir.Latch(register=register, index=index):
                return [f"{margin}{register}[{unparse(index)}] = fields"]
            case _:
                raise TypeError(stmt)

    def _branch(self, stmt: ir.If, margin: str, word: str) -> list[str]:
        before = set(self.declared)
        lines = [f"{margin}{word} {unparse(stmt.condition)}:", *self.block(stmt.then, margin + "    ")]
        both, self.declared = self.declared, before
        if len(stmt.other) == 1 and isinstance(stmt.other[0], ir.If):
            lines += self._branch(stmt.other[0], margin, "elif")
        elif stmt.other:
            lines += [f"{margin}else:", *self.block(stmt.other, margin + "    ")]
        self.declared &= both
        return lines

    def _loop(self, stmt: ir.For, margin: str) -> list[str]:
        heads: list[str] = []
        body: Sequence[ir.Stmt] = (stmt,)
        while len(body) == 1 and isinstance(body[0], ir.For):
            heads.append(_head(body[0]))
            body = body[0].body
        before = set(self.declared)
        lines = [f"{margin}for {', '.join(heads)}:", *self.block(body, margin + "    ")]
        self.declared = before
        return lines

    def _temporary(self, stmt: ir.SetTemp) -> str:
        kind = self.semantics.temps[stmt.name]
        name = f"{stmt.name}[{', '.join(stmt.lanes)}]"
        if stmt.accumulate:
            return f"{name} += {unparse(stmt.value)}"
        if stmt.name in self.declared:
            return f"{name} = {unparse(stmt.value)}"
        self.declared.add(stmt.name)
        return f"{name}: {kind.type if kind.overflow == 'error' else f'{kind.overflow}({kind.type})'} = {unparse(stmt.value)}"


def _head(stmt: ir.For) -> str:
    start = "" if stmt.start == ex.Const(0) else f"{unparse(stmt.start)}, "
    return f"{stmt.var} in range({start}{unparse(stmt.stop)})"


def unparse(e: Expr) -> str:
    """The text of a resolved expression, with the brackets it needs and no others."""
    return unparse_expression(ex.rewrite(e, _spelled), _leaf)


NAMES = {op: name for name, op in FLOAT_REDUCTIONS.items()}
OPERATORS = {"add": "+", "sub": "-", "mul": "*", "lt": "<", "le": "<=", "eq": "=="}


def _spelled(e: Expr) -> Expr | None:
    """Floating operations as they are written."""
    match e:
        case ir.Float(op=op, type=kind, values=values):
            parts = tuple(ex.rewrite(value, _spelled) for value in values)
            if op in OPERATORS:
                node = ex.Binary if op in ARITHMETIC.values() else ex.Compare
                return node(OPERATORS[op], *parts)
            if op == "neg":
                return ex.Unary("-", *parts)
            name = "divide" if op == "div" else op
            return ex.Call(ex.Name(name), (*parts, ex.Name(str(kind))) if op == "from_bits" else parts)
        case ir.ToFloat(value=value, type=kind, saturate=saturate):
            inner = ex.rewrite(value, _spelled)
            return ex.Call(ex.Name("saturate"), (inner, ex.Name(str(kind)))) if saturate else ex.Call(ex.Name(str(kind)), (inner,))
        case ir.FloatReduce(op="dot_exact", value=ir.Float(values=values)):
            return ex.Call(ex.Name("dot_exact"), tuple(ex.rewrite(value, _spelled) for value in values))
        case ir.FloatReduce(op=op, value=value, width=width):
            parts = (ex.rewrite(value, _spelled), *([ex.Const(width)] if width else []))
            return ex.Call(ex.Name(NAMES[op]), parts)
        case ir.ToInteger(value=value, rounding=rounding, type=kind):
            return ex.Call(ex.Name(f"round_{rounding}"), (ex.rewrite(value, _spelled), ex.Name(str(kind))))
        case _:
            return None


def _leaf(e: Expr) -> str:
    match e:
        case ir.FieldRef(name=name) | ir.Var(name=name) | ir.Place(level=name) | ir.Lane(name=name):
            return name
        case ir.RegisterRead(register=register, index=index, field_name=field_name):
            return f"{register}[{unparse(index)}]{'.' * bool(field_name)}{field_name}"
        case ir.ControlRead(access=access, member=member):
            return f"{_access(access)}{'.' * bool(member)}{member}"
        case ir.Load(access=access):
            return _access(access)
        case ir.Temp(name=name, lanes=lanes):
            return f"{name}[{', '.join(lanes)}]"
        case ir.Lookup(value=value, position=position):
            return _call("lookup", value, position)
        case ir.Reduce(op="+", value=ex.Binary(op="*", left=left, right=right)):
            return _call("dot", left, right)
        case ir.Reduce(op=op, value=value):
            return _call(REDUCTIONS[op], value)
        case ir.RoundShift(value=value, amount=amount, rounding=rounding):
            return _call(f"round_{rounding}", value, amount)
        case ir.Narrow(value=value, type=kind, overflow=overflow, low=low, high=high):
            limits = "" if overflow == "wrap" or (low, high) == (kind.low, kind.high) else f", {low}, {high}"
            return f"{overflow}({unparse(value)}, {kind}{limits})"
        case ir.Extreme(op=op, values=values):
            return _call(op, *values)
        case _:
            raise TypeError(e)


def _call(name: str, *args: Expr) -> str:
    return f"{name}({', '.join(map(unparse, args))})"


def _access(access: ir.Access) -> str:
    where = "".join(f".{level}({unparse(number)})" for level, number in access.at)
    lanes = [lane if isinstance(lane, str) else unparse(lane) for lane in access.lanes or ()]
    shown = f"[{', '.join(lanes)}]" if lanes else ""
    return f"{access.view.name}{where}[{', '.join(map(unparse, access.index))}]{shown}"
