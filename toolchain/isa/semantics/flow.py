"""Data flow within an instruction: the writes that each value read as data reaches."""

from collections.abc import Mapping

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.traverse import statements
from toolchain.spec.expr import Expr, walk


def value_flows(semantics: ir.Semantics) -> Mapping[str, frozenset[int]]:
    """By memory that is read as data: the numbers of the accesses that write what was made of it."""
    temps = _temps(semantics)
    found: dict[str, frozenset[int]] = {}
    for stmt in statements(semantics.body):
        match stmt:
            case ir.Store(access=access, value=value, accumulate=accumulate):
                own = frozenset((access.view.memory,)) if accumulate else frozenset[str]()
                for memory in sorted(_sources(value, temps) | own):
                    found[memory] = found.get(memory, frozenset()) | {access.number}
            case ir.SetTemp(value=value):
                for memory in sorted(_sources(value, temps)):
                    found.setdefault(memory, frozenset())
            case _:
                pass
    return found


def _temps(semantics: ir.Semantics) -> Mapping[str, frozenset[str]]:
    """The memories that each lane temporary may hold values of, whatever the order: loops bring them back."""
    held: dict[str, frozenset[str]] = {}
    settled = False
    while not settled:
        settled = True
        for stmt in statements(semantics.body):
            if isinstance(stmt, ir.SetTemp) and not (more := _sources(stmt.value, held)) <= held.get(stmt.name, frozenset()):
                held[stmt.name] = held.get(stmt.name, frozenset()) | more
                settled = False
    return held


def _sources(e: Expr, temps: Mapping[str, frozenset[str]]) -> frozenset[str]:
    loads = [frozenset((node.access.view.memory,)) for node in walk(e) if isinstance(node, ir.Load)]
    return frozenset[str]().union(*loads, *(temps.get(node.name, frozenset()) for node in walk(e) if isinstance(node, ir.Temp)))
