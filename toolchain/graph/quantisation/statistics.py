"""The inputs of a convolution or dense layer at its output positions, in whole numbers, and the mean of each tap.

The drift of a layer is the error of its outputs that comes from the integers of the layers before it, through its own weights. Rounding a layer's
weights such that they take a part of it back follows Frantar and Alistarh, who go weight by weight ("Optimal Brain Compression", 2022); here it is
the slope that the descent begins with (see quantisation.least_squares). Sums are whole numbers below 2**53, so that they do not depend on a
processor's order of adding up."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from toolchain.graph.integers.calls import Call
from toolchain.spec.arrays import Array, Floats, Reals
from toolchain.spec.on_cores import halves, on_cores

MAX_ROWS = 1 << 14
"""The most output positions whose products are summed; of more, every n-th."""
LEAST_ROWS = 1 << 12
ROWS_A_WEIGHT = 4
"""Positions for each weight of a row, but not fewer than LEAST_ROWS: more tell hardly more (neighbouring ones see the same pixels)."""
SPREAD = "output_padding"
"""The attribute that a transposed convolution has and no other layer."""
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
    sums = sum(on_cores(lambda array: _tap_sums(call, array, weights), inputs), np.zeros((groups_of(call), int(np.prod(weights[1:])))))
    return sums / max(sum(_positions(call, array, weights) for array in inputs), 1)


def joined(inputs: Sequence[Array], floats: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """Samples of a layer, as integers and in floating point, one behind the other along the first axis, as many as JOINED_BYTES allow."""
    starts, size = list[int](), JOINED_BYTES
    for number, array in enumerate(inputs):
        size += array.nbytes
        if size > JOINED_BYTES or array.shape[1:] != inputs[starts[-1]].shape[1:]:
            starts.append(number)
            size = array.nbytes
    parts = [slice(first, stop) for first, stop in zip(starts, [*starts[1:], len(inputs)], strict=True)]
    return [np.concatenate(inputs[part]) for part in parts], [np.concatenate(floats[part]) for part in parts]


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
    """[groups, k]: the sum of every tap over all output positions."""
    if not _slides(call):
        return _rows(x).sum(0, dtype=np.float64)[None]
    views, wide = _views(call, x, weights), np.int64 if x.dtype.kind == "i" else np.float64
    taps = [views[..., i, j].sum((0, 2, 3), dtype=wide) for i in range(weights[2]) for j in range(weights[3])]
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
"""Parts of a stored step to which float inputs are rounded; 2**15 of them is the largest input that counts."""
WEIGHT_PARTS = 1 << 16
"""Parts of the largest weight to which weights are rounded."""
DROPPED = 1 << 13
"""The divisor of a drift before it is rounded: with 2**13 weights a row and 2**14 output positions, sums stay below 2**53."""


GATHERED = 1 << 9
"""Positions whose drift is found at once."""


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
    unit = (float(np.abs(weights).max(initial=0.0)) or 1.0) / WEIGHT_PARTS
    rows = np.rint(weights.reshape(group, len(weights) // group, -1).astype(np.float64) / unit)
    ends = np.cumsum([0, *map(len, places)])

    def found(some: slice) -> Drift:
        """The sums over some samples."""
        parts = zip(inputs[some], floats[some], places[some], strict=True)
        gaps = (columns_of(call, _gap(stored, real, scale), shape, few).astype(np.float64) for stored, real, few in parts)
        return _whole_drift(rows, gaps, columns[:, ends[some.start] : ends[some.stop]])

    first, *others = on_cores(found, halves(len(inputs), 1))
    worth = unit * DROPPED / INPUT_PARTS
    return Drift(sum((each.products for each in others), first.products) * worth, sum((each.energy for each in others), first.energy) * worth**2)


def _gap(stored: Array, real: Array, scale: float) -> Floats:
    """Errors of stored integers, in parts of a stored step; whole numbers."""
    return stored.astype(np.float32) * INPUT_PARTS - _parts(real, scale)


def _whole_drift(rows: Reals, gaps: Iterable[Reals], columns: Array) -> Drift:
    """Sums of whole numbers. gaps: [groups, positions, k] of each sample. columns: stored integers at the positions of all these samples."""
    products, energy, first = np.zeros(rows.shape), np.zeros(rows.shape[:2]), 0
    for gap in _gathered(gaps):
        drift = np.matmul(rows, gap.transpose(0, 2, 1))
        drift /= DROPPED
        np.rint(drift, out=drift)
        products += np.matmul(drift, columns[:, first : first + gap.shape[1]].astype(np.float64))
        energy += np.einsum("gop,gop->go", drift, drift)
        first += gap.shape[1]
    return Drift(products, energy)


def _gathered(columns: Iterable[Array]) -> Iterator[Array]:
    """[groups, positions, k] of several samples behind each other, at least GATHERED positions: sums over few take longer to store than to make."""
    waiting, count = list[Array](), 0
    for each in columns:
        waiting.append(each)
        count += each.shape[1]
        if count >= GATHERED:
            yield np.concatenate(waiting, 1) if len(waiting) > 1 else each
            waiting, count = list[Array](), 0
    if waiting:
        yield np.concatenate(waiting, 1)


def _parts(real: Array, scale: float) -> Array:
    """A float input in whole parts of a stored step."""
    return np.clip(np.rint(np.asarray(real, np.float64) * (INPUT_PARTS / scale)), -(2**15), 2**15 - 1).astype(np.int16)
