"""Section sync.interlock: orders that the hardware keeps by itself, and units that run coupled.

A coupled unit starts while the other one is at work, and reads its results as they come.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from toolchain.spec.context import Context
from toolchain.spec.errors import fail, nearest
from toolchain.spec.model import Instruction, Interlock, Memory, Unit, Watch
from toolchain.spec.sections.storage import absent, number_in
from toolchain.spec.sections.synchronisation import one_of
from toolchain.spec.yaml_nodes import Node


def check_coupled(pairs: Sequence[Watch], number: int, memories: Sequence[Memory], units: Sequence[Unit], node: Node) -> None:
    """Check that the interlock orders everything that two coupled units share. node: where the pair of that number is declared.

    Raises UserError E0146 with the reason why they cannot run so.
    """
    pair = pairs[number]
    if pair.lag is not None and (reason := next(_reasons(pairs, number, memories, {u.name: u for u in units}), "")):
        raise fail("E0146", f"units '{pair.source}' and '{pair.target}' cannot run coupled: {reason}", node.value["lag"].span)


def with_ports_of_guests(units: Sequence[Unit], instructions: Sequence[Instruction]) -> list[Unit]:
    """Units with the ports of all those that some instruction occupies beside its own: it may run on any of them."""
    lent = [unit for unit in units if any(unit.name in i.occupies for i in instructions)]
    reads, writes = [name for unit in lent for name in unit.reads], [name for unit in lent for name in unit.writes]
    return [replace(unit, reads=(*unit.reads, *reads), writes=(*unit.writes, *writes)) for unit in units]


def _reasons(pairs: Sequence[Watch], number: int, memories: Sequence[Memory], units: dict[str, Unit]) -> Iterator[str]:
    pair = pairs[number]
    source, target = units[pair.source], units[pair.target]
    if source is target:
        yield "they are one"
    yield from (f"neighbours in '{unit.name}' may overlap" for unit in (source, target) if unit.overlaps)
    yield from (f"'{target.name}' also writes '{name}'" for name in pair.memories if name in target.writes)
    same = [k for k, other in enumerate(pairs) if (other.source, other.target) == (pair.source, pair.target)]
    yield from ("they are coupled already" for k in same if k < number and pairs[k].lag is not None)
    watched = {name for k in same for name in pairs[k].memories}
    yield from (f"they share '{name}', which is not compared between them" for name in _shared(source, target, memories) if name not in watched)


def _shared(source: Unit, target: Unit, memories: Sequence[Memory]) -> Iterator[str]:
    """Memories on which they may meet; a latched register belongs to every unit."""
    for memory in memories:
        name, either = memory.name, (*target.reads, *target.writes)
        if memory.latches or _meets(name, source.writes, either) or _meets(name, source.reads, target.writes):
            yield name


def _meets(name: str, one: Collection[str], other: Collection[str]) -> bool:
    return name in one and name in other


MOST = 1 << 32
"""Instructions in a window, elements in a block."""
LIMITS = (("window", "a window"), ("looks_back", "a number of instructions"))


def interlock(context: Context, memories: Sequence[Memory], units: Sequence[Unit], instructions: Sequence[Instruction]) -> Interlock | None:
    """Memories that this configuration lacks are left out.

    Raises UserError E0107 for an unknown memory, unit or instruction, E0139 for a number below zero, E0146 for units that cannot run coupled.
    """
    sync = context.root.get("sync")
    node = sync.get("interlock") if sync else None
    if node is None:
        return None
    window, back = ((number_in(context, n, 0, MOST, what) or None) if (n := node.get(key)) else None for key, what in LIMITS)
    known, gone = [m.name for m in memories], absent(context)
    names = [u.name for u in units]
    looked = _listed(node, known, gone, tuple(known))
    pairs = list(_pairs(context, node, known, gone, names, looked)) or [Watch(a, b, looked) for a in names for b in names]
    for number, pair in enumerate(node.entries("pairs")):
        check_coupled(pairs, number, memories, with_ports_of_guests(units, instructions), pair)
    fences = tuple(one_of("instruction", entry, [i.name for i in instructions]) for entry in node.entries("fences"))
    return Interlock(tuple(pairs), window, back, tuple(_granularity(context, node, known, gone)), fences)


def _granularity(context: Context, node: Node, known: Collection[str], gone: Collection[str]) -> Iterator[tuple[str, int]]:
    for name, size in node.members("granularity"):
        if name not in known and name not in gone:
            raise fail("E0107", f"unknown memory '{name}'", size.key_span, nearest(name, known))
        if name in known:
            yield name, number_in(context, size, 0, MOST, "a granularity")


def _pairs(
    context: Context, node: Node, known: Collection[str], gone: Collection[str], units: Collection[str], looked: tuple[str, ...]
) -> Iterator[Watch]:
    for pair in node.entries("pairs"):
        source, target = (one_of("unit", pair.value[key], units) for key in ("from", "to"))
        lag = number_in(context, n, 0, MOST, "a lag") if (n := pair.get("lag")) else None
        yield Watch(source, target, _listed(pair, known, gone, looked), lag)


def _listed(node: Node, known: Collection[str], gone: Collection[str], otherwise: tuple[str, ...]) -> tuple[str, ...]:
    """The memories that a list names, of those that there are; `otherwise` where there is no list."""
    named = node.entries("memories")
    return tuple(one_of("memory", entry, known) for entry in named if entry.value not in gone) if named else otherwise
