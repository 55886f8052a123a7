"""Writes an expression back as text that parses to the same tree."""

from collections.abc import Callable

from toolchain.spec.expr import Binary, Call, Choose, Compare, Const, Expr, Index, Logic, Member, Name, Unary

_BINARY = {"|": 6, "^": 7, "&": 8, "<<": 9, ">>": 9, "+": 10, "-": 10, "*": 11, "//": 11, "%": 11}
_CHOOSE, _OR, _AND, _NOT, _COMPARE, _UNARY, _ATOM = 1, 2, 3, 4, 5, 12, 14
Leaf = Callable[[Expr], str]
"""Text of a node that this module does not know; taken as it is, without brackets."""


def unparse(expr: Expr, leaf: Leaf | None = None) -> str:
    """The shortest bracketing that keeps the tree: `parse_expr(unparse(e)) == e` for every tree the parser can make."""
    return _text(expr, 0, leaf or _unknown)


def _unknown(expr: Expr) -> str:
    raise TypeError(f"no text for {type(expr).__name__}")


def _text(expr: Expr, least: int, leaf: Leaf) -> str:
    level, text = _piece(expr, leaf)
    return f"({text})" if level < least else text


def _piece(expr: Expr, leaf: Leaf) -> tuple[int, str]:
    """Binding strength and text; operands bind at least as strongly as their side needs."""

    def at(e: Expr, least: int) -> str:
        return _text(e, least, leaf)

    match expr:
        case Const(value=value):
            return (_ATOM, str(value)) if value >= 0 else (_UNARY, str(value))
        case Name(id=name):
            return _ATOM, name
        case Member(base=base, name=name):
            return _ATOM, f"{_base(base, leaf)}.{name}"
        case Index(base=base, index=index):
            return _ATOM, f"{_base(base, leaf)}[{', '.join(at(i, 1) for i in index)}]"
        case Unary(op="not", value=value):
            return _NOT, f"not {at(value, _NOT)}"
        case Unary(op=op, value=value):
            return _UNARY, f"{op}{at(value, _UNARY)}"
        case Binary(op=op, left=left, right=right):
            level = _BINARY[op]
            return level, f"{at(left, level)} {op} {at(right, level + 1)}"
        case Compare(op=op, left=left, right=right):
            return _COMPARE, f"{at(left, _COMPARE + 1)} {op} {at(right, _COMPARE + 1)}"
        case Logic(op=op, values=values):
            level = _AND if op == "and" else _OR
            return level, f" {op} ".join(at(v, level + 1) for v in values)
        case Choose(condition=condition, then=then, other=other):
            return _CHOOSE, f"{at(then, _CHOOSE + 1)} if {at(condition, _CHOOSE + 1)} else {at(other, _CHOOSE)}"
        case Call(function=function, args=args):
            return _ATOM, f"{_base(function, leaf)}({', '.join(at(a, 1) for a in args)})"
        case _:
            return _ATOM, leaf(expr)


def _base(expr: Expr, leaf: Leaf) -> str:
    """The operand before a dot or bracket; a number needs its own brackets there."""
    text = _text(expr, _ATOM, leaf)
    return f"({text})" if isinstance(expr, Const) else text
