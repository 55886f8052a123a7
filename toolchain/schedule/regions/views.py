"""Tensors inside others: slices that are no operation, read where they stand, and the alignment of a tensor that is stored through the same
layout."""

import math
from functools import lru_cache

import numpy as np
import onnx_ir as ir

from toolchain.graph.integers.calls import Reasons, read_call
from toolchain.graph.rewrite import shape_of
from toolchain.operations.library import Kinds
from toolchain.schedule.regions.lowering import data_of, is_call
from toolchain.spec.arrays import Ints, evaluate_arrays
from toolchain.spec.model import Layout, Machine
from toolchain.spec.reasons import Why

LARGEST = 1024
"""The largest block that is looked for."""
NONE = 1 << 30
"""More channels than any tensor has: a layout in which no tensor can begin inside another."""
_OTHERS = 3

CHANNELS = 1


@lru_cache(maxsize=64)
def block_of(layout: Layout, index: str) -> int:
    """The least step of an index that moves every element of the tensor by the same way in the stored array; NONE where there is none.

    A tensor of so many is stored without padding: a machine writes whole words, and padding would lie on the tensor that stands behind it.
    """
    if layout.copies:
        return NONE
    steps = np.diff(_places(layout, index), axis=-1)
    sizes = _sizes(layout, index)
    return next((b for b in range(1, LARGEST + 1) if _unpadded(sizes, b) and _shifts(steps, b)), NONE)


def _sizes(layout: Layout, index: str) -> Ints:
    """Elements of the stored array. int64 [extents of the index from 0 on]"""
    counts = np.arange(2 * LARGEST + 1, dtype=np.int64)
    names = {n: np.full_like(counts, _OTHERS) for n in layout.extents} | {layout.extents[layout.domain.index(index)]: counts}
    return np.prod([np.broadcast_to(evaluate_arrays(e, names), counts.shape) for e in layout.shape], axis=0)


def _unpadded(sizes: Ints, block: int) -> bool:
    """Whether tensors of whole blocks take as many elements as their blocks do alone."""
    whole = sizes[block::block]
    return np.array_equal(whole, sizes[block] * np.arange(1, len(whole) + 1))


def _places(layout: Layout, index: str) -> Ints:
    """int64 [axes of the stored array, elements of the other indices, values of the index]"""
    axis = layout.domain.index(index)
    extents = [2 * LARGEST + 1 if k == axis else _OTHERS for k in range(len(layout.domain))]
    grid = np.moveaxis(np.indices(extents, dtype=np.int64), axis + 1, -1).reshape(len(extents), -1)
    names = {**dict(zip(layout.domain, grid, strict=True)), **{n: np.full_like(grid[0], e) for n, e in zip(layout.extents, extents, strict=True)}}
    return np.stack([evaluate_arrays(e, names) for e in layout.map]).reshape(len(layout.map), -1, extents[axis])


def _shifts(steps: Ints, block: int) -> bool:
    """Whether the differences between neighbours repeat after `block`, for all elements alike, and so do those of a whole block.

    steps: int64 [axes, elements, values of the index - 1].
    """
    if not np.array_equal(steps[:, :1, block], steps[:, :1, 0]) or not np.array_equal(steps[..., block:], steps[..., :-block]):
        return False
    moved = steps[..., :block].sum(axis=-1)
    return bool((moved == moved[:, :1]).all())


def channel_block(machine: Machine) -> int:
    """A tensor can begin inside another at multiples of this many channels, in every layout of pictures that the machine writes."""
    return math.lcm(*(block_of(layout, "c") for layout in machine.layouts if layout.written and "c" in layout.domain))


def is_view(node: ir.Node | None, block: int, kinds: Kinds) -> bool:
    """Whether a node is a slice that can be read where its operand stands. block: see channel_block."""
    return node is not None and is_call(node, "slice") and not unviewable(node, block, kinds)


def first_channel(node: ir.Node, kinds: Kinds) -> int:
    """The channel of the operand that a slice begins with."""
    return int(read_call(node, kinds).attributes["starts"][CHANNELS])


def unviewable(node: ir.Node, block: int, kinds: Kinds) -> Reasons:
    """Why a slice cannot be read where its operand stands; none where it can."""
    value = data_of(node, kinds)[0]
    whole, attributes = shape_of(value), read_call(node, kinds).attributes
    starts, sizes, steps = (list(attributes[name]) for name in ("starts", "sizes", "steps"))
    if any(sizes[axis] != whole[axis] for axis in range(len(whole)) if axis != CHANNELS) or steps[CHANNELS] != 1:
        return (Why.NOT_NEIGHBOURS(),)
    first = starts[CHANNELS]
    end = first + sizes[CHANNELS]
    if first % block:
        return (Why.BEGINS(channel=first, tensor=value.name or "", block=block),)
    if end % block and end < whole[CHANNELS]:
        return (Why.ENDS(channel=end, tensor=value.name or "", block=block),)
    return ()
