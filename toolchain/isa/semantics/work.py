"""How many iterations an instruction runs, counted before it runs them: what its fields ask for must end in reasonable time."""

from collections.abc import Iterator, Sequence

from toolchain.isa.semantics import ir
from toolchain.spec import expr as ex

MOST_ITERATIONS = 1 << 32
"""Iterations of one instruction: minutes in every engine. Real programs stay below a thousandth of it."""

TOO_MANY = f"the loops of this instruction run more than {MOST_ITERATIONS} times"
"""The text of E0706."""

Chain = tuple[ir.For, ...]
"""A loop and those nested in it whose bounds are known where the first one starts; `total_iterations` of their counts are run."""


def total_iterations(counts: Sequence[int]) -> int:
    """Iterations of loops inside each other, the outer ones' own as well; counts: outermost first, below 0 like 0."""
    total = 0
    for count in reversed(counts):
        total = max(count, 0) * (1 + total)
    return total


def chains(body: tuple[ir.Stmt, ...]) -> dict[int, Chain]:
    """By id of its first loop, outermost first: every loop of the statements is in exactly one chain."""
    found: dict[int, Chain] = {}
    inside: set[int] = set()
    for loop in _loops(body):
        if id(loop) not in inside:
            found[id(loop)] = chain = _chain(loop)
            inside.update(map(id, chain))
    return found


def _chain(first: ir.For) -> Chain:
    chain, changing = [first], _assigned((first,))
    while inner := next((s for s in chain[-1].body if isinstance(s, ir.For) and _fixed(s, changing)), None):
        chain.append(inner)
    return tuple(chain)


def _fixed(loop: ir.For, changing: frozenset[str]) -> bool:
    """Whether the bounds are safe to compute early: nothing that may change, nothing that may fail."""
    nodes = [e for bound in (loop.start, loop.stop) for e in ex.walk(bound)]
    names = {e.name for e in nodes if isinstance(e, ir.Var)}
    fails = any(isinstance(e, ir.ControlRead | ir.RegisterRead) or (isinstance(e, ex.Binary) and e.op in ("//", "%", "<<", ">>")) for e in nodes)
    return not fails and not names & changing


def _loops(body: tuple[ir.Stmt, ...]) -> Iterator[ir.For]:
    for stmt in body:
        match stmt:
            case ir.For(body=inner):
                yield stmt
                yield from _loops(inner)
            case ir.If(then=then, other=other):
                yield from _loops((*then, *other))
            case _:
                pass


def _assigned(body: tuple[ir.Stmt, ...]) -> frozenset[str]:
    """Loop variables and local names that the statements set."""
    found = frozenset[str]()
    for stmt in body:
        match stmt:
            case ir.For(var=var, body=inner):
                found |= {var} | _assigned(inner)
            case ir.If(then=then, other=other):
                found |= _assigned((*then, *other))
            case ir.Let(name=name):
                found |= {name}
            case _:
                pass
    return found
