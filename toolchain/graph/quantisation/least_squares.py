"""Rounds weights so that the layer's output, not each weight, is off by least: a coordinate descent in whole numbers.

The error of a layer's outputs is e H e for each row e of weight errors, where H sums the products of the inputs (the layer-wise objective of Nagel
et al., "Up or down? Adaptive rounding for post-training quantization", 2020). All of it is whole numbers below 2**53, so that the outcome does not
depend on a processor's order of adding up.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from toolchain.spec.arrays import Array, Reals

FINE = 1 << 10
"""Parts of one stored step in which errors are counted."""
HESSIAN_BITS = 26
"""Entries of H are rounded to so many bits; with FINE and 2**13 weights a row, sums stay below 2**53."""
INPUT_BITS = 9
"""Of an input, at most: a stored integer less its zero."""
EXACT_BITS = 53
"""Whole numbers below 2**EXACT_BITS are exact."""
CHUNK = 1024
"""Products of int8 whose sum a float32 holds exactly; of integers less their zero, which have a bit more, a quarter."""
BLOCK = 64
SWEEPS = 3
LEAST_SHARE = 0.3
"""The share of the mean of H's diagonal that is added to all of it (measured: costs at most 0.5 dB where samples give many rows of inputs, and gains
1 to 5 dB on new samples where they give no more rows than there are weights in one)."""


def damped(hessian: Reals, rows: int) -> Reals:
    """H with a larger diagonal, most where it sums few rows of inputs: else weights would fit these and nothing else.

    hessian: [k, k], whole numbers, and so is the answer. rows: how many products each entry sums.
    """
    return hessian + np.eye(len(hessian)) * _damping(float(np.trace(hessian)), len(hessian), rows)


def _damping(trace: float, size: int, rows: int) -> float:
    share = min(max(size / (4 * max(rows, 1)), LEAST_SHARE), 1.0)
    return float(np.rint(share * trace / size))


def normalised(hessian: Reals) -> Reals:
    """H in whole numbers of at most HESSIAN_BITS bits. hessian: [..., k, k], whole numbers."""
    return np.rint(hessian / unit_of(hessian))


def unit_of(hessian: Reals) -> float:
    """The value of 1 in the normalised H: a power of two."""
    return 2.0 ** max(int(np.abs(hessian).max(initial=0.0)).bit_length() - HESSIAN_BITS, 0)


@dataclass(frozen=True)
class Gram:
    """H of a layer: the sums of the products of its inputs, damped. As a matrix, or as the inputs themselves where they are so few that multiplying
    by them twice takes less time than making and using the matrix.

    inputs: [n, k], whole numbers of at most INPUT_BITS bits. outputs: rows of weights that will be rounded by it.
    """

    inputs: Array
    outputs: int

    @cached_property
    def matrix(self) -> Reals | None:
        """[k, k], damped; None where the inputs stand for it."""
        n, k = self.inputs.shape
        if k > BLOCK and 2 * SWEEPS * self.outputs * n < n * k // 2 + SWEEPS * self.outputs * k:
            return None
        return damped(products_of(self.inputs), n)

    @cached_property
    def columns(self) -> Reals:
        """The inputs as reals."""
        return self.inputs.astype(np.float64)

    @cached_property
    def damping(self) -> float:
        """The number that is added to the diagonal where there is no matrix."""
        return _damping(float(np.square(self.columns).sum()), self.inputs.shape[1], len(self.inputs))

    @cached_property
    def unit(self) -> float:
        """The value of 1 in the slopes of a descent."""
        return 1.0 if self.matrix is None else unit_of(self.matrix)

    @cached_property
    def normal(self) -> Reals | None:
        """The matrix, normalised."""
        return None if self.matrix is None else normalised(self.matrix)

    def energies(self, errors: Reals) -> Reals:
        """[rows]: as `output_errors`."""
        if self.matrix is not None:
            return output_errors(errors, self.matrix)
        return np.square(errors @ self.columns.T).sum(1) + self.damping * np.square(errors).sum(1)


def products_of(inputs: Array) -> Reals:
    """[k, k] of [n, k] whole numbers: the sums of their products, exact."""
    found, chunk = np.zeros((inputs.shape[1],) * 2), CHUNK if inputs.dtype == np.int8 else CHUNK // 4
    for first in range(0, len(inputs), chunk):
        part = inputs[first : first + chunk].astype(np.float32)
        found += part.T @ part
    return found


@dataclass
class _Slopes:
    """The slopes of a descent: errors [rows, k] in parts of a step, times H. outputs: the errors' outputs, where H is not a matrix."""

    gram: Gram
    errors: Reals
    outputs: Reals | None = None

    def __post_init__(self) -> None:
        if self.gram.normal is None:
            self.outputs = self.errors @ self.gram.columns.T

    def of(self, span: slice) -> Reals:
        """[rows, some]: the slopes of some columns."""
        normal = self.gram.normal
        if normal is not None:
            return self.errors @ normal[:, span]
        assert self.outputs is not None
        spare = EXACT_BITS - INPUT_BITS - len(self.gram.inputs).bit_length()
        unit = 2.0 ** max(int(np.abs(self.outputs).max(initial=0.0)).bit_length() - spare, 0)
        return np.rint(self.outputs / unit) @ self.gram.columns[:, span] * unit + self.errors[:, span] * self.gram.damping

    def inner(self, span: slice) -> Reals:
        """H among some columns."""
        normal = self.gram.normal
        if normal is not None:
            return normal[span, span]
        some = self.gram.columns[:, span]
        return some.T @ some + np.eye(some.shape[1]) * self.gram.damping

    def move(self, span: slice, steps: Reals) -> None:
        """steps: [rows, some] of weights, whole."""
        self.errors[:, span] += steps * FINE
        if self.outputs is not None:
            self.outputs += (steps * FINE) @ self.gram.columns[:, span].T


