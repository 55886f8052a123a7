"""The buffer of DRAM that each tensor of a region stands in: a concat's operands are channel ranges of its result, so nothing is copied; room that
tensors share over time; and packing and values of tensors as the host stores them."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from toolchain.abi.dram_map import Shape, host_axes
from toolchain.abi.packing import Packing, open_names, view_packing
from toolchain.schedule.kernels.kernel import Kernel, Tensor
from toolchain.schedule.regions.region import Region
from toolchain.spec.arrays import Array, Ints, evaluate_arrays
from toolchain.spec.errors import fail
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Choose, Expr, Index, Name, rewrite, walk
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
    return Storage({name: _buffer(machine, region, places, name, uses) for name, uses in wanted.items()}, places)


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


def _buffer(
    machine: Machine, region: Region, places: Mapping[str, tuple[str, int]], name: str, uses: Sequence[tuple[int, Tensor, tuple[int, ...]]]
) -> Buffer:
    _, tensor, extents = uses[0]
    other = next((t for _, t, found in uses if (t.layout, found) != (tensor.layout, extents)), None)
    if other is not None:
        raise fail("E1007", f"tensor '{name}' is stored as '{tensor.layout}' for one operation and as '{other.layout}' for another")
    shared = tensor.shared if all(_alike(machine, t, tensor) for _, t, _ in uses) else ""
    members = set(_members(places, name))
    kept, given = members & set(region.outputs), members & set(region.inputs)
    segment = "results" if kept else "inputs" if given else "swap"
    first, last = 0 if given else uses[0][0], len(region.operations) if kept else uses[-1][0]
    return Buffer(name, segment, tensor.layout, tensor.view, extents, first, last, region.tensors[name].channels, len(members), shared)


def _alike(machine: Machine, one: Tensor, other: Tensor) -> bool:
    """Whether two kernels have a tensor of one layout in the same shared memory, element for element."""
    if not (one.shared and other.shared):
        return one.shared == other.shared
    views = [machine.view[tensor.shared] for tensor in (one, other)]
    scalars = {view.element.scalar for view in views}
    return views[0].memory == views[1].memory and (len(scalars) == 1 or layout_of(machine, one).type is not None)


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


def tensor_packing(machine: Machine, tensor: Tensor, numbers: Mapping[str, int]) -> Packing:
    """Through the tensor's layout, in the scalars of its view. Raises UserError E1002 for an extent below 1, E1004 for one past its memory."""
    return view_packing(machine, tensor.view, tensor.layout, _operand_extents(machine, tensor, numbers))


def _operand_extents(machine: Machine, tensor: Tensor, numbers: Mapping[str, int]) -> tuple[int, ...]:
    """Checked before any array is made: a kernel's file may say anything."""
    extents, memory = tuple(constant(e, numbers) for e in tensor.extents), machine.memory[machine.view[tensor.view].memory]
    wrong = next((number for number, extent in enumerate(extents) if extent < 1), None)
    if wrong is not None:
        raise fail("E1002", f"tensor '{tensor.name}' has an extent of {extents[wrong]}", tensor.extents[wrong].span)
    if math.prod(extents) > memory.elements * memory.element.bytes:
        raise fail("E1004", f"tensor '{tensor.name}' has {math.prod(extents)} elements, more than '{memory.name}' has bytes", tensor.extents[0].span)
    return extents


def tensor_values(machine: Machine, tensor: Tensor, numbers: Mapping[str, int], arrays: Mapping[str, Array]) -> Array:
    """The host tensor that `values` spells out; a plain element of an array keeps its type. Outside an array is zero.

    Raises UserError E1002 for an array read with another number of indices, and as `tensor_packing`.
    """
    assert tensor.values is not None
    layout = next(item for item in machine.layouts if item.name == tensor.layout)
    extents = _operand_extents(machine, tensor, numbers)
    names = open_names(layout, extents, numbers)
    for name, expr in tensor.let.items():
        names[name] = _values(expr, names, arrays)
    match _taken(tensor.values, names):
        case Index(base=Name(id=name)) as plain:
            found = _element(name, plain, names, arrays)
        case other:
            found = _values(other, names, arrays)
    return np.broadcast_to(found, extents)


def _taken(expr: Expr, names: Mapping[str, Ints]) -> Expr:
    """The branch of a choice that every element takes, where its condition does without the operation's arrays."""
    while isinstance(expr, Choose) and not any(isinstance(e, Index) for e in walk(expr.condition)):
        chosen = evaluate_arrays(expr.condition, names) != 0
        if chosen.any() and not chosen.all():
            break
        expr = expr.then if chosen.all() else expr.other
    return expr


def _values(expr: Expr, names: Mapping[str, Ints], arrays: Mapping[str, Array]) -> Ints:
    """An expression that may read the operation's arrays."""
    read: dict[str, Ints] = {}

    def change(e: Expr) -> Expr | None:
        if isinstance(e, Index) and isinstance(e.base, Name):
            key = f"[{len(read)}]"
            read[key] = _element(e.base.id, e, names, arrays).astype(np.int64)
            return Name(key)
        return None

    ready = rewrite(expr, change)
    return evaluate_arrays(ready, {**names, **read})


def _element(name: str, e: Index, names: Mapping[str, Ints], arrays: Mapping[str, Array]) -> Array:
    array, index = arrays[name], [evaluate_arrays(part, names) for part in e.index]
    if len(index) != array.ndim:
        raise fail("E1002", f"'{name}' has {array.ndim} indices, not {len(index)}", e.span)
    if any(part.min() < 0 or part.max() >= size for part, size in zip(index, array.shape, strict=True)):
        near = [np.clip(part, 0, size - 1) for part, size in zip(index, array.shape, strict=True)]
        within = math.prod(((part == held) for part, held in zip(index, near, strict=True)), start=np.bool_(True))
        return np.where(within, array[tuple(near)], array.dtype.type(0))
    return found if (found := box_of(array, index)) is not None else array[tuple(index)]


def box_of(array: Array, index: Sequence[Ints]) -> Array | None:
    """array[index] as a view, where every index runs along an axis of its own in steps of one; None elsewhere."""
    rank = max((part.ndim for part in index), default=0)
    runs: dict[int, int] = {}  # by axis of the array: that of the result
    parts: list[slice] = []
    for axis, part in enumerate(index):
        flat, long = part.reshape(-1), [rank - part.ndim + k for k, size in enumerate(part.shape) if size != 1]
        if not flat.size or len(long) > 1 or {*long} & {*runs.values()} or not np.array_equal(flat, range(int(flat[0]), int(flat[0]) + len(flat))):
            return None
        runs |= dict.fromkeys([axis] if long else [], long[0] if long else 0)
        parts.append(slice(int(flat[0]), int(flat[-1]) + 1))
    order = sorted(runs, key=runs.__getitem__)
    inner = array[tuple(parts)].transpose(*order, *(axis for axis in range(array.ndim) if axis not in runs))
    return np.expand_dims(inner.reshape(inner.shape[: len(order)]), tuple(k for k in range(rank) if k not in runs.values()))
