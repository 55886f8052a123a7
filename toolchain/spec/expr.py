"""The integer expression language of machine descriptions: parsed with `ast`, never executed.

One grammar serves parameters, constraints, routing, timing and the semantics language, which adds leaves of
its own (toolchain/isa/semantics/ir.py). `//`, `%` and `>>` floor, as in Python; comparisons and logic give 0 or 1.
Strings, floating-point numbers and other tokens that Python's parser would take are refused first.
"""

import ast
import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from toolchain.spec.errors import Span, fail

Locate = Callable[[int, int], Span]
"""Maps a line (from 1) and a column (from 0) of a text of its own to its place in the file."""

_ODD = re.compile(r"""["'\\`$?!](?!=)|[^\x00-\x7f]|[\x00-\x08\x0b-\x1f]""")
_NUMBER = re.compile(r"(?<![A-Za-z0-9_])[0-9][A-Za-z0-9_.]*")
_INTEGER = re.compile(r"(0|[1-9][0-9]*(_[0-9]+)*|0x[0-9a-fA-F]+(_[0-9a-fA-F]+)*|0b[01]+(_[01]+)*)\Z")
MAX_DIGITS = 80


def check_text(text: str, locate: Locate) -> None:
    """Raises UserError E0121 for a character or number outside the language; comments may hold anything."""
    for number, line in enumerate(text.split("\n"), 1):
        code = line.partition("#")[0]
        if found := _ODD.search(code):
            what = "text in quotes" if found.group() in "'\"" else f"the character {found.group()!a}"
            raise fail("E0121", f"{what} is not part of the expression language", locate(number, found.start()))
        for found in _NUMBER.finditer(code):
            if not _INTEGER.match(found.group()) or len(found.group()) > MAX_DIGITS:
                raise fail("E0121", f"'{found.group()[:MAX_DIGITS]}' is not an integer", locate(number, found.start()))


@dataclass(frozen=True, slots=True)
class Expr:
    """Base of every expression node; spans do not take part in comparisons."""

    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Const(Expr):
    value: int


@dataclass(frozen=True, slots=True)
class Name(Expr):
    """An identifier that its context has not resolved yet."""

    id: str


@dataclass(frozen=True, slots=True)
class Member(Expr):
    """`base.name`"""

    base: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Index(Expr):
    """`base[index, ...]`"""

    base: Expr
    index: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Unary(Expr):
    """op: `-`, `~` or `not`"""

    op: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """op: `+ - * // % << >> & | ^`"""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Compare(Expr):
    """op: `== != < <= > >=`; chains become `and`."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Logic(Expr):
    """op: `and` or `or`, lazy"""

    op: str
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Choose(Expr):
    """`then if condition else other`, lazy: the untaken side is never evaluated"""

    condition: Expr
    then: Expr
    other: Expr


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """A call of a named function; the callee may be `name` or `object.name`."""

    function: Expr
    args: tuple[Expr, ...]


BINARY: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip
UNARY: dict[type[ast.AST], str] = {ast.USub: "-", ast.Invert: "~", ast.Not: "not"}
COMPARE: dict[type[ast.AST], str] = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


MAX_DEPTH = 64
"""How deep an expression may nest, so that no walk over one meets Python's own limit."""


def parse_expr(text: str, locate: Locate) -> Expr:
    """Parses one expression. Raises UserError E0120 for a syntax error, E0121 for a construct outside the grammar."""
    check_text(text.strip(), locate)
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line, column = getattr(error, "lineno", 1) or 1, getattr(error, "offset", 1) or 1
        raise fail("E0120", f"cannot read the expression '{_short(text.strip())}'", locate(line, column - 1)) from None
    return convert(tree.body, locate)


def _short(text: str) -> str:
    return text if len(text) <= 60 and "\n" not in text else f"{text.splitlines()[0][:57]}..."


def convert(node: ast.expr, locate: Locate, depth: int = 0) -> Expr:
    """Turns a Python expression tree into ours, refusing whatever the grammar does not name, or nesting past MAX_DEPTH."""
    span = locate(node.lineno, node.col_offset)
    if depth > MAX_DEPTH:
        raise fail("E0120", f"an expression nests more than {MAX_DEPTH} deep", span, "give a part of it a name")

    def sub(child: ast.expr) -> Expr:
        return convert(child, locate, depth + 1)

    match node:
        case ast.Constant(value=bool() as value):
            return Const(int(value), span=span)
        case ast.Constant(value=int() as value):
            return Const(value, span=span)
        case ast.Name(id=name):
            return Name(name, span=span)
        case ast.Attribute(value=base, attr=name):
            return Member(sub(base), name, span=span)
        case ast.Subscript(value=base, slice=ast.Tuple(elts=items)) if items:
            return Index(sub(base), tuple(map(sub, items)), span=span)
        case ast.Subscript(value=base, slice=item):
            return Index(sub(base), (sub(item),), span=span)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in UNARY:
            return Unary(UNARY[type(op)], sub(operand), span=span)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
            return Binary(BINARY[type(op)], sub(left), sub(right), span=span)
        case ast.BoolOp(op=op, values=values):
            return Logic("and" if isinstance(op, ast.And) else "or", tuple(map(sub, values)), span=span)
        case ast.IfExp(test=test, body=body, orelse=other):
            return Choose(sub(test), sub(body), sub(other), span=span)
        case ast.Call(func=function, args=args, keywords=[]):
            return Call(sub(function), tuple(map(sub, args)), span=span)
        case ast.Compare():
            return _comparison(node, locate, sub)
        case _:
            raise fail("E0121", f"'{_source(node)}' is not part of the expression language", span)


