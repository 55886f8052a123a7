"""The tensors of a kernel as the host stores them: their packing, and the values of those that are known when compiling."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from toolchain.abi.packing import Packing, open_names, view_packing
from toolchain.schedule.kernels.kernel import Tensor
from toolchain.spec.arrays import Array, Ints, evaluate_arrays
from toolchain.spec.errors import fail
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Choose, Expr, Index, Name, rewrite, walk
from toolchain.spec.model import Machine


def tensor_packing(machine: Machine, tensor: Tensor, numbers: Mapping[str, int]) -> Packing:
    """Through the tensor's layout, in the scalars of its view. Raises UserError E1002 for an extent below 1, E1004 for one past its memory."""
    return view_packing(machine, tensor.view, tensor.layout, _extents(machine, tensor, numbers))


def _extents(machine: Machine, tensor: Tensor, numbers: Mapping[str, int]) -> tuple[int, ...]:
    """Checked before any array is made: a kernel's file may say anything."""
    extents, memory = tuple(constant(e, numbers) for e in tensor.extents), machine.memory[machine.view[tensor.view].memory]
    wrong = next((number for number, extent in enumerate(extents) if extent < 1), None)
    if wrong is not None:
        raise fail("E1002", f"tensor '{tensor.name}' has an extent of {extents[wrong]}", tensor.extents[wrong].span)
    if math.prod(extents) > sum(memory.depths) * memory.element.bytes:
        raise fail("E1004", f"tensor '{tensor.name}' has {math.prod(extents)} elements, more than '{memory.name}' has bytes", tensor.extents[0].span)
    return extents


def tensor_values(machine: Machine, tensor: Tensor, numbers: Mapping[str, int], arrays: Mapping[str, Array]) -> Array:
    """The host tensor that `values` spells out; a plain element of an array keeps its type. Outside an array is zero.

    Raises UserError E1002 for an array read with another number of indices, and as `tensor_packing`.
    """
    assert tensor.values is not None
    layout = next(item for item in machine.layouts if item.name == tensor.layout)
    extents = _extents(machine, tensor, numbers)
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
