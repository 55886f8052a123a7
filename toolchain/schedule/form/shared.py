"""The tensors of a schedule that stand in a memory that streams share."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from toolchain.schedule.form.schedule import ChipBuffer, Schedule
from toolchain.schedule.placement.arena import Need
from toolchain.schedule.placement.dram_buffers import Storage, lasting
from toolchain.schedule.placement.shared_memory import SharedSlot, SharedSlots, room_of_copy
from toolchain.spec.errors import Diagnostic, UserError
from toolchain.spec.model import Machine


def shared_buffers(schedule: Schedule, candidates: SharedSlots) -> dict[int, ChipBuffer]:
    """By their numbers in the file, the entries that name the shared memory in which their tensor may stand."""
    found = ((number, buffer, candidates.get(buffer.tensor)) for number, buffer in enumerate(schedule.buffers))
    return {number: buffer for number, buffer, slot in found if slot is not None and slot.memory == buffer.memory}


def read_shared(machine: Machine, schedule: Schedule, storage: Storage, candidates: SharedSlots) -> dict[str, SharedSlot]:
    """candidates: the tensors that may stand there. Raises UserError E1404 for an entry that cannot be as the schedule says."""
    entries = shared_buffers(schedule, candidates)
    faults = [fault for number, buffer in entries.items() for fault in _faults(machine, schedule, number, buffer, candidates[buffer.tensor].size)]
    found = {buffer.tensor: replace(candidates[buffer.tensor], slot=buffer.slot) for buffer in entries.values()}
    faults = faults or list(_overlaps(schedule, storage, found))
    if faults:
        raise UserError(*faults)
    return found


def _faults(machine: Machine, schedule: Schedule, number: int, buffer: ChipBuffer, size: int) -> Iterator[Diagnostic]:
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


def _overlaps(schedule: Schedule, storage: Storage, shared: SharedSlots) -> Iterator[Diagnostic]:
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
