"""Addresses in DRAM: inputs, results, tensors between operations (rooms shared over time), and constants, each content once."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from toolchain.abi.dram_map import DramMap, Segment, StoredTensor, packing_of
from toolchain.abi.packing import PAGE
from toolchain.schedule.copies import ONE, Copies
from toolchain.schedule.kernels.kernel import KernelKey, Tensor
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.dram_buffers import Need, SharedPlace, Storage, share_room, tensor_packing, tensor_values
from toolchain.schedule.placement.shared_memory import copies_together, room_of_copy, streams_together
from toolchain.schedule.regions.region import Region
from toolchain.schedule.writer import POOL
from toolchain.spec.arrays import Array
from toolchain.spec.errors import fail
from toolchain.spec.fingerprint import MachineKey
from toolchain.spec.model import Machine

SEGMENTS = ("inputs", "results", "swap", "constants")
ALIGN = 64
"""Bytes; every buffer and constant starts on a multiple of it, so that no burst is cut."""


@dataclass
class Constants:
    """The growing segment of constants. offsets: of each content."""

    step: int
    offsets: dict[bytes, int] = field(default_factory=dict[bytes, int])
    parts: list[bytes] = field(default_factory=list[bytes])
    top: int = 0

    def add(self, content: bytes) -> int:
        """Offset of the content in its segment, in bytes."""
        if content not in self.offsets:
            room = -len(content) % self.step
            self.offsets[content] = self.top
            self.parts += [content, bytes(room)]
            self.top += len(content) + room
        return self.offsets[content]


@dataclass(frozen=True)
class PlacedRegion:
    """scopes: by copy of the program, the names that the templates of each operation see of its tensors (X_base, X_channels, X_segment, and of the
    pool of constants)."""

    map: DramMap
    constants: Mapping[str, bytes]
    scopes: tuple[tuple[Mapping[str, int], ...], ...]


def place_region(
    machine: Machine, region: Region, problems: Sequence[Problem], storage: Storage, pool: tuple[str, bytes], copies: Copies = ONE
) -> PlacedRegion:
    """pool: the view that constants of control memories stand behind, and their bytes; both empty where there are none. copies: each has a room
    of its own for all but the constants.

    Raises UserError E1004 where DRAM is too small, E1007 where a tensor starts inside an element, or copies share the registers of addresses.
    """
    step = _step(machine)
    constants = Constants(step)
    known = [_constants(machine, problem, region.operations[index].tensors, constants) for index, problem in enumerate(problems)]
    pool_at = constants.add(pool[1]) if pool[1] else 0
    tensors, sizes = _tensors(machine, region, storage, step)
    memory = _memory(machine, problems)
    segments = _segments(machine, memory, {**sizes, "constants": constants.top}, problems[0].kernel.segments, step, copies.times)
    segments |= {b.segment: _on_chip(machine, b.place, copies) for b in storage.buffers.values() if b.place}
    registers = problems[0].kernel.registers
    if registers and copies.times > 1 and streams_together(machine, registers) > copies.streams:
        raise fail("E1007", f"copies of a program need addresses of their own, and streams share the registers '{registers}' that hold them")
    found = DramMap(memory, registers, segments, tensors, region.inputs, region.outputs, copies.times, copies.streams)

    def scopes(room: DramMap) -> Iterator[Mapping[str, int]]:
        bases = _Bases(machine, room.segments, bool(registers))
        own = bases.scope(POOL, pool[0], "constants", pool_at) if pool[1] else {}
        for problem, bound, values in zip(problems, region.operations, known, strict=True):
            yield {**own, **bases.operation(problem, tensors, bound.tensors, values)}

    return PlacedRegion(found, {"constants": _joined(tuple(constants.parts))}, tuple(tuple(scopes(found.room(k))) for k in range(copies.times)))


@lru_cache(maxsize=2)
def _joined(parts: tuple[bytes, ...]) -> bytes:
    """The plans of a search mostly have the same constants in the same order."""
    return b"".join(parts)


def stored_tensors(machine: Machine, region: Region, storage: Storage) -> dict[str, StoredTensor]:
    """Placement of every tensor of a region in DRAM, constants left out."""
    return _tensors(machine, region, storage, _step(machine))[0]


def _step(machine: Machine) -> int:
    """Bytes; every buffer starts on a multiple of it."""
    return math.lcm(ALIGN, *(max(v.unit, 1) for v in machine.views if machine.memory[v.memory].kind == "dram"))


def _memory(machine: Machine, problems: Sequence[Problem]) -> str:
    found = sorted({machine.view[t.view].memory for problem in problems for t in problem.kernel.tensors})
    if len(found) != 1:
        raise fail("E1007", f"tensors of one program stand in several memories: {', '.join(found)}", problems[0].kernel.span)
    return found[0]


def _constants(machine: Machine, problem: Problem, bound: Mapping[str, str], constants: Constants) -> dict[str, tuple[int, int]]:
    """Offset and channels of every tensor whose values are known when compiling."""
    found: dict[str, tuple[int, int]] = {}
    for tensor in problem.kernel.tensors:
        if tensor.values is not None and tensor.name not in bound:
            found[tensor.name] = constants.add(_packed(machine, problem, tensor)), 0
    return found


def _packed(machine: Machine, problem: Problem, tensor: Tensor) -> bytes:
    """A tensor whose values are known, as it stands in DRAM. Every plan of a search has the same ones."""
    known, key = problem.operation.packed, (MachineKey(machine), KernelKey(problem.kernel), tensor.name, tuple(problem.numbers.items()))
    if key not in known:
        values: Array = tensor_values(machine, tensor, problem.numbers, problem.operation.constants)
        known[key] = tensor_packing(machine, tensor, problem.numbers).store(values)
    return known[key]


def _tensors(machine: Machine, region: Region, storage: Storage, step: int) -> tuple[dict[str, StoredTensor], dict[str, int]]:
    """Every tensor's place in its segment, and the size of each segment."""
    whole = {name: _whole(region, storage, name) for name in storage.buffers}
    bytes_of = {name: packing_of(machine, stored).bytes for name, stored in whole.items()}
    offsets, sizes = dict[str, int](), dict[str, int]()
    for segment in SEGMENTS[:2]:
        at = 0
        for name in (n for n, buffer in storage.buffers.items() if buffer.segment == segment):
            offsets[name], at = at, at + -(-bytes_of[name] // step) * step
        sizes[segment] = at
    needs = {n: Need(bytes_of[n], b.first, b.last) for n, b in storage.buffers.items() if b.segment == "swap"}
    between, sizes["swap"] = share_room(needs, step)
    offsets |= between | {name: buffer.place.offset for name, buffer in storage.buffers.items() if buffer.place}
    found: dict[str, StoredTensor] = {}
    for name, (root, channel) in storage.places.items():
        if root in whole:
            held = whole[root]
            found[name] = StoredTensor(
                region.host_shape(name), held.segment, offsets[root], bytes_of[root], held.view, held.layout, held.extents, channel
            )
    return found, sizes


def _whole(region: Region, storage: Storage, name: str) -> StoredTensor:
    """A buffer as the tensor that fills it, without its place."""
    buffer = storage.buffers[name]
    return StoredTensor(region.host_shape(name), buffer.segment, 0, 0, buffer.view, buffer.layout, buffer.extents)


def _on_chip(machine: Machine, place: SharedPlace, copies: Copies) -> Segment:
    """A copy's part of a memory's instance, which is all of it where no other copy has it; further copies have other instances, so many on."""
    pitch = max(copies.streams // streams_together(machine, place.memory), 1) if copies.times > 1 else 0
    size = room_of_copy(machine, place.memory, copies) * machine.memory[place.memory].element.bytes
    return Segment(0, size, -1, place.memory, place.instance, pitch, copies_together(machine, place.memory, copies))


def _segments(machine: Machine, memory: str, sizes: Mapping[str, int], registers: Mapping[str, int], step: int, rooms: int) -> dict[str, Segment]:
    """One after the other, none at address 0: that means nothing on real machines."""
    found: dict[str, Segment] = {}
    at = -(-PAGE // step) * step
    for name in SEGMENTS:
        size = -(-sizes[name] // math.lcm(PAGE, step)) * math.lcm(PAGE, step)
        several = rooms > 1 and name != "constants"
        found[name] = Segment(at, size * (rooms - 1) * several + sizes[name], registers.get(name, -1), pitch=size * several)
        at += size * (rooms if several else 1)
    if at > machine.memory[memory].bytes:
        raise fail("E1004", f"the region takes {at} bytes of '{memory}', which has {machine.memory[memory].bytes}")
    return found


@dataclass(frozen=True)
class _Bases:
    """Turns places in segments into the names that templates see."""

    machine: Machine
    segments: Mapping[str, Segment]
    relative: bool

    def scope(self, name: str, view: str, segment: str, offset: int, channels: int = 0, inside: int = 0) -> dict[str, int]:
        """Names of one tensor. inside: how far after the start of its buffer. Raises UserError E1007 where it starts inside an element."""
        found, inner = self.machine.view[view], segment not in SEGMENTS
        at = offset if self.relative and not inner else self.segments[segment].address + offset
        unit = found.unit or found.element.bytes
        if inside % found.element.bytes or at % unit or offset % self.machine.memory[found.memory].granule:
            raise fail("E1007", f"tensor '{name}' starts at byte {offset} of '{segment}', inside an element of '{view}'")
        register = self.segments[segment].register
        return {f"{name}_base": at // max(found.unit, 1), f"{name}_channels": channels, f"{name}_segment": max(register, 0)}

    def operation(
        self, problem: Problem, tensors: Mapping[str, StoredTensor], bound: Mapping[str, str], known: Mapping[str, tuple[int, int]]
    ) -> dict[str, int]:
        """Names of all tensors of an operation."""
        names: dict[str, int] = {}
        for tensor in problem.kernel.tensors:
            if tensor.name in bound and bound[tensor.name] in tensors:
                stored = tensors[bound[tensor.name]]
                found = packing_of(self.machine, stored)
                channels = stored.extents[found.layout.domain.index("c")]
                names |= self.scope(tensor.name, stored.view, stored.segment, stored.offset + found.start, channels, found.start)
            elif tensor.name in known:
                names |= self.scope(tensor.name, tensor.view, "constants", *known[tensor.name])
        return names
