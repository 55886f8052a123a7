"""The drift of a layer: the error of its outputs that comes from the integers of the layers before it, through its own weights.

Rounding a layer's weights such that they take a part of it back follows Frantar and Alistarh, who go weight by weight ("Optimal Brain Compression",
2022); here it is the slope that the descent begins with (see graph.least_squares). Sums are whole numbers below 2**53, so that they do not depend on
a processor's order of adding up.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolchain.graph.calibration.statistics import columns_of, groups_of, sampled
from toolchain.graph.integers.calls import Call
from toolchain.spec.arrays import Array, Reals

INPUT_PARTS = 1 << 6
"""Parts of a stored step to which float inputs are rounded; 2**15 of them is the largest input that counts."""
WEIGHT_PARTS = 1 << 16
"""Parts of the largest weight to which weights are rounded."""
DROPPED = 1 << 13
"""The divisor of a drift before it is rounded: with 2**13 weights a row and 2**14 output positions, sums stay below 2**53."""


@dataclass(frozen=True)
class Drift:
    """products: [groups, rows, k], of each row's drift and each input, summed over output positions; in units of weights times stored steps squared.

    energy: [groups, rows], the sum of the drift's squares.
    """

    products: Reals
    energy: Reals

    def some(self, every: int) -> "Drift":
        """Of every n-th row."""
        return Drift(self.products[:, ::every], self.energy[:, ::every])


def drift_of(call: Call, inputs: Sequence[Array], floats: Sequence[Array], scale: float, weights: Array) -> Drift:
    """inputs: stored integers less their zero, one array a sample, a step worth `scale`. floats: the same inputs in the float network.

    weights: the layer's, float.
    """
    group, shape = groups_of(call), weights.shape
    unit = (float(np.abs(weights).max(initial=0.0)) or 1.0) / WEIGHT_PARTS
    rows = np.rint(weights.reshape(group, len(weights) // group, -1).astype(np.float64) / unit)
    products, energy = np.zeros(rows.shape), np.zeros(rows.shape[:2])
    for array, real, some in zip(inputs, floats, sampled(call, inputs, shape), strict=True):
        stored, wanted = (columns_of(call, values, shape, some).astype(np.float64) for values in (array, _parts(real, scale)))
        errors = stored * INPUT_PARTS - wanted
        drift = np.rint(np.matmul(rows, errors.transpose(0, 2, 1)) / DROPPED)
        products += np.matmul(drift, stored)
        energy += (drift * drift).sum(2)
    worth = unit * DROPPED / INPUT_PARTS
    return Drift(products * worth, energy * worth**2)


def _parts(real: Array, scale: float) -> Array:
    """A float input in whole parts of a stored step."""
    return np.clip(np.rint(np.asarray(real, np.float64) * (INPUT_PARTS / scale)), -(2**15), 2**15 - 1).astype(np.int16)
