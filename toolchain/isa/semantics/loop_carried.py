"""Values that one iteration of a loop hands to the next: sums that only grow by a term, and everything else that is read before it is written."""

from collections.abc import Sequence

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.traverse import expressions, nodes, statements
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr

Key = tuple[str, bool]
"""The name of a variable or (True) of a lane temporary."""


def assigned(body: Sequence[ir.Stmt]) -> frozenset[Key]:
    """Everything that the statements assign, at any depth, loop variables too."""
    return frozenset(key for stmt in statements(body) if (key := _target(stmt)))


def _target(stmt: ir.Stmt) -> Key | None:
    match stmt:
        case ir.Let(name=name) | ir.For(var=name):
            return name, False
        case ir.SetTemp(name=name):
            return name, True
        case _:
            return None


def carried(body: Sequence[ir.Stmt]) -> tuple[list[Key], list[Key]]:
    """(sums, others), in order of name. A sum is read by nothing but its own additions and writes to memory."""
    handed = sorted(key for key in assigned(body) if exposed(body, key)[0])
    sums = [key for key in handed if all(_adds(stmt, key) or isinstance(stmt, ir.Store) for stmt in statements(body) if _mentions(stmt, key))]
    return sums, [key for key in handed if key not in sums]


def exposed(body: Sequence[ir.Stmt], key: Key) -> tuple[bool, bool]:
    """Whether the statements read the value from before, and whether they surely overwrite it."""
    for stmt in body:
        if any(_is(part, key) for e in expressions(stmt) for part in nodes(e)):
            return True, False
        match stmt:
            case ir.For(var=var, body=inner):
                if key != (var, False) and exposed(inner, key)[0]:
                    return True, False
            case ir.If(then=then, other=other):
                (reads, writes), (reads_too, writes_too) = exposed(then, key), exposed(other, key)
                if reads or reads_too:
                    return True, False
                if writes and writes_too:
                    return False, True
            case ir.SetTemp(accumulate=True):
                if _target(stmt) == key:
                    return True, False
            case _:
                if _target(stmt) == key:
                    return False, True
    return False, False


def _mentions(stmt: ir.Stmt, key: Key) -> bool:
    return _target(stmt) == key or any(_is(part, key) for e in expressions(stmt) for part in nodes(e))


def _adds(stmt: ir.Stmt, key: Key) -> bool:
    """`x += term` or `x = x + term`, the term free of x."""
    match stmt:
        case ir.SetTemp(accumulate=True, value=term):
            pass
        case ir.Let(value=ex.Binary(op="+", left=ir.Var(name=name), right=term)) if (name, False) == key:
            pass
        case _:
            return False
    return _target(stmt) == key and not any(_is(part, key) for part in nodes(term))


def _is(e: Expr, key: Key) -> bool:
    return (isinstance(e, ir.Temp) and key == (e.name, True)) or (isinstance(e, ir.Var) and key == (e.name, False))
