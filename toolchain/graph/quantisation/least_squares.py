"""Rounds weights so that the layer's output, not each weight, is off by least: a coordinate descent in whole numbers.

The error of a layer's outputs is e H e for each row e of weight errors, where H sums the products of the inputs (the layer-wise objective of Nagel
et al., "Up or down? Adaptive rounding for post-training quantization", 2020). All of it is whole numbers below 2**53, so that the outcome does not
depend on a processor's order of adding up.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from toolchain.graph.quantisation.whole_numbers import BYTES, LARGEST, descend, digits_of, joined_digits, whole_products
from toolchain.spec.arrays import Array, Reals
from toolchain.spec.on_cores import halves, on_cores

FINE = 1 << 10
"""Parts of one stored step in which errors are counted."""
HESSIAN_BITS = 26
"""Entries of H are rounded to so many bits; with FINE and 2**13 weights a row, sums stay below 2**53."""
INPUT_BITS = 9
"""The most bits of an input, a stored integer less its zero."""
EXACT_BITS = 53
"""Whole numbers below 2**EXACT_BITS are exact."""
CHUNK = 1024
"""Products of int8 whose sum a float32 holds exactly; of integers less their zero, which have a bit more, a quarter."""
BLOCK = 512
"""Columns whose slopes are found at once: products of large matrices take least time for each number."""
SYMMETRIC = 4
"""A product in float64 takes this many times as long as one of a matrix with itself in float32 (measured: 47 and 140 GFLOP/s, half left out)."""
FEW = 64
"""Weights of a row up to which the matrix costs nothing to speak of."""
SWEEPS = 3
LEAST_SHARE = 0.3
"""The share of the mean of H's diagonal that is added to all of it (measured: costs at most 0.5 dB where samples give many rows of inputs, and gains
1 to 5 dB on new samples where they give no more rows than there are weights in one)."""


def damped(hessian: Reals, rows: int) -> Reals:
    """H with a larger diagonal, most where it sums few rows of inputs: else weights would fit these and nothing else.

    hessian: [k, k], whole numbers, and so is the answer. rows: how many products each entry sums.
    """
    found = hessian.copy()
    found[np.diag_indices_from(found)] += _damping(float(np.trace(hessian)), len(hessian), rows)
    return found


def _damping(trace: float, size: int, rows: int) -> float:
    share = min(max(size / (4 * max(rows, 1)), LEAST_SHARE), 1.0)
    return float(np.rint(share * trace / size))


def normalised(hessian: Reals) -> Reals:
    """H in whole numbers of at most HESSIAN_BITS bits. hessian: [..., k, k], whole numbers."""
    return np.rint(hessian / unit_of(hessian))


def unit_of(hessian: Reals) -> float:
    """The value of 1 in the normalised H: a power of two."""
    largest = max(hessian.max(initial=0.0), -hessian.min(initial=0.0))
    return 2.0 ** max(int(largest).bit_length() - HESSIAN_BITS, 0)


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
        if k > FEW and 2 * SWEEPS * self.outputs * n < n * k // SYMMETRIC + SWEEPS * self.outputs * k:
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
        if self.matrix is None:
            return None
        return self.matrix if self.unit == 1 else normalised(self.matrix)

    @cached_property
    def blocks(self) -> tuple[Reals, ...]:
        """H among the columns of each block."""
        spans = [slice(start, start + BLOCK) for start in range(0, self.inputs.shape[1], BLOCK)]
        if self.normal is not None:
            return tuple(self.normal[span, span] for span in spans)
        found = tuple(on_cores(lambda span: products_of(self.inputs[:, span]), spans))
        for block in found:
            block[np.diag_indices_from(block)] += self.damping
        return found

    def prepare(self) -> None:
        """Makes all that several threads will ask for."""
        _ = self.blocks, self.normal is None and self.columns

    def energies(self, errors: Reals) -> Reals:
        """[rows]: as `output_errors`."""
        self.prepare()
        return np.concatenate(on_cores(lambda some: self._energies(errors[some]), halves(len(errors), FEW)))

    def _energies(self, errors: Reals) -> Reals:
        """As `energies`, of some rows."""
        if self.matrix is not None:
            return output_errors(errors, self.matrix)
        return np.square(errors @ self.columns.T).sum(1) + self.damping * np.square(errors).sum(1)


def products_of(inputs: Array) -> Reals:
    """[k, k] of [n, k] whole numbers: the sums of their products, exact."""
    if inputs.dtype == np.int8 and inputs.shape[1] > FEW:
        return _own_products(inputs)
    found, chunk = np.zeros((inputs.shape[1],) * 2), CHUNK if inputs.dtype == np.int8 else CHUNK // 4
    for first in range(0, len(inputs), chunk):
        part = inputs[first : first + chunk].astype(np.float32)
        found += part.T @ part
    return found


def _own_products(inputs: Array) -> Reals:
    """As `products_of`, block by block: those on one side of the diagonal are those on the other."""
    size = inputs.shape[1]
    found = np.empty((size, size))

    def fill(first: int) -> None:
        rows = slice(first, first + BLOCK)
        found[rows, first:] = whole_products(inputs[:, rows].T, inputs[:, first:])
        found[first + BLOCK :, rows] = found[rows, first + BLOCK :].T

    on_cores(fill, range(0, size, BLOCK))
    return found


@dataclass
class _Slopes:
    """The slopes of a descent: errors [k, rows] in parts of a step, times H. outputs: [n, rows] of the errors, where H is not a matrix."""

    gram: Gram
    errors: Reals
    outputs: Reals | None = None

    def __post_init__(self) -> None:
        if self.gram.normal is None:
            self.outputs = self._made()

    def _made(self) -> Reals:
        """The outputs of the errors that there are."""
        if self.gram.inputs.dtype != np.int8 or max(self.errors.max(), -self.errors.min()) > LARGEST:
            return self.gram.columns @ self.errors
        return joined_digits([whole_products(self.gram.inputs, digit) for digit in digits_of(self.errors)])

    def of(self, span: slice) -> Reals:
        """[some, rows]: the slopes of some columns."""
        normal = self.gram.normal
        if normal is not None:
            return normal[span] @ self.errors
        assert self.outputs is not None
        spare = EXACT_BITS - INPUT_BITS - len(self.gram.inputs).bit_length()
        unit = 2.0 ** max(int(max(self.outputs.max(), -self.outputs.min())).bit_length() - spare, 0)
        whole = self.outputs if unit == 1 else np.rint(self.outputs / unit)
        slopes = self.gram.columns[:, span].T @ whole
        return (slopes if unit == 1 else slopes * unit) + self.errors[span] * self.gram.damping

    def move(self, span: slice, steps: Reals) -> None:
        """steps: [some, rows] of weights, whole."""
        self.errors[span] += steps * FINE
        if self.outputs is not None:
            self.outputs += self._pushed(span, steps) * FINE

    def _pushed(self, span: slice, steps: Reals) -> Array:
        """[n, rows]: the outputs of steps."""
        if self.gram.inputs.dtype == np.int8 and np.abs(steps).max() < BYTES // 2:
            return whole_products(self.gram.inputs[:, span], steps.astype(np.int8))
        return self.gram.columns[:, span] @ steps


def round_rows(weights: Reals, gram: Gram, low: int, high: int, drift: Reals | None = None, sweeps: int = SWEEPS) -> Reals:
    """Whole numbers [rows, k] from low to high near `weights` [rows, k], which are in stored steps.

    drift: [rows, k], its products with the inputs in units of `gram` times stored steps; the weights take back as much of it as they can.
    """
    gram.prepare()
    parts = on_cores(
        lambda some: _round_some(weights[some], gram, (low, high), None if drift is None else drift[some], sweeps), halves(len(weights), FEW)
    )
    return np.concatenate(parts)


def _round_some(weights: Reals, gram: Gram, limits: tuple[int, int], drift: Reals | None, sweeps: int) -> Reals:
    """As `round_rows`, of some rows."""
    wanted = np.ascontiguousarray(weights.T)  # a descent takes one weight of all rows at a time
    found = np.clip(np.floor(wanted + 0.5), *limits)
    slopes, pull = _Slopes(gram, found * FINE - np.rint(wanted * FINE)), None if drift is None else np.rint(np.ascontiguousarray(drift.T) * FINE)
    for _ in range(sweeps):
        moved = False
        for number, inner in enumerate(gram.blocks):
            span = slice(number * BLOCK, number * BLOCK + len(inner))
            slope = slopes.of(span)
            if pull is not None:
                slope += pull[span]
            steps = descend(found[span], slope, inner, limits, FINE)
            if steps.any():
                found[span] += steps
                slopes.move(span, steps)
                moved = True
        if not moved:
            break
    return np.ascontiguousarray(found.T)


def round_channels(weights: Reals, hessians: Reals, low: int, high: int, drift: Reals | None = None) -> Reals:
    """As `round_rows`, for weights [rows, k] that have an H of their own each: hessians [rows, k, k]."""
    fixed = np.rint(weights * FINE)
    found = np.clip(np.floor(weights + 0.5), low, high)
    slope = np.einsum("rk,rkj->rj", found * FINE - fixed, hessians) + (0.0 if drift is None else np.rint(drift * FINE))
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
