"""Random float16 tensors: every size of number, ties, subnormal numbers, zeros of both signs, and now and then an infinity."""

from collections.abc import Sequence

import numpy as np

from toolchain.operations.floating import Bounds
from toolchain.spec.arrays import Array

CORNERS = np.array([0.0, -0.0, 2.0**-24, -(2.0**-24), 2.0**-14, -(2.0**-14), 1.0, -1.0, 1 + 2.0**-10, 2048.0, 65504.0, -65504.0], np.float16)
"""Zeros, the least subnormal and normal numbers, one and its neighbour, the first whole number without a successor, the greatest ones."""
INFINITE = 64
"""One drawn tensor of so many has an infinity."""


def random_halves(shape: Sequence[int], rng: np.random.Generator, corner: bool = False, infinite: bool = False) -> Array:
    """float16. corner: small whole numbers and eighths, whose sums are exact or ties, with some of CORNERS; else normally distributed ones of one
    size. infinite: whether an infinity may be among them."""
    shape = tuple(shape)
    if corner:
        found = (rng.integers(-16, 17, shape) / 8).astype(np.float16)
        found = np.where(rng.random(shape) < 1 / 16, rng.choice(CORNERS, shape), found)
    else:
        found = (rng.standard_normal(shape) * 2.0 ** int(rng.integers(-12, 5))).astype(np.float16)
    if infinite and found.size and rng.integers(INFINITE) == 0:
        found.flat[int(rng.integers(found.size))] = np.inf * rng.choice([-1, 1])
    return found


def random_bounds(rng: np.random.Generator) -> Bounds:
    """No activation, ReLU, ReLU6, or limits around zero."""
    return (Bounds(), Bounds(low=0.0), Bounds(0.0, 6.0), Bounds(-float(rng.integers(1, 9)) / 4, float(rng.integers(1, 9)) / 4))[int(rng.integers(4))]
