"""Alignment of a tensor inside another that is stored through the same layout: found from the map's values, however it is written."""

from functools import lru_cache

import numpy as np

from toolchain.spec.arrays import Ints, evaluate_arrays
from toolchain.spec.model import Layout

LARGEST = 1024
"""The largest block that is looked for."""
NONE = 1 << 30
"""More channels than any tensor has: a layout in which no tensor can begin inside another."""
_OTHERS = 3


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
