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
    handed = sorted(assigned(body) & exposed(body)[0])
    sums = [key for key in handed if all(_adds(stmt, key) or isinstance(stmt, ir.Store) for stmt in statements(body) if _mentions(stmt, key))]
    return sums, [key for key in handed if key not in sums]


def exposed(body: Sequence[ir.Stmt]) -> tuple[frozenset[Key], frozenset[Key]]:
    """The names whose values from before the statements read, and those that they surely overwrite before they read them."""
    read, written = set[Key](), set[Key]()
    for stmt in body:
        read |= _reads(*expressions(stmt)) - written
        match stmt:
            case ir.For(var=var, body=inner):
                read |= exposed(inner)[0] - {(var, False)} - written
            case ir.If(then=then, other=other):
                (reads, writes), (reads_too, writes_too) = exposed(then), exposed(other)
                read |= (reads | reads_too) - written
                written |= writes & writes_too
            case ir.SetTemp(accumulate=True, name=name):
                read |= {(name, True)} - written
            case _:
                written |= {key for key in (_target(stmt),) if key}
    return frozenset(read), frozenset(written - read)


def _reads(*exprs: Expr) -> set[Key]:
    """The names in expressions."""
    parts = (part for e in exprs for part in nodes(e))
    return {(part.name, isinstance(part, ir.Temp)) for part in parts if isinstance(part, ir.Temp | ir.Var)}


def _mentions(stmt: ir.Stmt, key: Key) -> bool:
    return _target(stmt) == key or key in _reads(*expressions(stmt))


def _adds(stmt: ir.Stmt, key: Key) -> bool:
    """`x += term` or `x = x + term`, the term free of x."""
    match stmt:
        case ir.SetTemp(accumulate=True, value=term):
            pass
        case ir.Let(value=ex.Binary(op="+", left=ir.Var(name=name), right=term)) if (name, False) == key:
            pass
        case _:
            return False
    return _target(stmt) == key and key not in _reads(term)