def _source(node: ast.expr) -> str:
    try:
        return _short(ast.unparse(node))
    except RecursionError:
        return "this"


def _comparison(node: ast.Compare, locate: Locate, sub: Callable[[ast.expr], Expr]) -> Expr:
    span = locate(node.lineno, node.col_offset)
    sides = [sub(side) for side in (node.left, *node.comparators[:-1])]
    parts: list[Expr] = []
    for left, op, right in zip(sides, node.ops, node.comparators, strict=True):
        if isinstance(op, ast.In | ast.NotIn) and isinstance(right, ast.Tuple | ast.List) and right.elts:
            wanted = tuple(Compare("==", left, sub(item), span=span) for item in right.elts)
            member: Expr = wanted[0] if len(wanted) == 1 else Logic("or", wanted, span=span)
            parts.append(Unary("not", member, span=span) if isinstance(op, ast.NotIn) else member)
        elif type(op) in COMPARE:
            parts.append(Compare(COMPARE[type(op)], left, sub(right), span=span))
        else:
            raise fail("E0121", f"'{_source(node)}' is not part of the expression language", span)
    return parts[0] if len(parts) == 1 else Logic("and", tuple(parts), span=span)


PLAIN = (int, str, bool)
"""Types of members that hold no expressions."""
TWO_SIDED = frozenset((Binary, Compare))
"""Most nodes that are no leaves; they are walked without asking for the names of their members."""


@functools.cache
def _members(kind: type[Expr]) -> tuple[str, ...]:
    """The names of members in which a node of this kind may hold others; asked for at every node, and slow to find out."""
    return tuple(member.name for member in fields(kind) if member.name != "span" and member.type not in PLAIN)


def children(expr: Expr) -> list[Expr]:
    """The direct sub-expressions of any node, also of leaves that other modules add."""
    kind = type(expr)
    if kind in TWO_SIDED:
        return [expr.left, expr.right]  # pyright: ignore
    found: list[Expr] = []
    for name in _members(kind):
        value: object = getattr(expr, name)
        if isinstance(value, Expr):
            found.append(value)
        elif isinstance(value, tuple):
            found += [part for part in value if isinstance(part, Expr)]  # pyright: ignore[reportUnknownVariableType]
    return found


def walk(expr: Expr) -> Iterator[Expr]:
    """The node and everything below it, outermost first."""
    waiting = [expr]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += children(found)[::-1]


def conjuncts(e: Expr) -> Iterator[Expr]:
    """The conditions that must all hold for `e` to hold."""
    match e:
        case Logic(op="and", values=values):
            for value in values:
                yield from conjuncts(value)
        case Unary(op="not", value=Logic(op="or", values=values)):
            for value in values:
                yield from conjuncts(Unary("not", value))
        case Unary(op="not", value=Unary(op="not", value=value)):
            yield from conjuncts(value)
        case _:
            yield e


def value_names(expr: Expr) -> list[str]:
    """Every name of a value, from left to right; not those of functions."""
    if type(expr) is Const:  # many are one constant or one name
        return []
    found: list[str] = []
    waiting = [expr]
    while waiting:
        part = waiting.pop()
        kind = type(part)
        if kind is Name:
            found.append(part.id)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType]
        elif kind in TWO_SIDED:
            waiting += part.right, part.left  # pyright: ignore
        elif kind is not Const:
            waiting += (part.args if isinstance(part, Call) else children(part))[::-1]
    return found


def rewrite(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Rebuilds the tree top-down; a node from `change` stands instead, untouched. A node without changes below it stays the same object."""
    changed = change(expr)
    if changed is not None:
        return changed
    kind = type(expr)
    if kind in TWO_SIDED:
        left, right = rewrite(expr.left, change), rewrite(expr.right, change)  # pyright: ignore
        return expr if left is expr.left and right is expr.right else kind(expr.op, left, right, span=expr.span)  # pyright: ignore
    members = _members(kind)
    if not members:
        return expr
    new: dict[str, object] = {}
    for name in members:
        old: object = getattr(expr, name)
        if isinstance(old, Expr):
            value = rewrite(old, change)
            if value is not old:
                new[name] = value
        elif isinstance(old, tuple):
            parts = tuple(rewrite(v, change) if isinstance(v, Expr) else v for v in old)  # pyright: ignore
            if any(one is not other for one, other in zip(parts, old, strict=True)):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
                new[name] = parts
    return replaced(expr, new) if new else expr


def replaced(expr: Expr, new: Mapping[str, object]) -> Expr:
    """The node with other members, as `dataclasses.replace` makes it in three times the time."""
    kind = type(expr)
    members: dict[str, Any] = {name: new[name] if name in new else getattr(expr, name) for name in _all_members(kind)}
    return kind(**members)


@functools.cache
def _all_members(kind: type[Expr]) -> tuple[str, ...]:
    return tuple(member.name for member in fields(kind))
