"""Integer calls of the graph as operations of the machine: constants in place, groups resolved, padding merged."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.graph.calls import Call
from toolchain.schedule.operations.add import Add
from toolchain.schedule.operations.conv2d import Conv2d
from toolchain.schedule.operations.depthwise import Depthwise
from toolchain.schedule.operations.operation import Operation
from toolchain.schedule.operations.pool import AveragePool, MaxPool
from toolchain.schedule.operations.requantise import Requantise
from toolchain.schedule.operations.upsample import Upsample
from toolchain.schedule.operations.window import Window
from toolchain.schedule.regions.region import Shape
from toolchain.spec.errors import fail

NO_PADS = (0, 0, 0, 0)
Array = NDArray[Any]


@dataclass(frozen=True)
class Lowered:
    """call: as the graph has it. constants: what follows its tensors as operands. input: the first tensor, with as many images as a run takes.

    pads: zeros around the input (top, left, bottom, right), of a pad operation before it, for which padding of its own does the same.
    shuffle: groups of a channel shuffle after it, 1 for none.
    """

    call: Call
    constants: Sequence[Array]
    input: Shape
    pads: tuple[int, int, int, int] = NO_PADS
    shuffle: int = 1


def lower(given: Lowered) -> Iterator[Operation]:
    """Every way to compute a call, the most fitting first; each is exact. Raises UserError E1003 where there is none."""
    if given.call.kind not in _LOWERINGS:
        raise fail("E1003", f"'{given.call.name}' is a {given.call.kind}, which no operation computes")
    yield from _LOWERINGS[given.call.kind](given)


def computes(kind: str) -> bool:
    """Whether calls of a kind become operations."""
    return kind in _LOWERINGS


def _requantise(call: Call) -> Requantise:
    attributes = call.attributes
    return Requantise(int(attributes["shift"]), int(attributes["low"]), int(attributes["high"]), *_slope(call))


def _slope(call: Call) -> tuple[int, int]:
    """Of a leaky activation; (0, 0) where there is none, or what is below zero is cut off by the limits or stays as it is.

    Raises UserError E1003 for slopes that are no fraction from 0 to 1.
    """
    slope, shift = (int(call.attributes.get(name, 0)) for name in ("slope", "slope_shift"))
    if slope == 0 or slope == 1 << shift:
        return 0, 0
    if not 0 < slope < 1 << shift:
        raise fail("E1003", f"'{call.name}' has a slope of {slope / 2**shift:g} below zero")
    return slope, shift


def _pads(given: Lowered) -> tuple[int, int, int, int]:
    top, left, bottom, right = (a + b for a, b in zip(given.call.attributes.get("pads", NO_PADS), given.pads, strict=True))
    return top, left, bottom, right


def _pair(values: Sequence[int]) -> tuple[int, int]:
    return int(values[0]), int(values[1])


def _constants(given: Lowered) -> tuple[Array, Array]:
    """Weights as they are, and the bias at the sum's own position. Raises UserError E1003 for requantisation by multipliers."""
    if len(given.constants) != 2:
        raise fail("E1003", f"'{given.call.name}' requantises by multipliers, and operations only shift")
    weight, bias = given.constants
    return weight, (bias.astype(np.int64) << int(given.call.attributes["bias_shift"])).astype(np.int32)


def _convolution(given: Lowered) -> Iterator[Operation]:
    """With groups: one filter a channel where it is that, else all channels with zeros for those of other groups."""
    weight, bias = _constants(given)
    attributes, group = given.call.attributes, int(given.call.attributes["group"])
    strides, dilations = _pair(attributes["strides"]), _pair(attributes["dilations"])
    if group == given.input.channels == len(weight) and given.shuffle == 1:
        kernel = _pair(weight.shape[2:])
        yield Depthwise(
            given.call.name, given.input, weight[:, 0], bias, Window(kernel, strides, _pads(given), dilations), _requantise(given.call)
        )  # fmt: skip
    weight = _shuffled(_dense_weights(weight, group), given.shuffle)
    yield from _dilated(given, weight, _shuffled(bias, given.shuffle), strides, dilations)


def _shuffled(rows: Array, group: int) -> Array:
    """Row i of group g becomes row i * group + g: the filters in the order of the shuffled channels."""
    return rows.reshape(group, len(rows) // group, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)


def _dilated(given: Lowered, weight: Array, bias: Array, strides: tuple[int, int], dilations: tuple[int, int]) -> Iterator[Operation]:
    """A dilated kernel is also a larger one with zeros between its taps."""
    yield _conv2d(given, weight, bias, strides, dilations)
    if dilations != (1, 1):
        filters, channels, height, width = weight.shape
        filled = np.zeros((filters, channels, (height - 1) * dilations[0] + 1, (width - 1) * dilations[1] + 1), np.int8)
        filled[:, :, :: dilations[0], :: dilations[1]] = weight
        yield _conv2d(given, filled, bias, strides, (1, 1))


def _conv2d(given: Lowered, weight: Array, bias: Array, strides: tuple[int, int], dilations: tuple[int, int]) -> Conv2d:
    r = _requantise(given.call)
    return Conv2d(
        given.call.name, given.input, weight, bias, strides, _pads(given), dilations, r.shift, r.low, r.high, r.slope, r.slope_shift
    )  # fmt: skip


def _dense_weights(weight: Array, group: int) -> Array:
    """[out, in, kh, kw] of [out, in / group, kh, kw]."""
    if group == 1:
        return weight
    filters, channels = weight.shape[:2]
    full = np.zeros((filters, channels * group, *weight.shape[2:]), np.int8)
    for number in range(group):
        rows = slice(number * filters // group, (number + 1) * filters // group)
        full[rows, number * channels : (number + 1) * channels] = weight[rows]
    return full


def _dense(given: Lowered) -> Iterator[Operation]:
    """A convolution whose kernel is the whole picture: what was flattened before it still stands as a picture."""
    weight, bias = _constants(given)
    size = (given.input.channels, given.input.height, given.input.width)
    if weight.shape[1] != int(np.prod(size)):
        raise fail("E1003", f"'{given.call.name}' has weights of shape {weight.shape} for a picture of {size}")
    yield _conv2d(given, weight.reshape(len(weight), *size), bias, (1, 1), (1, 1))


def _add(given: Lowered) -> Iterator[Operation]:
    attributes = given.call.attributes
    yield Add(given.call.name, given.input, int(attributes["multiply_x"]), int(attributes["multiply_y"]), _requantise(given.call))


def _window(given: Lowered) -> Window:
    attributes = given.call.attributes
    return Window(_pair(attributes["kernel_shape"]), _pair(attributes["strides"]), _pads(given))


def _max_pool(given: Lowered) -> Iterator[Operation]:
    window = _window(given)
    if any(pad >= size for pad, size in zip(window.pads, (*window.kernel, *window.kernel), strict=True)):
        raise fail("E1003", f"'{given.call.name}' has windows of nothing but padding")
    yield MaxPool(given.call.name, given.input, window)


def _average_pool(given: Lowered) -> Iterator[Operation]:
    yield AveragePool(given.call.name, given.input, _window(given), int(given.call.attributes["multiply"]), _requantise(given.call))


def _upsample(given: Lowered) -> Iterator[Operation]:
    yield Upsample(given.call.name, given.input, _pair(given.call.attributes["factors"]))


_LOWERINGS: Mapping[str, Callable[[Lowered], Iterator[Operation]]] = MappingProxyType(
    {"conv2d": _convolution, "dense": _dense, "add": _add, "max_pool": _max_pool, "average_pool": _average_pool, "upsample": _upsample}
)
