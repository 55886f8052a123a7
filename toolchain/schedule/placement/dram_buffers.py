"""The buffer of DRAM that each tensor of a region stands in: a concat's operands are channel ranges of its result, so nothing is copied; and
room that tensors share over time."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from toolchain.abi.dram_map import Shape, host_axes
from toolchain.schedule.kernels.kernel import Kernel, Tensor
from toolchain.schedule.regions.region import Region
from toolchain.spec.errors import fail
from toolchain.spec.evaluate import constant
from toolchain.spec.model import Layout, Machine


class SharedPlace(NamedTuple):
    """A place in a memory on chip. offset: in bytes, in this instance."""

    memory: str
    instance: int
    offset: int


@dataclass(frozen=True)
class Buffer:
    """name: of the tensor that all others here are parts of. first, last: operations between which it holds something that is needed.

    layout, view, extents: how it is stored, as in StoredTensor. channels: of the whole. parts: how many tensors stand in it, itself included.
    shared: the view of a memory on chip in which all of its kernels could have it instead. place: where it stands there; None in DRAM.
    """

    name: str
    segment: str
    layout: str
    view: str
    extents: tuple[int, ...]
    first: int
    last: int
    channels: int
    parts: int
    shared: str = ""
    place: SharedPlace | None = None


@dataclass(frozen=True)
class Storage:
    """buffers: by name. places: each tensor's buffer and its first channel there."""

    buffers: Mapping[str, Buffer]
    places: Mapping[str, tuple[str, int]]


def plan_storage(machine: Machine, region: Region, kernels: Sequence[Kernel], numbers: Sequence[Mapping[str, int]]) -> Storage:
    """kernels, numbers: of each operation. Raises UserError E1007 where two operations want a tensor stored differently."""
    places = {name: region.stands_in(name) for name in region.tensors}
    wanted: dict[str, list[tuple[int, Tensor, tuple[int, ...]]]] = {}
    for index, bound in enumerate(region.operations):
        for tensor in kernels[index].tensors:
            if tensor.name in bound.tensors:
                name = bound.tensors[tensor.name]
                extents = _extents(machine, tensor, numbers[index], region.tensors[name], region.tensors[places[name][0]].channels)
                wanted.setdefault(places[name][0], []).append((index, tensor, extents))
    return Storage({name: _buffer(region, places, name, uses) for name, uses in wanted.items()}, places)


def lasting(buffer: Buffer, groups: Sequence[int]) -> Buffer:
    """The buffer where operations are in groups, whose numbers are given: those of one group work at the same time."""
    first = bisect_left(groups, groups[buffer.first])
    last = bisect_right(groups, groups[buffer.last]) - 1 if buffer.last < len(groups) else buffer.last
    return replace(buffer, first=first, last=last)


def _extents(machine: Machine, tensor: Tensor, numbers: Mapping[str, int], shape: Shape, channels: int) -> tuple[int, ...]:
    """The extents of the whole buffer. Raises UserError E1007 where the kernel sees another shape than the region."""
    layout = layout_of(machine, tensor)
    extents = [constant(e, numbers) for e in tensor.extents]
    turned = [shape[axis] for axis in host_axes(layout)]
    if extents != turned:
        raise fail("E1007", f"tensor '{tensor.name}' of the kernel has extents {extents}, the region's has {turned}")
    return tuple(channels if name == "c" else extent for name, extent in zip(layout.domain, extents, strict=True))


def stored_bytes(machine: Machine, tensor: Tensor, numbers: Mapping[str, int]) -> int:
    """Bytes of a kernel's tensor in DRAM, for an operation of these numbers."""
    layout = layout_of(machine, tensor)
    sizes = dict(zip(layout.extents, (constant(e, numbers) for e in tensor.extents), strict=True))
    scalar = layout.type or machine.view[tensor.view].element.scalar
    return math.prod(constant(e, sizes) for e in layout.shape) * scalar.bits // 8


def layout_of(machine: Machine, tensor: Tensor) -> Layout:
    """The layout that a kernel's tensor names."""
    return next(item for item in machine.layouts if item.name == tensor.layout)


def _buffer(region: Region, places: Mapping[str, tuple[str, int]], name: str, uses: Sequence[tuple[int, Tensor, tuple[int, ...]]]) -> Buffer:
    _, tensor, extents = uses[0]
    other = next((t for _, t, found in uses if (t.layout, found) != (tensor.layout, extents)), None)
    if other is not None:
        raise fail("E1007", f"tensor '{name}' is stored as '{tensor.layout}' for one operation and as '{other.layout}' for another")
    shared = tensor.shared if all(t.shared == tensor.shared for _, t, _ in uses) else ""
    members = set(_members(places, name))
    kept, given = members & set(region.outputs), members & set(region.inputs)
    segment = "results" if kept else "inputs" if given else "swap"
    first, last = 0 if given else uses[0][0], len(region.operations) if kept else uses[-1][0]
    return Buffer(name, segment, tensor.layout, tensor.view, extents, first, last, region.tensors[name].channels, len(members), shared)


def _members(places: Mapping[str, tuple[str, int]], name: str) -> Iterator[str]:
    return (tensor for tensor, (root, _) in places.items() if root == name)


@dataclass(frozen=True)
class Need:
    """size from moment `first` to moment `last`, both included."""

    size: int
    first: int
    last: int

    def meets(self, other: "Need") -> bool:
        """Whether both are needed at some moment."""
        return self.first <= other.last and other.first <= self.last


def share_room(needs: Mapping[str, Need], step: int) -> tuple[dict[str, int], int]:
    """The offset of each need, a multiple of `step`, and the size of the whole: the largest first, each at the lowest offset that is free."""
    placed: list[tuple[int, int, Need]] = []
    offsets = dict[str, int]()
    for name, need in sorted(needs.items(), key=lambda item: (-item[1].size, item[0])):
        at = 0
        for start, stop, _ in sorted((start, stop, other.first) for start, stop, other in placed if other.meets(need)):
            if start >= at + need.size:
                break
            at = max(at, -(-stop // step) * step)
        offsets[name] = at
        placed.append((at, at + need.size, need))
    return offsets, max((stop for _, stop, _ in placed), default=0)
