"""Axes that take several sizes, such as the length of a sequence, and arrays cut or filled up along them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolchain.spec.arrays import Array


@dataclass(frozen=True)
class LengthAxis:
    """An axis of an input or output whose size is a length. name: of the dimension."""

    tensor: str
    axis: int
    name: str


def fitted(array: Array, sizes: Mapping[int, int]) -> Array:
    """The array in other sizes of some axes: cut, or filled up with zeros (empty texts, False) at the end."""
    cut = array[tuple(slice(sizes.get(axis)) for axis in range(array.ndim))]
    room = [(0, sizes.get(axis, size) - size) for axis, size in enumerate(cut.shape)]
    if not any(after for _, after in room):
        return cut
    return np.pad(cut, room, constant_values="" if array.dtype.kind in "OU" else 0)


def sized(arrays: Mapping[str, Array], axes: Sequence[LengthAxis], sizes: Mapping[str, int]) -> dict[str, Array]:
    """Arrays by tensor, each cut or filled up along its axes. sizes: by dimension."""
    wanted = {name: {axis.axis: sizes[axis.name] for axis in axes if axis.tensor == name} for name in arrays}
    return {name: fitted(np.asarray(array), wanted[name]) if wanted[name] else array for name, array in arrays.items()}


def text_of(sizes: Mapping[str, int]) -> str:
    """`sequence 64`, of several dimensions with commas."""
    return ", ".join(f"{name} {size}" for name, size in sizes.items())
