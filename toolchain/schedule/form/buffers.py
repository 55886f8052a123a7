"""The tensors that stay on chip, as a schedule has them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from toolchain.schedule.form.schedule import ChipBuffer, Schedule
from toolchain.schedule.kernels.pools import Pool, wraps
from toolchain.schedule.placement.residency import Candidate, Residents, RowRing
from toolchain.spec.errors import Diagnostic, UserError
from toolchain.spec.model import Machine, Memory
from toolchain.spec.suggest import nearest

Pools = Mapping[str, tuple[Pool, ...]]


def read_buffers(machine: Machine, schedule: Schedule, candidates: Mapping[str, Candidate], pools: Pools) -> Residents:
    """candidates: what may stay on chip. pools: of the machine. Raises UserError E1404 for a buffer that cannot be as the schedule says."""
    faults = [fault for number, buffer in enumerate(schedule.buffers) for fault in _faults(machine, schedule, number, buffer, candidates, pools)]
    if faults:
        raise UserError(*faults)
    slots = {buffer.tensor: buffer.slot for buffer in schedule.buffers}
    stored = {buffer.tensor: buffer.stored for buffer in schedule.buffers}
    kept = {name: replace(candidate, stored=stored[name]) for name, candidate in candidates.items() if name in slots}
    depths = {(memory, pool.bank): pool.depth for memory, found in pools.items() for pool in found}
    found = {
        buffer.tensor: RowRing(buffer.pitch, buffer.lines * buffer.pitch or depths[buffer.memory, buffer.slot.bank], buffer.lines)
        for buffer in schedule.buffers
        if buffer.pitch
    }
    residents = Residents(slots, kept, schedule.numbers, pools, found)
    if faults := list(_overlaps(schedule, residents)):
        raise UserError(*faults)
    return residents


def _faults(
    machine: Machine, schedule: Schedule, number: int, buffer: ChipBuffer, candidates: Mapping[str, Candidate], pools: Pools
) -> Iterator[Diagnostic]:
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
    if buffer.pitch and (not candidate.reads or len({schedule.numbers[use.operation] for use in candidate.writes}) > 1):
        text = f"'{buffer.tensor}' is a ring of rows, and no one group makes and reads it"
        yield schedule.fault("E1404", text, (*path, "pitch"), "put its operations into one group, or keep it whole: without a pitch")
        return
    if candidate.stored and not buffer.stored:
        text = f"'{buffer.tensor}' is needed in DRAM as well: it is a result, or an operation reads it there"
        yield schedule.fault("E1404", text, (*path, "stored"), "write stored: true")
    pool = next((p for p in pools[buffer.memory] if p.bank == bank), None)
    if pool is None:
        banks = ", ".join(str(p.bank) for p in pools[buffer.memory])
        yield schedule.fault("E1404", f"no pool of '{buffer.memory}' begins with bank {bank}", (*path, "bank"), f"known: {banks}")
    elif buffer.pitch:
        yield from _ring_faults(machine.memory[buffer.memory], schedule, number, buffer, candidate, pool)
    elif address + candidate.size > pool.depth:
        text = f"'{buffer.tensor}' takes {candidate.size} elements from {address} on, and a bank of '{buffer.memory}' has {pool.depth}"
        yield schedule.fault("E1404", text, (*path, "address"))


def _ring_faults(memory: Memory, schedule: Schedule, number: int, buffer: ChipBuffer, candidate: Candidate, pool: Pool) -> Iterator[Diagnostic]:
    """Faults of a ring of rows."""
    lines, path = candidate.lines, ("buffers", number, "pitch")
    if lines is None:
        text = f"'{buffer.tensor}' cannot be a ring of rows in '{buffer.memory}'"
        yield schedule.fault("E1404", text, path, "a tensor that stays whole has no pitch")
    elif not buffer.lines and not wraps(memory, pool):
        text = f"'{buffer.memory}' does not wrap, so a ring in it has a number of lines"
        yield schedule.fault("E1404", text, path, "write lines, beside pitch")
    elif not lines.line <= buffer.pitch <= lines.most:
        text = f"the lines of '{buffer.tensor}' are {buffer.pitch} elements apart; they can be {lines.line} to {lines.most}"
        yield schedule.fault("E1404", text, path)
    elif buffer.slot.address + buffer.lines * buffer.pitch > pool.depth:
        text = f"'{buffer.tensor}' takes {buffer.lines * buffer.pitch} elements from {buffer.slot.address} on, and a bank has {pool.depth}"
        yield schedule.fault("E1404", text, ("buffers", number, "lines" if buffer.lines else "address"))
    elif buffer.slot.address >= pool.depth:
        text = f"'{buffer.tensor}' begins at {buffer.slot.address}, and a bank of '{buffer.memory}' has {pool.depth}"
        yield schedule.fault("E1404", text, ("buffers", number, "address"))


def _overlaps(schedule: Schedule, residents: Residents) -> Iterator[Diagnostic]:
    """Buffers that need the same room at the same time."""
    numbers = {buffer.tensor: number for number, buffer in enumerate(schedule.buffers)}
    for name, other in residents.collisions():
        yield schedule.fault("E1404", f"'{name}' takes the room of '{other}' while both are needed", ("buffers", numbers[name], "address"))
