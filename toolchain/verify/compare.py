"""Two tensors, element by element."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.verify.verdict import Coordinates

Array = NDArray[Any]


@dataclass(frozen=True)
class FirstDifference:
    """In row-major order; differing: how many elements there are in all."""

    coordinates: Coordinates
    expected: int
    found: int
    differing: int


def first_difference(expected: Array, found: Array) -> FirstDifference | None:
    """None where both are equal. Raises ValueError where shapes are not."""
    if expected.shape != found.shape:
        raise ValueError(f"{expected.shape} is compared with {found.shape}")
    differs = expected != found
    count = int(np.count_nonzero(differs))
    if not count:
        return None
    place = tuple(int(k) for k in np.unravel_index(int(np.argmax(differs)), differs.shape))
    return FirstDifference(place, int(expected[place]), int(found[place]), count)


def differing_bits(expected: Array, found: Array) -> int:
    """Elements whose bytes differ: -0.0 is not 0.0, and a NaN equals itself. Another shape or type differs everywhere."""
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return max(expected.size, found.size, 1)
    width = expected.dtype.itemsize
    a, b = (np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(-1, width) for x in (expected, found))
    return int(np.count_nonzero((a != b).any(axis=1)))
