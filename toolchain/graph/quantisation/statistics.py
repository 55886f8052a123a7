"""The inputs of a convolution or dense layer at its output positions, in whole numbers, and the mean of each tap.

The drift of a layer is the error of its outputs that comes from the integers of the layers before it, through its own weights. Rounding a layer's
weights such that they take a part of it back follows Frantar and Alistarh, who go weight by weight ("Optimal Brain Compression", 2022); here it is
the slope that the descent begins with (see quantisation.least_squares). Sums are whole numbers below 2**53, so that they do not depend on a
processor's order of adding up."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolchain.graph.integers.calls import Call
from toolchain.graph.quantisation.whole_numbers import MOST, SMALL, units_of, whole_products
from toolchain.spec.arrays import Array, Reals
from toolchain.spec.on_cores import halves, on_cores

MAX_ROWS = 1 << 14
"""The most output positions whose products are summed; of more, every n-th."""
LEAST_ROWS = 1 << 12
ROWS_A_WEIGHT = 4
"""Positions for each weight of a row, but not fewer than LEAST_ROWS: more tell hardly more (neighbouring ones see the same pixels)."""
SPREAD = "output_padding"
"""The attribute that a transposed convolution has and no other layer."""
FEW = 64
"""Rows of weights that one processor takes at least."""
JOINED_BYTES = 1 << 16
"""Bytes up to which samples are joined: of small ones, each step costs more than its arithmetic."""


@dataclass(frozen=True)
class Moments:
    """means: [groups, k] of every tap over all output positions. inputs: [groups, rows, k], those of some positions; whole numbers.

    The inputs keep the means in: an error that a constant input makes would vary with the brightness of a picture, and no bias takes it out.
    """

    means: Reals
    inputs: Array


def moments_of(call: Call, inputs: Sequence[Array], weights: tuple[int, ...]) -> Moments:
    """inputs: int8, or int16 less their zero, one array a sample. weights: the shape of the layer's weights."""
    places = sampled(call, inputs, weights)
    columns = on_cores(lambda each: columns_of(call, each[0], weights, each[1]), zip(inputs, places, strict=True))
    return Moments(tap_means(call, inputs, weights), np.concatenate(columns, 1))


def tap_means(call: Call, inputs: Sequence[Array], weights: tuple[int, ...]) -> Reals:
    """[groups, k] of every tap over all output positions. inputs: whole or float, one array a sample. weights: as in `moments_of`."""
    shapes = dict.fromkeys(array.shape[1:] for array in inputs)
    totals = on_cores(_total, [[array for array in inputs if array.shape[1:] == shape] for shape in shapes])
    sums = sum((_tap_sums(call, total, weights) for total in totals), np.zeros((groups_of(call), int(np.prod(weights[1:])))))
    return sums / max(sum(_positions(call, array, weights) for array in inputs), 1)


def _total(arrays: Sequence[Array]) -> Array:
    """[1, ...]: the sum of arrays of one shape but for the first axis, over that too: taps of a sum are sums of taps."""
    wide = np.int64 if arrays[0].dtype.kind == "i" else np.float64
    found = arrays[0].sum(0, wide, keepdims=True)
    for array in arrays[1:]:
        found += array if len(array) == 1 else array.sum(0, wide, keepdims=True)
    return found


