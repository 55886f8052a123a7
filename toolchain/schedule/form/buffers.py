"""The tensors that stay on chip, as a schedule has them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from toolchain.schedule.form.schedule import ChipBuffer, Schedule
from toolchain.schedule.kernels.pools import Pool
from toolchain.schedule.placement.residency import Candidate, Residents, left_beside
from toolchain.spec.errors import Diagnostic, UserError
from toolchain.spec.suggest import nearest

Pools = Mapping[str, tuple[Pool, ...]]


def read_buffers(schedule: Schedule, candidates: Mapping[str, Candidate], pools: Pools, operations: int) -> Residents:
    """candidates: what may stay on chip. pools: of the machine. Raises UserError E1404 for a buffer that cannot be as the schedule says."""
    faults = [fault for number, buffer in enumerate(schedule.buffers) for fault in _faults(schedule, number, buffer, candidates, pools)]
    if not faults:
        faults = list(_overlaps(schedule, candidates))
    if faults:
        raise UserError(*faults)
    slots = {buffer.tensor: buffer.slot for buffer in schedule.buffers}
    stored = {buffer.tensor: buffer.stored for buffer in schedule.buffers}
    kept = {name: replace(candidate, stored=stored[name]) for name, candidate in candidates.items() if name in slots}
    return Residents(slots, kept, tuple(left_beside(kept, slots, pools, index) for index in range(operations)))


def _faults(schedule: Schedule, number: int, buffer: ChipBuffer, candidates: Mapping[str, Candidate], pools: Pools) -> Iterator[Diagnostic]:
    path, (bank, address) = ("buffers", number), buffer.slot
    candidate = candidates.get(buffer.tensor)
    if candidate is None:
        text = f"'{buffer.tensor}' cannot stay on chip: no operation makes it in a form in which another one reads it there"
        yield schedule.fault("E1404", text, (*path, "tensor"), nearest(buffer.tensor, candidates))
        return
    if any(other.tensor == buffer.tensor for other in schedule.buffers[:number]):
        yield schedule.fault("E1404", f"'{buffer.tensor}' is there twice", (*path, "tensor"))
    if candidate.memory != buffer.memory:
        yield schedule.fault("E1404", f"'{buffer.tensor}' stays in '{candidate.memory}', not in '{buffer.memory}'", (*path, "memory"))
        return
    if candidate.stored and not buffer.stored:
        text = f"'{buffer.tensor}' is needed in DRAM as well: it is a result, or an operation reads it there"
        yield schedule.fault("E1404", text, (*path, "stored"), "write stored: true")
    pool = next((p for p in pools[buffer.memory] if p.bank == bank), None)
    if pool is None:
        banks = ", ".join(str(p.bank) for p in pools[buffer.memory])
        yield schedule.fault("E1404", f"no pool of '{buffer.memory}' begins with bank {bank}", (*path, "bank"), f"known: {banks}")
    elif address + candidate.size > pool.depth:
        text = f"'{buffer.tensor}' takes {candidate.size} elements from {address} on, and a bank of '{buffer.memory}' has {pool.depth}"
        yield schedule.fault("E1404", text, (*path, "address"))


def _overlaps(schedule: Schedule, candidates: Mapping[str, Candidate]) -> Iterator[Diagnostic]:
    """Buffers that need the same room at the same time, but for those that are made over another, place by place."""
    for number, buffer in enumerate(schedule.buffers):
        for other in schedule.buffers[:number]:
            one, two = candidates[buffer.tensor], candidates[other.tensor]
            if _share(buffer, other, one, two) and not (buffer.slot == other.slot and (one.name in two.over or two.name in one.over)):
                text = f"'{buffer.tensor}' takes the room of '{other.tensor}' while both are needed"
                yield schedule.fault("E1404", text, ("buffers", number, "address"))


def _share(buffer: ChipBuffer, other: ChipBuffer, one: Candidate, two: Candidate) -> bool:
    """Whether both need some element at some moment."""
    apart = buffer.slot.address + one.size <= other.slot.address or other.slot.address + two.size <= buffer.slot.address
    return not apart and one.memory == two.memory and buffer.slot.bank == other.slot.bank and one.meets(two)


def live_buffers(residents: Residents, operation: int, memory: str) -> Sequence[tuple[str, int, int, int]]:
    """Name, bank, first address and size of each buffer of a memory that is on chip during an operation."""
    live = [c for c in residents.live(operation) if c.memory == memory]
    return [(c.name, residents.slots[c.name].bank, residents.slots[c.name].address, c.size) for c in live]
