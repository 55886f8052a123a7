"""The tensors that a schedule keeps on chip, or in a memory that streams share, and the rooms of weights that wait there."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from toolchain.schedule.form.plan import ChipBuffer, Schedule, ScheduledOperation
from toolchain.schedule.kernels.pools import Pool, wraps
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.kernels.rounds import RowRing
from toolchain.schedule.placement.dram_buffers import Need, Storage, lasting
from toolchain.schedule.placement.on_chip_allocation import Candidate, Residents
from toolchain.schedule.placement.shared_memory import SharedSlot, SharedSlots, room_of_copy
from toolchain.schedule.rows.row_loop import ring_name
from toolchain.schedule.tiling.near_weights import near_size, room_start, waiting, whole_size, with_room
from toolchain.schedule.tiling.tiles import Tiling
from toolchain.spec.errors import Diagnostic, UserError, nearest
from toolchain.spec.model import Machine, Memory
from toolchain.spec.yaml_nodes import Path

Pools = Mapping[str, tuple[Pool, ...]]


class Entry(NamedTuple):
    """A buffer on chip. path: where the file has it. name: on chip, where a tensor may have several rings that are loaded."""

    path: Path
    name: str
    buffer: ChipBuffer


def _entries(schedule: Schedule) -> Iterator[Entry]:
    yield from (Entry(("buffers", number), buffer.tensor, buffer) for number, buffer in enumerate(schedule.buffers))
    for number, (group, members) in enumerate(zip(schedule.groups, schedule.members, strict=True)):
        for index, load in enumerate(group.loads):
            yield Entry(("groups", number, "loads", index), ring_name(load.buffer.tensor, members), load.buffer)


def entry_of(schedule: Schedule, name: str) -> Entry:
    """The buffer with this name on chip."""
    return next(entry for entry in _entries(schedule) if entry.name == name)


def read_buffers(machine: Machine, schedule: Schedule, candidates: Mapping[str, Candidate], pools: Pools, shared: Collection[str] = ()) -> Residents:
    """candidates: buffers that may be on chip. pools: of the machine. shared: tensors in memories that streams share.

    Raises UserError E1404 for one that cannot be as the schedule says.
    """
    entries = [entry for entry in _entries(schedule) if entry.name not in shared]
    faults = [fault for number, entry in enumerate(entries) for fault in _faults(machine, schedule, entry, entries[:number], candidates, pools)]
    if faults:
        raise UserError(*faults)
    slots = {name: buffer.slot for _, name, buffer in entries}
    stored = {name: buffer.stored for _, name, buffer in entries}
    kept = {name: replace(candidate, stored=stored[name]) for name, candidate in candidates.items() if name in slots}
    depths = {(memory, pool.bank): pool.depth for memory, found in pools.items() for pool in found}
    rings = {
        name: RowRing(buffer.pitch, buffer.lines * buffer.pitch or depths[buffer.memory, buffer.slot.bank], *buffer.rounds)
        for _, name, buffer in entries
        if buffer.pitch
    }
    residents = Residents(slots, kept, schedule.numbers, pools, rings)
    if faults := list(_overlaps(schedule, residents)):
        raise UserError(*faults)
    return residents


def _faults(
    machine: Machine, schedule: Schedule, entry: Entry, before: Sequence[Entry], candidates: Mapping[str, Candidate], pools: Pools
) -> Iterator[Diagnostic]:
    path, name, buffer = entry
    candidate, (bank, address) = candidates.get(name), buffer.slot
    if candidate is None:
        text = f"'{buffer.tensor}' cannot stay on chip: no operation makes it in a form in which another one reads it there"
        yield schedule.fault("E1404", text, (*path, "tensor"), nearest(buffer.tensor, [c.name for c in candidates.values() if c.writes]))
        return
    if any(other.name == name for other in before):
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
        yield from _ring_faults(machine.memory[buffer.memory], schedule, path, buffer, candidate, pool)
    elif address + candidate.size > pool.depth:
        text = f"'{buffer.tensor}' takes {candidate.size} elements from {address} on, and a bank of '{buffer.memory}' has {pool.depth}"
        yield schedule.fault("E1404", text, (*path, "address"))


def _ring_faults(memory: Memory, schedule: Schedule, entry: Path, buffer: ChipBuffer, candidate: Candidate, pool: Pool) -> Iterator[Diagnostic]:
    """Faults of a ring of rows."""
    lines, path = candidate.lines, (*entry, "pitch")
    if lines is None:
        text = f"'{buffer.tensor}' cannot be a ring of rows in '{buffer.memory}'"
        yield schedule.fault("E1404", text, path, "a tensor that stays whole has no pitch")
    elif not buffer.lines and not wraps(memory, pool):
        text = f"'{buffer.memory}' does not wrap, so a ring in it has a number of lines"
        yield schedule.fault("E1404", text, path, "write lines, beside pitch")
    elif not lines.line <= buffer.pitch <= lines.most:
        text = f"the lines of '{buffer.tensor}' are {buffer.pitch} elements apart; they can be {lines.line} to {lines.most}"
        yield schedule.fault("E1404", text, path)
    elif 2 * buffer.overlap > buffer.lines:
        text = f"{buffer.overlap} of {buffer.lines} lines of '{buffer.tensor}' are made again in the next round; at most half of them can be"
        yield schedule.fault("E1404", text, (*entry, "overlap"), "more lines, or a smaller overlap")
    elif buffer.late and buffer.late >= buffer.lines:
        text = f"'{buffer.tensor}' begins in line {buffer.late} of a ring of {buffer.lines}"
        yield schedule.fault("E1404", text, (*entry, "late"), f"0 to {buffer.lines - 1}")
    elif buffer.slot.address + buffer.lines * buffer.pitch > pool.depth:
        text = f"'{buffer.tensor}' takes {buffer.lines * buffer.pitch} elements from {buffer.slot.address} on, and a bank has {pool.depth}"
        yield schedule.fault("E1404", text, (*entry, "lines" if buffer.lines else "address"))
    elif buffer.slot.address >= pool.depth:
        text = f"'{buffer.tensor}' begins at {buffer.slot.address}, and a bank of '{buffer.memory}' has {pool.depth}"
        yield schedule.fault("E1404", text, (*entry, "address"))


def _overlaps(schedule: Schedule, residents: Residents) -> Iterator[Diagnostic]:
    """Buffers that need the same room at the same time."""
    for pair in residents.collisions():
        one, two = (entry_of(schedule, name) for name in pair)
        text = f"'{one.buffer.tensor}' takes the room of '{two.buffer.tensor}' while both are needed"
        yield schedule.fault("E1404", text, (*one.path, "address"))


def shared_buffers(schedule: Schedule, candidates: SharedSlots) -> dict[int, ChipBuffer]:
    """By their numbers in the file, the entries that name the shared memory in which their tensor may stand."""
    found = ((number, buffer, candidates.get(buffer.tensor)) for number, buffer in enumerate(schedule.buffers))
    return {number: buffer for number, buffer, slot in found if slot is not None and slot.memory == buffer.memory}


def read_shared(machine: Machine, schedule: Schedule, storage: Storage, candidates: SharedSlots) -> dict[str, SharedSlot]:
    """candidates: the tensors that may stand there. Raises UserError E1404 for an entry that cannot be as the schedule says."""
    entries = shared_buffers(schedule, candidates)
    sizes = {number: candidates[buffer.tensor].size for number, buffer in entries.items()}
    faults = [fault for number, buffer in entries.items() for fault in _shared_faults(machine, schedule, number, buffer, sizes[number])]
    found = {buffer.tensor: replace(candidates[buffer.tensor], slot=buffer.slot) for buffer in entries.values()}
    faults = faults or list(_shared_overlaps(schedule, storage, found))
    if faults:
        raise UserError(*faults)
    return found


def _shared_faults(machine: Machine, schedule: Schedule, number: int, buffer: ChipBuffer, size: int) -> Iterator[Diagnostic]:
    """size: elements that the tensor takes."""
    (bank, address), path, room = buffer.slot, ("buffers", number), room_of_copy(machine, buffer.memory, schedule.copies)
    if any(other.tensor == buffer.tensor for other in schedule.buffers[:number]):
        yield schedule.fault("E1404", f"'{buffer.tensor}' is there twice", (*path, "tensor"))
    if buffer.stored or buffer.pitch:
        text = f"'{buffer.tensor}' stands in '{buffer.memory}' as a whole, and nowhere else"
        yield schedule.fault("E1404", text, (*path, "stored" if buffer.stored else "pitch"), "write stored: false, and no pitch")
    if bank:
        yield schedule.fault("E1404", f"addresses of '{buffer.memory}' count through all of it", (*path, "bank"), "write bank: 0")
    elif address + size > room:
        whose = " for each copy" if schedule.copies.times > 1 else ""
        text = f"'{buffer.tensor}' takes {size} elements from {address} on, and '{buffer.memory}' has {room}{whose}"
        yield schedule.fault("E1404", text, (*path, "address"))


def _shared_overlaps(schedule: Schedule, storage: Storage, shared: SharedSlots) -> Iterator[Diagnostic]:
    """Buffers that need the same room at the same time."""
    names, numbers = list(shared), {buffer.tensor: number for number, buffer in enumerate(schedule.buffers)}
    lives = {name: _life(schedule, storage, name) for name in names}
    for number, name in enumerate(names):
        for other in names[:number]:
            one, two = shared[name], shared[other]
            apart = one.slot.address + one.size <= two.slot.address or two.slot.address + two.size <= one.slot.address
            if one.memory == two.memory and not apart and lives[name].meets(lives[other]):
                text = f"'{name}' takes the room of '{other}' while both are needed"
                yield schedule.fault("E1404", text, ("buffers", numbers[name], "address"))


def _life(schedule: Schedule, storage: Storage, name: str) -> Need:
    buffer = lasting(storage.buffers[name], schedule.numbers)
    return Need(0, buffer.first, buffer.last)


def instances(schedule: Schedule, shared: Mapping[str, set[int]]) -> dict[str, int]:
    """The one instance that each buffer stands in. shared: the instances of the streams that make and read it.

    Raises UserError E1404 where these are several.
    """
    faults: list[Diagnostic] = []
    for number, buffer in enumerate(schedule.buffers):
        if len(shared.get(buffer.tensor, ())) > 1:
            text = f"'{buffer.tensor}' cannot stay on chip: streams with a '{buffer.memory}' of their own make or read it"
            faults.append(schedule.fault("E1404", text, ("buffers", number), "without an entry it goes through DRAM"))
    if faults:
        raise UserError(*faults)
    return {name: min(found) for name, found in shared.items()}


def read_near(machine: Machine, schedule: Schedule, problems: Sequence[Problem], tilings: Sequence[Tiling]) -> list[Problem]:
    """The operations with the rooms of their weights. Raises UserError E1404 for a room that cannot be as the schedule says."""
    found, faults = list[Problem](), list[Diagnostic]()
    for (path, operation), problem, tiling, number in zip(schedule.entries(), problems, tilings, schedule.numbers, strict=True):
        group = schedule.groups[number]
        if len(group.operations) > 1 and operation.near:
            faults.append(schedule.fault("E1404", f"weights of '{operation.name}' cannot wait: it shares a loop with others", (*path, "near")))
        if operation.near and schedule.copies.times > 1 and not schedule.multicast:
            text = f"weights of '{operation.name}' wait in a memory of several copies, which do not take loads at once"
            faults.append(schedule.fault("E1404", text, (*path, "near"), "`multicast: true` in the schedule's head"))
        faults += _near_faults(machine, schedule, (path, operation), (problem, tiling), max(len(group.streams), 1))
        for tensor, room in operation.near.items():
            problem = with_room(problem, tensor, *room)
        found.append(problem)
    if faults:
        raise UserError(*faults)
    return found


def _near_faults(
    machine: Machine, schedule: Schedule, entry: tuple[Path, ScheduledOperation], planned: tuple[Problem, Tiling], streams: int
) -> Iterator[Diagnostic]:
    """streams: that share the operation's tiles."""
    (path, operation), (problem, tiling) = entry, planned
    able = {tensor.name: (tensor, waits) for tensor, waits in waiting(problem)}
    for name, (first, size) in operation.near.items():
        place = (*path, "near", name)
        if name not in able:
            text = f"'{name}' of '{operation.name}' cannot wait in a memory that streams share: kernel '{operation.kernel}' does not say so"
            yield schedule.fault("E1404", text, place, nearest(name, able))
            continue
        tensor, waits = able[name]
        whole, start = whole_size(problem, tensor, waits), room_start(machine, waits.memory, schedule.copies.weights)
        needed = near_size(problem, tiling, waits.by, whole, streams)
        if size != needed:
            yield schedule.fault("E1404", f"'{name}' of '{operation.name}' has a room of {size} elements, and its tiles need {needed}", place)
        elif first < start or first + size > start + schedule.copies.weights:
            text = f"'{name}' of '{operation.name}' takes {first} to {first + size - 1} of '{waits.memory}'"
            yield schedule.fault("E1404", f"{text}, where the room for weights is {start} to {start + schedule.copies.weights - 1}", place)
