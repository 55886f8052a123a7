"""Arithmetic with the same result on every machine, whatever numpy's version.

Random integers depend on a key and a position alone. Operators on made-up pictures take whole-number products and sums, windows and pools.
"""

import hashlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import onnx

from toolchain.models.operators import Shape
from toolchain.spec.arrays import Floats, Reals

Words = np.typing.NDArray[np.uint64]
T = TypeVar("T")
Bell = np.typing.NDArray[np.int16]
BELL_SQUARE = 4 * (256 * 256 - 1) / 12
"""Mean square of `bell`: four bytes, each of variance (256**2 - 1) / 12."""
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
_EVEN_BYTES = np.uint64(0x00FF00FF00FF00FF)
_CHUNK = 1 << 14


def key_of(*parts: str | int) -> int:
    """64 bits from names and numbers."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:8], "little")


def words(key: int, start: int, count: int) -> Words:
    """Words start .. start + count of the key's sequence: SplitMix64, a counter put through a mixing function."""
    value = np.arange(start + 1, start + count + 1, dtype=np.uint64)
    value *= _STEP
    value += np.uint64(key)
    for shift, factor in _MIX:
        value ^= value >> shift
        value *= factor
    value ^= value >> np.uint64(31)
    return value


def signed_bytes(key: int, count: int) -> np.typing.NDArray[np.int8]:
    """`count` numbers from -128 to 127, all alike likely."""
    return words(key, 0, -(-count // 8)).astype("<u8", copy=False).view(np.int8)[:count]


def bell(key: int, count: int) -> Bell:
    """`count` numbers from -510 to 510, bell-shaped around 0 with a deviation of 148: sums of four bytes."""
    found = np.empty(-(-count // 4), "<u8")
    for start in range(0, len(found), _CHUNK):  # pieces that stay in the processor's cache
        size = min(_CHUNK, len(found) - start)
        both = words(key, 2 * start, 2 * size)
        pairs = both & _EVEN_BYTES
        pairs += (both >> np.uint64(8)) & _EVEN_BYTES
        np.add(pairs[:size], pairs[size:], out=found[start : start + size])
    numbers = found.view("<i2").astype(np.int16, copy=False)[:count]
    numbers -= 510
    return numbers


def attribute(node: onnx.NodeProto, name: str, default: T) -> T:
    """An attribute's value, or `default`."""
    return next((onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


@dataclass(frozen=True)
class Taps:
    """A window of a node over images. out: height and width of the result."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilation: tuple[int, int]
    out: tuple[int, int]

    def views(self, x: Floats, beyond: float) -> Iterator[Floats]:
        """The elements under every tap, row by row: [batch, channels, *out] of x [batch, channels, height, width]; `beyond` is the padding."""
        padded = self._padded(x, beyond)
        for tap in itertools.product(*map(range, self.kernel)):
            starts = [t * d for t, d in zip(tap, self.dilation, strict=True)]
            spans = [slice(b, b + (n - 1) * s + 1, s) for b, n, s in zip(starts, self.out, self.stride, strict=True)]
            yield padded[:, :, spans[0], spans[1]]

    def _padded(self, x: Floats, beyond: float) -> Floats:
        """With padding on all sides, at the end as far as the last window reaches (further than `pads` says, where it may hang over)."""
        reach = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(self.out, self.stride, self.kernel, self.dilation, strict=True)]
        after = [max(r - b - size, 0) for r, b, size in zip(reach, self.pads[:2], x.shape[2:], strict=True)]
        if not any((*self.pads[:2], *after)):
            return x
        return np.pad(x, ((0, 0), (0, 0), (self.pads[0], after[0]), (self.pads[1], after[1])), constant_values=beyond)


def taps_of(node: onnx.NodeProto, kernel: tuple[int, ...], out: tuple[int, ...]) -> Taps:
    """The window of a convolution or pool."""
    height, width = kernel
    stride = attribute(node, "strides", (1, 1))
    top, left, bottom, right = attribute(node, "pads", (0, 0, 0, 0))
    dilation = attribute(node, "dilations", (1, 1))
    return Taps((height, width), (stride[0], stride[1]), (top, left, bottom, right), (dilation[0], dilation[1]), (out[2], out[3]))


WEIGHT_SHIFT = 3
_WEIGHT_LIMIT = 64
_INPUT_LIMIT = 63
_EXACT = 1 << 24
DEEPEST = _EXACT // _WEIGHT_LIMIT
"""Products in one sum for which inputs still have a bit."""
_FEW = 320
_SIDE = 28
_GRID = float(1 << 12)
SCALE_STEPS = 256


def dyadic(value: float) -> float:
    """Rounded to eight significant bits, so that products with small whole numbers are exact in float32."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * SCALE_STEPS) / SCALE_STEPS, exponent)


def rounded(values: Reals) -> Floats:
    """To multiples of 2**-12."""
    return (np.rint(values * _GRID) / _GRID).astype(np.float32)


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


Rule = Callable[[onnx.NodeProto, Sequence[Floats], Shape], Floats]


def apply(node: onnx.NodeProto, inputs: Sequence[Floats], shape: Shape) -> Floats:
    """The node's result of `shape` but for the batch. Raises KeyError for an operator that no model here uses.

    Local response norm, dropout and softmax let everything pass: they hardly change the statistics of later tensors.
    """
    return _RULES[node.op_type](node, inputs, shape)


def knows(node: onnx.NodeProto) -> bool:
    """Whether `apply` has a rule for the node."""
    return node.op_type in _RULES


def _passed(_node: onnx.NodeProto, inputs: Sequence[Floats], _shape: Shape) -> Floats:
    return inputs[0]


def _relu(_node: onnx.NodeProto, inputs: Sequence[Floats], _shape: Shape) -> Floats:
    return np.maximum(inputs[0], np.float32(0))


def _clip(_node: onnx.NodeProto, inputs: Sequence[Floats], _shape: Shape) -> Floats:
    return np.clip(inputs[0], np.float32(0), np.float32(6))


def _leaky(node: onnx.NodeProto, inputs: Sequence[Floats], _shape: Shape) -> Floats:
    return np.maximum(inputs[0], inputs[0] * np.float32(attribute(node, "alpha", 0.01)))


def _maxpool(node: onnx.NodeProto, inputs: Sequence[Floats], shape: Shape) -> Floats:
    views = taps_of(node, attribute(node, "kernel_shape", ()), shape).views(inputs[0], -np.inf)
    result = next(views).copy()
    for view in views:
        np.maximum(result, view, out=result)
    return result


def _avgpool(node: onnx.NodeProto, inputs: Sequence[Floats], shape: Shape) -> Floats:
    """Divides by the whole window, also at the edge."""
    kernel = attribute(node, "kernel_shape", (1, 1))
    views = taps_of(node, kernel, shape).views(inputs[0], 0.0)
    result = next(views).copy()
    for view in views:
        result += view
    return result / np.float32(kernel[0] * kernel[1])


def _globalpool(_node: onnx.NodeProto, inputs: Sequence[Floats], shape: Shape) -> Floats:
    x = inputs[0]
    return mean(x, (2, 3)).astype(np.float32).reshape(len(x), *shape[1:])


def _add(_node: onnx.NodeProto, inputs: Sequence[Floats], _shape: Shape) -> Floats:
    total = inputs[0]
    for other in inputs[1:]:
        total = total + other
    return total


def _concat(_node: onnx.NodeProto, inputs: Sequence[Floats], _shape: Shape) -> Floats:
    return np.concatenate(inputs, axis=1)


def _reshape(_node: onnx.NodeProto, inputs: Sequence[Floats], shape: Shape) -> Floats:
    return inputs[0].reshape(len(inputs[0]), *shape[1:])


def _transpose(node: onnx.NodeProto, inputs: Sequence[Floats], _shape: Shape) -> Floats:
    return np.ascontiguousarray(inputs[0].transpose(attribute(node, "perm", ())))


def _resize(_node: onnx.NodeProto, inputs: Sequence[Floats], shape: Shape) -> Floats:
    height, width = inputs[0].shape[2:]
    return inputs[0].repeat(shape[2] // height, axis=2).repeat(shape[3] // width, axis=3)


_RULES: Mapping[str, Rule] = {
    "Relu": _relu,
    "Clip": _clip,
    "LeakyRelu": _leaky,
    "MaxPool": _maxpool,
    "AveragePool": _avgpool,
    "GlobalAveragePool": _globalpool,
    "Add": _add,
    "Sum": _add,
    "Concat": _concat,
    "Flatten": _reshape,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Resize": _resize,
    "LRN": _passed,
    "Dropout": _passed,
    "Softmax": _passed,
}
