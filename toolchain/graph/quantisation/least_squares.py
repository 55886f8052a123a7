"""Rounds weights so that the layer's output, not each weight, is off by least: a coordinate descent in whole numbers.

The error of a layer's outputs is e H e for each row e of weight errors, where H sums the products of the inputs (the layer-wise objective of Nagel
et al., "Up or down? Adaptive rounding for post-training quantization", 2020). All of it is whole numbers below 2**53, so that the outcome does not
depend on a processor's order of adding up.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from toolchain.graph.quantisation.whole_numbers import MOST, STORED, descend, units_of, whole_products
from toolchain.spec.arrays import Array, Reals
from toolchain.spec.on_cores import halves, on_cores

FINE = 127
"""Parts of one stored step in which errors are counted: the most with which those of weights within the limits of a byte have 16 bits (measured on
digits: half as many lose 0.3 dB, more gain nothing)."""
HESSIAN_BITS = 14
"""Entries of H are rounded to so many bits: products of 16 bits are quick, and more bits gain nothing (measured: 13 to 26 bits, less than 0.1 dB)."""
CHUNK = 1024
"""Products of int8 whose sum a float32 holds exactly; of integers less their zero, which have a bit more, a quarter."""
BLOCK = 512
"""Columns whose slopes are found at once: products of large matrices take least time for each number."""
ERROR_BITS = 9
"""Bits of an error of a weight whose energy is asked for, of the largest in its row."""
OUTPUT_BITS = 14
"""Bits of outputs of errors, of the largest, where they stand for H."""
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


def normalised(hessian: Reals) -> Array:
    """H in whole numbers of at most HESSIAN_BITS bits, int16. hessian: [..., k, k], whole numbers."""
    return np.rint(hessian / unit_of(hessian)).astype(np.int16)


def unit_of(hessian: Reals) -> float:
    """The value of 1 in the normalised H: a power of two."""
    largest = max(hessian.max(initial=0.0), -hessian.min(initial=0.0))
    return 2.0 ** max(int(largest).bit_length() - HESSIAN_BITS, 0)


@dataclass(frozen=True)
class Gram:
    """H of a layer: the sums of the products of its inputs, damped. As a matrix, or as the inputs themselves where they are so few that multiplying
    by them twice takes less time than making and using the matrix.

    inputs: [n, k], whole numbers of at most 16 bits. outputs: rows of weights that will be rounded by it.
    """

    inputs: Array
    outputs: int

    @cached_property
    def _whole(self) -> tuple[float, Array | None]:
        """`unit` and `normal`."""
        n, k = self.inputs.shape
        if k > FEW and 2 * SWEEPS * self.outputs * n < n * k // 2 + SWEEPS * self.outputs * k:
            return unit_of(self._squares + self.damping), None
        hessian = damped(products_of(self.inputs), n)
        return unit_of(hessian), normalised(hessian)

    @property
    def unit(self) -> float:
        """The value of 1 in `normal`, in `blocks` and in the slopes of a descent: a power of two."""
        return self._whole[0]

    @property
    def normal(self) -> Array | None:
        """[k, k], normalised; None where the inputs stand for it."""
        return self._whole[1]

    @cached_property
    def wide(self) -> Array:
        """The inputs in int16, for products with others."""
        return self.inputs.astype(np.int16)

    @cached_property
    def _squares(self) -> Reals:
        """The diagonal of H without damping."""
        return np.einsum("nk,nk->k", self.inputs, self.inputs, dtype=np.float64)

    @cached_property
    def damping(self) -> float:
        """The number that is added to the diagonal where there is no matrix."""
        return _damping(float(self._squares.sum()), self.inputs.shape[1], len(self.inputs))

    @cached_property
    def blocks(self) -> tuple[Array, ...]:
        """H among the columns of each block, normalised."""
        spans = [slice(start, start + BLOCK) for start in range(0, self.inputs.shape[1], BLOCK)]
        if self.normal is not None:
            return tuple(self.normal[span, span] for span in spans)
        return tuple(on_cores(self._block, spans))

    def _block(self, span: slice) -> Array:
        found = products_of(self.inputs[:, span])
        found[np.diag_indices_from(found)] += self.damping
        return np.rint(found / self.unit).astype(np.int16)

    def energies(self, errors: Reals) -> Reals:
        """[rows]: the squared error of each row's outputs, and what the damping adds. errors: [rows, k], of which ERROR_BITS count."""
        _ = self.normal is None and self.wide  # for all threads
        return np.concatenate(on_cores(lambda some: self._energies(errors[some]), halves(len(errors), FEW)))

    def _energies(self, errors: Reals) -> Reals:
        """As `energies`, of some rows."""
        units = units_of(errors, ERROR_BITS)
        whole = np.rint(errors / units).astype(np.int16)
        if self.normal is not None:
            energy = (whole_products(whole, self.normal) * whole).sum(1) * self.unit
        else:
            energy = np.square(whole_products(whole, self.wide.T)).sum(1) + self.damping * np.square(whole, dtype=np.float64).sum(1)
        return energy * np.square(units[:, 0])


