"""Tensors in a memory on chip that several streams share: those between operations, and inputs that an operation of its own fetches once."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from toolchain.abi.packing import view_packing
from toolchain.operations.library import builtin_kinds
from toolchain.operations.operation import make_operation
from toolchain.schedule.copies import ONE, Copies
from toolchain.schedule.kernels.pools import Slot
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.dram_buffers import Buffer, Need, SharedPlace, Storage, share_room
from toolchain.schedule.regions.region import Bound, Region
from toolchain.spec.arrays import Array
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
    return (machine.memory[memory].elements - copies.weights) // copies_together(machine, memory, copies)


def room_left(machine: Machine, memory: str, shared: SharedSlots, copies: Copies) -> int:
    """Elements of one instance behind the rooms of all copies that have it, if each is as small as its buffers allow; an even number."""
    top = max((slot.slot.address + slot.size for slot in shared.values() if slot.memory == memory), default=0)
    together = copies_together(machine, memory, copies)
    return (machine.memory[memory].elements - together * top) // (2 * together) * 2 * together


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


COPY = "copy"
"""The kind of operation that kernels which can fetch compute."""


class Fetch(NamedTuple):
    """An input, and the kernel that copies it."""

    tensor: str
    kernel: str


def fetched_name(tensor: str) -> str:
    """The tensor that a fetch makes of an input, and the operation that makes it."""
    return f"{tensor}.fetched"


def fetchable(region: Region) -> tuple[str, ...]:
    """Inputs that could be fetched, the largest first: those that operations read, and that stand alone, neither in another tensor nor around one."""
    read = {tensor for bound in region.operations for name, tensor in bound.tensors.items() if name != "y"}
    joined = {*region.slices, *(own.parent for own in region.slices.values())}
    names = [name for name in region.inputs if name in read - joined and fetched_name(name) not in region.tensors]
    return tuple(sorted(names, key=lambda name: -math.prod(region.tensors[name])))


def with_fetches(region: Region, fetches: Sequence[Fetch]) -> Region:
    """The region that fetches these inputs and no others; all of its operations read the copies. Raises KeyError for a tensor that is not there."""
    plain = without_fetches(region)
    if not fetches:
        return plain
    copies = {each.tensor: fetched_name(each.tensor) for each in fetches}
    tensors = {**plain.tensors, **{copy: plain.tensors[name] for name, copy in copies.items()}}
    return replace(plain, tensors=tensors, operations=(*(_copy(plain, each) for each in fetches), *_renamed(plain, copies)))


def without_fetches(region: Region) -> Region:
    """The region as it was given."""
    found = {bound.tensors["y"]: bound.tensors["x"] for bound in region.operations if is_fetch(bound)}
    if not found:
        return region
    own = replace(region, operations=tuple(bound for bound in region.operations if not is_fetch(bound)))
    return replace(region, tensors={name: shape for name, shape in region.tensors.items() if name not in found}, operations=_renamed(own, found))


def is_fetch(bound: Bound) -> bool:
    """Whether a region was extended by this operation."""
    return bound.operation.kind.name == COPY and bound.tensors["y"] == fetched_name(bound.tensors["x"])


def fetches_of(region: Region) -> tuple[Fetch, ...]:
    """The fetches of a region, in their order."""
    return tuple(Fetch(bound.tensors["x"], bound.kernel) for bound in region.operations if is_fetch(bound))


def copied_values(region: Region, known: Mapping[str, Array]) -> dict[str, Array]:
    """Values of tensors by name, those of copies as well."""
    return {**known, **{fetched_name(each.tensor): known[each.tensor] for each in fetches_of(region) if each.tensor in known}}


def _copy(region: Region, fetch: Fetch) -> Bound:
    name = fetched_name(fetch.tensor)
    operation = make_operation(builtin_kinds()[COPY], name, {"x": region.tensors[fetch.tensor]}, {}, {})
    return Bound(operation, {"x": fetch.tensor, "y": name}, kernel=fetch.kernel)


def _renamed(region: Region, names: Mapping[str, str]) -> tuple[Bound, ...]:
    """The operations, where they read tensors by other names."""
    return tuple(replace(bound, tensors=dict(_reads(bound, names))) for bound in region.operations)


def _reads(bound: Bound, names: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    return ((name, tensor if name == "y" else names.get(tensor, tensor)) for name, tensor in bound.tensors.items())
