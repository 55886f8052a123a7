"""Walks over resolved semantics: statements inside statements, and expressions with the addresses inside their accesses."""

from collections.abc import Iterator, Sequence

from toolchain.isa.semantics import ir
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr


def statements(body: Sequence[ir.Stmt]) -> Iterator[ir.Stmt]:
    """All statements at any depth, in the order of the text, each before those inside it."""
    for stmt in body:
        yield stmt
        match stmt:
            case ir.For(body=inner):
                yield from statements(inner)
            case ir.If(then=then, other=other):
                yield from statements((*then, *other))
            case _:
                pass


def expressions(stmt: ir.Stmt) -> tuple[Expr, ...]:
    """The expressions of a statement itself, not of the statements inside it."""
    match stmt:
        case ir.For(start=start, stop=stop):
            return start, stop
        case ir.If(condition=value) | ir.Let(value=value) | ir.SetTemp(value=value):
            return (value,)
        case ir.Store(access=access, value=value):
            return (*addresses(access), value)
        case ir.Latch(index=index):
            return (index,)
        case _:
            return ()


def addresses(access: ir.Access) -> tuple[Expr, ...]:
    """Every expression that decides what an access touches: its index, its instance, its fixed lanes."""
    return (*access.index, *(at for _, at in access.at), *(lane for lane in access.lanes or () if isinstance(lane, Expr)))


def nodes(e: Expr) -> Iterator[Expr]:
    """The node and all below it, those in the addresses of accesses too."""
    waiting = [e]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += (addresses(found.access) if isinstance(found, ir.Load | ir.ControlRead) else ex.children(found))[::-1]
