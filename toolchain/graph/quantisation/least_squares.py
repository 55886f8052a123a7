"""Rounds weights so that the layer's output, not each weight, is off by least: a coordinate descent in whole numbers.

The error of a layer's outputs is e H e for each row e of weight errors, where H sums the products of the inputs (the layer-wise objective of Nagel
et al., "Up or down? Adaptive rounding for post-training quantization", 2020). All of it is whole numbers below 2**53, so that the outcome does not
depend on a processor's order of adding up.
"""

from typing import Any

import numpy as np

Reals = np.typing.NDArray[np.float64]
Array = np.typing.NDArray[Any]
FINE = 1 << 10
"""Parts of one stored step in which errors are counted."""
HESSIAN_BITS = 26
"""Entries of H are rounded to so many bits; with FINE and 2**13 weights a row, sums stay below 2**53."""
BLOCK = 128
SWEEPS = 3
LEAST_SHARE = 0.3
"""The share of the mean of H's diagonal that is added to all of it (measured: costs at most 0.5 dB where samples give many rows of inputs, and gains
1 to 5 dB on new samples where they give no more rows than there are weights in one)."""


def damped(hessian: Reals, rows: int) -> Reals:
    """H with a larger diagonal, most where it sums few rows of inputs: else weights would fit these and nothing else.

    hessian: [k, k], whole numbers, and so is the answer. rows: how many products each entry sums.
    """
    size = len(hessian)
    share = min(max(size / (4 * max(rows, 1)), LEAST_SHARE), 1.0)
    return hessian + np.eye(size) * np.rint(share * np.trace(hessian) / size)


def normalised(hessian: Reals) -> Reals:
    """H in whole numbers of at most HESSIAN_BITS bits. hessian: [..., k, k], whole numbers."""
    return np.rint(hessian / unit_of(hessian))


def unit_of(hessian: Reals) -> float:
    """The value of 1 in the normalised H: a power of two."""
    return 2.0 ** max(int(np.abs(hessian).max(initial=0.0)).bit_length() - HESSIAN_BITS, 0)


def round_rows(weights: Reals, hessian: Reals, low: int, high: int, drift: Reals | None = None) -> Reals:
    """Whole numbers [rows, k] from low to high near `weights` [rows, k], which are in stored steps. hessian: [k, k] of `normalised`.

    drift: [rows, k], its products with the inputs in units of `hessian` times stored steps; the weights take of it what they can.
    """
    fixed = np.rint(weights * FINE)
    found = np.clip(np.floor(weights + 0.5), low, high)
    slope = (found * FINE - fixed) @ hessian + _slope(drift)
    diagonal = np.maximum(np.diagonal(hessian), 1.0) * FINE
    for _ in range(SWEEPS):
        before = found.copy()
        for start in range(0, weights.shape[1], BLOCK):
            stop = min(start + BLOCK, weights.shape[1])
            steps = _descend(found, slope, hessian[start:stop, start:stop], diagonal[start:stop], (start, stop), (low, high))
            if steps.any():
                rest = np.r_[0:start, stop : weights.shape[1]]
                slope[:, rest] += (steps * FINE) @ hessian[start:stop, rest]
        if np.array_equal(before, found):
            break
    return found


def _slope(drift: Reals | None) -> Reals | float:
    return 0.0 if drift is None else np.rint(drift * FINE)


def _descend(found: Reals, slope: Reals, inner: Reals, diagonal: Reals, span: tuple[int, int], limits: tuple[int, int]) -> Reals:
    """One sweep over a block of columns; the steps that were taken."""
    start, stop = span
    steps = np.zeros((len(found), stop - start))
    for k in range(stop - start):
        best = np.rint(-slope[:, start + k] / diagonal[k])
        moved = np.clip(found[:, start + k] + best, *limits) - found[:, start + k]
        if moved.any():
            found[:, start + k] += moved
            steps[:, k] = moved
            slope[:, start:stop] += moved[:, None] * FINE * inner[k]
    return steps


def round_channels(weights: Reals, hessians: Reals, low: int, high: int, drift: Reals | None = None) -> Reals:
    """As `round_rows`, for weights [rows, k] that have an H of their own each: hessians [rows, k, k]."""
    fixed = np.rint(weights * FINE)
    found = np.clip(np.floor(weights + 0.5), low, high)
    slope = np.einsum("rk,rkj->rj", found * FINE - fixed, hessians) + _slope(drift)
    diagonal = np.maximum(np.diagonal(hessians, axis1=1, axis2=2), 1.0) * FINE
    for _ in range(2 * SWEEPS):
        before = found.copy()
        for k in range(weights.shape[1]):
            moved = np.clip(found[:, k] + np.rint(-slope[:, k] / diagonal[:, k]), low, high) - found[:, k]
            found[:, k] += moved
            slope += moved[:, None] * FINE * hessians[:, k]
        if np.array_equal(before, found):
            break
    return found


def output_errors(errors: Reals, hessian: Reals) -> Reals:
    """[rows]: the squared error of each row's outputs. errors: [rows, k]. hessian: [k, k], or [rows, k, k]."""
    slopes = errors @ hessian if hessian.ndim == 2 else np.einsum("rk,rkj->rj", errors, hessian)
    return (slopes * errors).sum(1)
