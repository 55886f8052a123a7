"""Semantics text to Python syntax trees with positions in the machine's file, of a limited depth; and the functions in it."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from toolchain.spec import expr as ex
from toolchain.spec.errors import Span, fail
from toolchain.spec.evaluate import RESERVED
from toolchain.spec.expr import Expr, check_text
from toolchain.spec.fingerprint import MeaningKey
from toolchain.spec.model import Machine, Text

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