def joined(inputs: Sequence[Array], floats: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """Samples of a layer, as integers and in floating point, one behind the other along the first axis, as many as JOINED_BYTES allow."""
    starts, size = list[int](), JOINED_BYTES
    for number, array in enumerate(inputs):
        size += array.nbytes
        if size > JOINED_BYTES or array.shape[1:] != inputs[starts[-1]].shape[1:]:
            starts.append(number)
            size = array.nbytes
    parts = [slice(first, stop) for first, stop in zip(starts, [*starts[1:], len(inputs)], strict=True)]
    return [_one(inputs[part]) for part in parts], [_one(floats[part]) for part in parts]


def _one(arrays: Sequence[Array]) -> Array:
    """Joined along the first axis; a single one is no copy."""
    return np.concatenate(arrays) if len(arrays) > 1 else arrays[0]


def groups_of(call: Call) -> int:
    """Groups of channels of a convolution; others have one."""
    return int(call.attributes.get("group", 1))


def sampled(call: Call, inputs: Sequence[Array], weights: tuple[int, ...], most: int = 0) -> list[Array]:
    """Output positions of each sample that are looked at: every n-th, so that there are at most `most` of all samples, or as many as weights need."""
    counts, enough = [_positions(call, array, weights) for array in inputs], max(LEAST_ROWS, ROWS_A_WEIGHT * int(np.prod(weights[1:])))
    step, found, total = -(-sum(counts) // (most or min(enough, MAX_ROWS))), list[Array](), 0
    for count in counts:
        found.append(np.arange((-total) % step, count, step))
        total += count
    return found


def _slides(call: Call) -> bool:
    """Whether a layer's weights slide over a picture."""
    return bool(call.operation.pads) or SPREAD in call.attributes


def _rows(x: Array) -> Array:
    """The inputs of a layer without windows, a row for each position."""
    return x.reshape(-1, x.shape[-1])


def _positions(call: Call, x: Array, weights: tuple[int, ...]) -> int:
    """Output positions of a sample."""
    if not _slides(call):
        return len(_rows(x))
    shape = _views(call, x, weights).shape
    return shape[0] * shape[2] * shape[3]


def columns_of(call: Call, x: Array, weights: tuple[int, ...], places: Array) -> Array:
    """[groups, positions, k]: the inputs that each row of the weights meets at some output positions, counted image by image, row by row."""
    if not _slides(call):
        return _rows(x)[places][None]
    views, group = _views(call, x, weights), groups_of(call)
    image, row, column = np.unravel_index(places, (views.shape[0], *views.shape[2:4]))
    found = views[image, :, row, column]
    return found.reshape(len(places), group, int(np.prod(weights[1:]))).transpose(1, 0, 2)


def _tap_sums(call: Call, x: Array, weights: tuple[int, ...]) -> Reals:
    """[groups, k]: the sum of every tap over all output positions. x: int64 or float64."""
    if not _slides(call):
        return _rows(x).sum(0, dtype=np.float64)[None]
    views = _views(call, x, weights)
    taps = [views[..., i, j].sum((0, 2, 3)) for i in range(weights[2]) for j in range(weights[3])]
    return np.stack(taps, 1).reshape(groups_of(call), -1).astype(np.float64)


def _views(call: Call, x: Array, weights: tuple[int, ...]) -> Array:
    """[n, c, h, w, kh, kw]: the pixel that each tap meets for each pixel of the result, or zero."""
    pads, strides, dilations = (call.attributes[name] for name in ("pads", "strides", "dilations"))
    reach = tuple((size - 1) * step + 1 for size, step in zip(weights[2:], dilations, strict=True))
    if SPREAD in call.attributes:
        return _spread_views(x, reach, pads, strides, call.attributes[SPREAD])[..., :: dilations[0], :: dilations[1]]
    view = np.lib.stride_tricks.sliding_window_view(_padded(x, pads), reach, (2, 3))
    return view[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]


def _spread_views(x: Array, reach: tuple[int, ...], pads: Sequence[int], strides: Sequence[int], more: Sequence[int]) -> Array:
    """Taps of a transposed convolution run backwards over the picture with zeros between its pixels."""
    spread = np.zeros((*x.shape[:2], *(size * step for size, step in zip(x.shape[2:], strides, strict=True))), x.dtype)
    spread[:, :, :: strides[0], :: strides[1]] = x
    before = [size - 1 - pad for size, pad in zip(reach, pads[:2], strict=True)]
    after = [size - pad + extra - step for size, pad, extra, step in zip(reach, pads[2:], more, strides, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(_padded(spread, [*before, *after]), reach, (2, 3))
    return view[..., ::-1, ::-1]


def _padded(x: Array, pads: Sequence[int]) -> Array:
    """pads: top, left, bottom, right; rows and columns are cut off where one is negative."""
    top, left, bottom, right = pads
    grown = np.pad(x, ((0, 0), (0, 0), (max(top, 0), max(bottom, 0)), (max(left, 0), max(right, 0))))
    return grown[:, :, max(-top, 0) : grown.shape[2] - max(-bottom, 0), max(-left, 0) : grown.shape[3] - max(-right, 0)]


INPUT_PARTS = 1 << 6
"""Parts of a stored step in which errors of inputs are counted."""
WEIGHT_BITS = 10
"""Bits to which the weights of a row are rounded, of the largest."""
DRIFT_BITS = 12
"""Bits to which the drift of a row is rounded, of the largest."""
TOGETHER = 1 << 20
"""Numbers of groups whose drift is found at once, at most, where there are several."""


@dataclass(frozen=True)
class Drift:
    """products: [groups, rows, k], of each row's drift and each input, summed over output positions; in units of weights times stored steps squared.

    energy: [groups, rows], the sum of the drift's squares.
    """

    products: Reals
    energy: Reals

    def some(self, every: int) -> "Drift":
        """The drift of every n-th row."""
        return Drift(self.products[:, ::every], self.energy[:, ::every])


def drift_of(call: Call, inputs: Sequence[Array], floats: Sequence[Array], scale: float, weights: Array, columns: Array) -> Drift:
    """inputs: stored integers less their zero, one array a sample, a step worth `scale`. floats: the same inputs in the float network.

    weights: the layer's, float. columns: the inputs at output positions, as `moments_of` finds them.
    """
    group, shape, places = groups_of(call), weights.shape, sampled(call, inputs, weights.shape)
    rows = weights.reshape(group, len(weights) // group, -1).astype(np.float64)
    parts = zip(inputs, floats, places, strict=True)
    gaps = np.concatenate(on_cores(lambda each: columns_of(call, _gap(*each[:2], scale), shape, each[2]), parts), 1)
    if group == 1:
        found = on_cores(lambda some: _drift(rows[:, some], gaps, columns), halves(rows.shape[1], FEW))
        return Drift(np.concatenate([each.products for each in found], 1), np.concatenate([each.energy for each in found], 1))
    some = max(TOGETHER // gaps[0].size, 1)
    spans = [slice(first, first + some) for first in range(0, group, some)]
    found = on_cores(lambda span: _drift(rows[span], gaps[span], columns[span]), spans)
    return Drift(np.concatenate([each.products for each in found]), np.concatenate([each.energy for each in found]))


def _gap(stored: Array, real: Array, scale: float) -> Array:
    """Errors of stored integers, in parts of a stored step; whole numbers, int16."""
    gap = stored.astype(np.float32) * INPUT_PARTS - np.rint(np.asarray(real, np.float32) * np.float32(INPUT_PARTS / scale))
    return np.clip(gap, -MOST, MOST).astype(np.int16)


def _drift(rows: Reals, gaps: Array, columns: Array) -> Drift:
    """rows: [groups, rows, k], weights. gaps: [groups, positions, k], errors of inputs, whole. columns: of the same shape, the inputs."""
    units = units_of(rows, WEIGHT_BITS)
    drift = _products(np.rint(rows / units).astype(np.int16), gaps.transpose(0, 2, 1))
    shares = np.maximum(units_of(drift, DRIFT_BITS), 1.0)
    whole = np.rint(drift / shares).astype(np.int16)
    worth = units * shares / INPUT_PARTS
    energy = np.square(whole, dtype=np.float64).sum(2) * np.square(worth[..., 0])
    return Drift(_products(whole, columns) * worth, energy)


def _products(one: Array, other: Array) -> Reals:
    """[groups, m, n] of [groups, m, k] and [groups, k, n], exact."""
    if len(one) > 1 and one[0].size * other.shape[2] < SMALL:
        return np.matmul(one.astype(np.float64), other.astype(np.float64))
    return np.stack([whole_products(*each) for each in zip(one, other, strict=True)])
