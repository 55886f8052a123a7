"""Tensors between operations in a memory that several streams share: those of one instance read and write them as they would in DRAM, and nearer."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from toolchain.abi.packing import view_packing
from toolchain.schedule.kernels.pools import Slot
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.options import ONE, Copies
from toolchain.schedule.placement.dram_buffers import Buffer, Need, SharedPlace, Storage, share_room
from toolchain.schedule.regions.region import Region
from toolchain.spec.model import Machine


@dataclass(frozen=True)
class SharedSlot:
    """A buffer's place in a shared memory, the same in whichever instance. size: in elements of the memory."""

    memory: str
    slot: Slot
    size: int


SharedSlots = Mapping[str, SharedSlot]
"""By buffer."""


def streams_together(machine: Machine, memory: str) -> int:
    """How many streams have one instance of a memory."""
    return max(machine.streams // machine.instances(machine.memory[memory].scope), 1)


def copies_together(machine: Machine, memory: str, copies: Copies) -> int:
    """How many copies of the program have one instance of a memory, each an equal part of it."""
    return max(min(copies.times, streams_together(machine, memory) // copies.streams), 1)


def room_of_copy(machine: Machine, memory: str, copies: Copies) -> int:
    """Elements of one instance that a copy of the program has for itself."""
    return machine.memory[memory].bytes // machine.memory[memory].element.bytes // copies_together(machine, memory, copies)


def instances_of(machine: Machine, memory: str, streams: Iterable[int]) -> set[int]:
    """The instances of a memory that are these streams' own."""
    together = streams_together(machine, memory)
    return {stream // together for stream in streams}


def shareable(machine: Machine, storage: Storage, copies: Copies) -> dict[str, SharedSlot]:
    """Every buffer between operations that all of its kernels can have in the same shared memory, without a place yet. A copy of the program
    has whole instances, or a part of one."""
    found: dict[str, SharedSlot] = {}
    for name, buffer in storage.buffers.items():
        memory = machine.view[buffer.shared].memory if buffer.shared and buffer.segment == "swap" else ""
        together = streams_together(machine, memory) if memory else 1
        if memory and (copies.times == 1 or copies.streams % together == 0 or together % copies.streams == 0):
            size = view_packing(machine, buffer.shared, buffer.layout, buffer.extents).bytes
            found[name] = SharedSlot(memory, Slot(0, 0), -(-size // machine.memory[memory].element.bytes))
    return found


def place_shared(
    machine: Machine, storage: Storage, candidates: SharedSlots, streams: Mapping[str, int], copies: Copies = ONE
) -> dict[str, SharedSlot]:
    """Candidates with places, where all of their streams have one instance of the memory. Where there is no room, the largest that is needed beside
    those without goes to DRAM.

    streams: by buffer, how many make and read it, the first ones.
    """
    found: dict[str, SharedSlot] = {}
    for memory in dict.fromkeys(slot.memory for slot in candidates.values()):
        mine = {name: slot for name, slot in candidates.items() if slot.memory == memory}
        left = {name: slot for name, slot in mine.items() if len(instances_of(machine, memory, range(streams[name]))) == 1}
        room = room_of_copy(machine, memory, copies)
        while left:
            lives = {name: (storage.buffers[name].first, storage.buffers[name].last) for name in left}
            offsets, top = share_room({name: Need(slot.size, *lives[name]) for name, slot in left.items()}, 1)
            if top <= room:
                found |= {name: replace(slot, slot=Slot(0, offsets[name])) for name, slot in left.items()}
                break
            highest = max(left, key=lambda name: (offsets[name] + left[name].size, name))
            beside = [name for name, life in lives.items() if life[0] <= lives[highest][1] and lives[highest][0] <= life[1]]
            del left[max(beside, key=lambda name: (left[name].size, name))]
    return found


def moved(machine: Machine, storage: Storage, shared: SharedSlots, instances: Mapping[str, int]) -> Storage:
    """The storage with these buffers in their memories. instances: by buffer."""
    return replace(storage, buffers={name: _moved(machine, buffer, shared.get(name), instances) for name, buffer in storage.buffers.items()})


def _moved(machine: Machine, buffer: Buffer, slot: SharedSlot | None, instances: Mapping[str, int]) -> Buffer:
    if slot is None:
        return buffer
    place = SharedPlace(slot.memory, instances[buffer.name], slot.slot.address * machine.memory[slot.memory].element.bytes)
    return replace(buffer, segment=f"{slot.memory}[{place.instance}]", view=buffer.shared, place=place)


def sharing(region: Region, storage: Storage, problem: Problem, index: int, shared: Collection[str]) -> Problem:
    """An operation that finds these buffers in the shared memory: its kernel's instructions name that, so its costs follow."""
    bound = region.operations[index].tensors
    names = [tensor.name for tensor in problem.kernel.tensors if tensor.name in bound and storage.places[bound[tensor.name]][0] in shared]
    return replace(problem, numbers={**problem.numbers, **{f"{name}_shared": 1 for name in names}}) if names else problem


def also_sharing(problem: Problem, other: Problem) -> Problem:
    """The operation for another kernel, with the buffers that `other` finds in the shared memory."""
    names = [f"{tensor.name}_shared" for tensor in problem.kernel.tensors]
    return replace(problem, numbers={**problem.numbers, **{name: 1 for name in names if other.numbers.get(name)}})


def users(region: Region, storage: Storage, buffer: str) -> list[int]:
    """The operations that make or read a buffer."""
    tensors = {name for name, (root, _) in storage.places.items() if root == buffer}
    return [index for index, bound in enumerate(region.operations) if not tensors.isdisjoint(bound.tensors.values())]