def round_rows(weights: Reals, gram: Gram, low: int, high: int, drift: Reals | None = None, sweeps: int = SWEEPS) -> Reals:
    """Whole numbers [rows, k] from low to high near `weights` [rows, k], which are in stored steps.

    drift: [rows, k], its products with the inputs in units of `gram` times stored steps; the weights take back as much of it as they can.
    """
    found = np.clip(np.floor(weights + 0.5), low, high)
    slopes, pull = _Slopes(gram, found * FINE - np.rint(weights * FINE)), _slope(drift, weights.shape)
    for _ in range(sweeps):
        moved = False
        for start in range(0, weights.shape[1], BLOCK):
            span = slice(start, start + BLOCK)
            steps = _descend(found[:, span], slopes.of(span) + pull[:, span], slopes.inner(span), (low, high))
            if steps.any():
                found[:, span] += steps
                slopes.move(span, steps)
                moved = True
        if not moved:
            break
    return found


def _slope(drift: Reals | None, shape: tuple[int, ...]) -> Reals:
    return np.zeros(shape) if drift is None else np.rint(drift * FINE)


def _descend(found: Reals, slope: Reals, inner: Reals, limits: tuple[int, int]) -> Reals:
    """One sweep over a block of columns; the steps to take. found, slope: [rows, some]. inner: [some, some]."""
    left, stored = np.ascontiguousarray(slope.T), np.ascontiguousarray(found.T)
    steps, diagonal = np.zeros(left.shape), np.maximum(np.diagonal(inner), 1.0) * FINE
    for k in range(len(left)):
        mine = left[k] + (inner[k, :k] * FINE) @ steps[:k]
        wanted = stored[k] - np.rint(mine / diagonal[k])
        steps[k] = np.minimum(np.maximum(wanted, limits[0]), limits[1]) - stored[k]
    return steps.T


def round_channels(weights: Reals, hessians: Reals, low: int, high: int, drift: Reals | None = None) -> Reals:
    """As `round_rows`, for weights [rows, k] that have an H of their own each: hessians [rows, k, k]."""
    fixed = np.rint(weights * FINE)
    found = np.clip(np.floor(weights + 0.5), low, high)
    slope = np.einsum("rk,rkj->rj", found * FINE - fixed, hessians) + _slope(drift, weights.shape)
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
