"""Units that run coupled: one starts while the other is at work, and reads what it writes as it comes."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from toolchain.spec.errors import fail
from toolchain.spec.model import Instruction, Memory, Unit, Watch
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
