"""Products and sums that are whole numbers all the way, so that their order, and thereby machine and library, does not matter."""

import numpy as np

from toolchain.models.geometry import Floats, Taps
from toolchain.models.random_bits import Bell

Reals = np.typing.NDArray[np.float64]
WEIGHT_SHIFT = 3
_WEIGHT_LIMIT = 64
_INPUT_LIMIT = 63
_EXACT = 1 << 24
DEEPEST = _EXACT // _WEIGHT_LIMIT
"""Products in one sum for which inputs still have a bit."""
_FEW = 320
_SIDE = 28
_GRID = float(1 << 12)


def mean(x: Floats, axes: tuple[int, ...]) -> Reals:
    """The average over some axes of values rounded to 2**-12."""
    count = int(np.prod([x.shape[a] for a in axes]))
    return np.rint(x * np.float32(_GRID)).sum(axis=axes, dtype=np.int64) / _GRID / count


def coarse_input(x: Floats, depth: int) -> tuple[Floats, float]:
    """x as whole numbers times a power of two, few enough bits that sums of `depth` products, at most DEEPEST, are exact in float32."""
    limit = min(_INPUT_LIMIT, _EXACT // (_WEIGHT_LIMIT * depth))
    typical = float(mean(np.abs(x), tuple(range(x.ndim)))) or 1.0
    _, exponent = np.frexp(6.0 * typical / limit)
    unit = float(np.ldexp(1.0, int(exponent)))
    return np.clip(np.rint(x * np.float32(1 / unit)), -limit, limit), unit


def coarse_weights(whole: Bell) -> Floats:
    """The weights with three bits less."""
    rounded = whole + np.int16(1 << WEIGHT_SHIFT >> 1)
    rounded >>= WEIGHT_SHIFT
    return rounded.astype(np.float32)


def convolve(x: Floats, weights: Floats, groups: int, taps: Taps) -> Floats:
    """[batch, out, *taps.out] of whole numbers x [batch, in, height, width] and weights [out, in / groups, taps]."""
    batch, channels = x.shape[:2]
    out, depth = weights.shape[:2]
    if depth == 1 and out == channels == groups:
        return _depthwise(x, weights, taps)
    if weights[0].size <= _FEW and groups == 1:
        columns = np.stack(list(taps.views(x, 0)), axis=2).reshape(batch, weights[0].size, -1)
        return (weights.reshape(out, -1) @ columns).reshape(batch, out, *taps.out)
    total = np.zeros((batch, groups, out // groups, taps.out[0] * taps.out[1]), np.float32)
    for tap, view in enumerate(taps.views(x, 0)):
        kernel = np.ascontiguousarray(weights[:, :, tap]).reshape(groups, out // groups, depth)
        total += kernel @ view.reshape(batch, groups, depth, -1)
    return total.reshape(batch, out, *taps.out)


def _depthwise(x: Floats, weights: Floats, taps: Taps) -> Floats:
    total = np.zeros((*x.shape[:2], *taps.out), np.float32)
    for tap, view in enumerate(taps.views(x, 0)):
        total += view * weights[:, 0, tap, None, None]
    return total


def channel_moments(y: Floats) -> tuple[Reals, Reals]:
    """Mean and variance of every channel of whole numbers y [batch, channels, ...], over some _SIDE x _SIDE places of an image."""
    if y.ndim == 4:
        rows, columns = (max(1, size // _SIDE) for size in y.shape[2:])
        y = y[:, :, ::rows, ::columns]
    values = np.moveaxis(y, 1, 0).reshape(y.shape[1], -1).astype(np.int64)
    average = values.sum(axis=1) / values.shape[1]
    square = (values * values).sum(axis=1) / values.shape[1]
    return average, np.maximum(square - average * average, 0.0)