def products_of(inputs: Array) -> Reals:
    """[k, k] of [n, k] whole numbers: the sums of their products, exact."""
    if inputs.dtype in STORED and inputs.shape[1] > FEW:
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
    errors: Array
    outputs: Reals | None = None

    def __post_init__(self) -> None:
        if self.gram.normal is None:
            self.outputs = whole_products(self.gram.wide, self.errors)

    def of(self, span: slice) -> Reals:
        """[some, rows]: the slopes of some columns, whole."""
        normal = self.gram.normal
        if normal is not None:
            return whole_products(normal[span], self.errors)
        assert self.outputs is not None
        largest = int(max(self.outputs.max(), -self.outputs.min()))
        unit = 2.0 ** max(largest.bit_length() - OUTPUT_BITS, 0)
        slopes = whole_products(self.gram.wide[:, span].T, np.rint(self.outputs / unit).astype(np.int16))
        return np.rint((slopes * unit + self.errors[span] * self.gram.damping) / self.gram.unit)

    def move(self, span: slice, steps: Reals) -> None:
        """steps: [some, rows] of weights, whole."""
        self.errors[span] += (steps * FINE).astype(self.errors.dtype)
        if self.outputs is not None:
            self.outputs += whole_products(self.gram.wide[:, span], steps.astype(np.int16)) * FINE


def _errors_of(found: Reals, wanted: Reals, limits: tuple[int, int]) -> Array:
    """In parts of a step; int16 where the errors of all weights within the limits are."""
    errors, largest = found * FINE - np.rint(wanted * FINE), max(wanted.max(initial=0.0), -wanted.min(initial=0.0))
    return errors.astype(np.int16) if (largest + max(-limits[0], limits[1]) + 1) * FINE < MOST else errors


def round_rows(weights: Reals, gram: Gram, low: int, high: int, drift: Reals | None = None, sweeps: int = SWEEPS) -> Reals:
    """Whole numbers [rows, k] from low to high near `weights` [rows, k], which are in stored steps.

    drift: [rows, k], its products with the inputs in units of `gram` times stored steps; the weights take back as much of it as they can.
    """
    _ = gram.blocks, gram.normal is None and gram.wide  # for all threads
    parts = on_cores(
        lambda some: _round_some(weights[some], gram, (low, high), None if drift is None else drift[some], sweeps), halves(len(weights), FEW)
    )
    return np.concatenate(parts)


def _round_some(weights: Reals, gram: Gram, limits: tuple[int, int], drift: Reals | None, sweeps: int) -> Reals:
    """As `round_rows`, of some rows."""
    wanted = np.ascontiguousarray(weights.T)  # a descent takes one weight of all rows at a time
    found = np.clip(np.floor(wanted + 0.5), *limits)
    slopes, pull = _Slopes(gram, _errors_of(found, wanted, limits)), None if drift is None else np.rint(np.ascontiguousarray(drift.T) * FINE)
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


def round_channels(weights: Reals, hessians: Array, low: int, high: int, drift: Reals | None = None) -> Reals:
    """As `round_rows`, for weights [rows, k] that have an H of their own each: hessians [rows, k, k], whole numbers."""
    fixed, hessians = np.rint(weights * FINE), hessians.astype(np.float64)
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
