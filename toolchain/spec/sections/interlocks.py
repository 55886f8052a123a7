"""Section sync.interlock: what the hardware orders without being told."""

from collections.abc import Collection, Iterator, Sequence

from toolchain.spec.context import Context
from toolchain.spec.errors import fail
from toolchain.spec.model import Instruction, Interlock, Memory, Unit, Watch
from toolchain.spec.sections.coupled import check_coupled, with_ports_of_guests
from toolchain.spec.sections.known import one_of
from toolchain.spec.sections.storage import absent, number_in
from toolchain.spec.suggest import nearest
from toolchain.spec.yaml_nodes import Node

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
