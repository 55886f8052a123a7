"""Made-up parameters of a graph, the same on every machine.

Two made-up pictures go through a network of pictures while it is given its weights, so that every convolution's result has deviation 1 and every
batch norm has statistics that fit, however deep the network is. Norms keep the rows of sequences at a deviation of 1, so their weights follow from
the number of their products alone, and no sample goes through them.
"""

import math
from collections.abc import Generator, Iterator, Mapping
from itertools import chain

import numpy as np
import onnx

from toolchain.models import exact_ops
from toolchain.models.exact_ops import BELL_SQUARE, Taps, attribute, bell, dyadic, key_of, rounded, signed_bytes, taps_of
from toolchain.models.functions import DOMAIN
from toolchain.models.operators import Shape
from toolchain.models.samples import seeded_samples
from toolchain.models.shape_graph import PROJECTIONS, RESULT, ShapeGraph
from toolchain.spec.arrays import Floats, Reals
from toolchain.spec.errors import fail

Parameter = tuple[str, Floats]
_Steps = Generator[Parameter, None, Floats]
_PICTURES = 2
_LEAST_VARIANCE = 1 / 256
WALKED = ("Conv", "Gemm", "BatchNormalization")
"""Operators with parameters that made-up pictures go through."""
SEQUENTIAL = ("Concat", "Add")
"""Operators whose parameters, where they have any, are those of sequences."""
_ONE_PLACE = Taps((1, 1), (1, 1), (0, 0, 0, 0), (1, 1), (1, 1))
UNEVEN = {f".{PROJECTIONS[0]}.weight": 2.0, f".{RESULT}.weight": 0.5}
"""Deviations of attention's weights, by the end of their names: uneven shares as in trained networks, and a smaller part that rows have in common.
With 1 for both, all rows are nearly the same after a few layers."""


def seeded(bare: ShapeGraph, seed: int) -> Iterator[Parameter]:
    """Every parameter's name and values, in the order in which the graph uses them. Raises UserError E0811 for sums that are too long."""
    walk = _Walk(bare, seed)
    for number, node in enumerate(bare.proto.graph.node):
        yield from walk.visit(number, node)


class _Walk:
    """tensors: intermediate results of the pictures, kept until their last reader. Results of sequences' operators have none."""

    def __init__(self, bare: ShapeGraph, seed: int) -> None:
        self._graph = bare
        self._seed = seed
        inputs = {value.name: bare.shapes[value.name] for value in bare.proto.graph.input}
        self._tensors = {name: seeded_samples(name, shape, _PICTURES, "probe") for name, shape in inputs.items()}
        self._aliases: dict[str, str] = {}
        self._constants = {constant.name for constant in bare.proto.graph.initializer}
        self._last_use = {name: number for number, node in enumerate(bare.proto.graph.node) for name in node.input}

    def visit(self, number: int, node: onnx.NodeProto) -> Iterator[Parameter]:
        """The node's own parameters."""
        name = node.output[0]
        match node.op_type:
            case _ if node.domain == DOMAIN:
                self._tensors[name] = self._called(node)
            case "Unsqueeze" | "Reshape" if node.input[0] in self._graph.parameters:
                self._aliases[name] = node.input[0]
            case _ if self._sequential(node):
                yield from _sequence_parameters(node, self._graph.parameters, self._seed)
            case "Conv" | "Gemm":
                self._tensors[name] = yield from self._weighted(node)
            case "BatchNormalization":
                self._tensors[name] = yield from self._normalised(node)
            case "Mul" | "Add" if node.input[1] in self._aliases:
                self._tensors[name] = yield from self._by_channel(node)
            case _:
                inputs = [self._tensors[i] for i in node.input if i in self._tensors]
                self._tensors[name] = exact_ops.apply(node, inputs, self._graph.shapes[name])
        for used in chain(node.input, node.output):
            if self._last_use.get(used, number) <= number:
                self._tensors.pop(used, None)

    def _sequential(self, node: onnx.NodeProto) -> bool:
        """Whether its parameters are those of sequences, or no pictures reach or pass it."""
        own = self._graph.parameters.keys() | self._aliases
        given = [name for name in node.input if name and name not in own and name not in self._constants]
        if any(name not in self._tensors for name in given):
            return True
        if node.op_type in WALKED or not self._aliases.keys().isdisjoint(node.input):
            return False
        return not exact_ops.knows(node) or (node.op_type in SEQUENTIAL and not own.isdisjoint(node.input))

    def _called(self, node: onnx.NodeProto) -> Floats:
        """Made-up pictures, but parts of an image with as many channels are that image, enlarged or reduced."""
        shape, x = self._graph.shapes[node.output[0]], self._tensors[node.input[0]]
        if len(shape) == x.ndim == 4 and shape[1] == x.shape[1]:
            rows, columns = (np.arange(size) * old // size for size, old in zip(shape[2:], x.shape[2:], strict=True))
            return x[:, :, rows][..., columns]
        return seeded_samples(node.output[0], shape, _PICTURES, "probe")

    def _weighted(self, node: onnx.NodeProto) -> _Steps:
        """A convolution or dense layer: weights in eight-bit steps of a power of two, and a bias that centres each channel."""
        x, name = self._tensors[node.input[0]], self._aliases.get(node.input[1], node.input[1])
        shape = self._graph.shapes[node.input[1]] if node.input[1] in self._aliases else self._graph.parameters[name]
        turned = node.op_type == "Gemm" and not attribute(node, "transB", 0)
        rows = shape[::-1] if turned else shape
        if math.prod(rows[1:]) > exact_ops.DEEPEST:
            raise fail("E0811", f"'{name}' has sums of {math.prod(rows[1:])} products; made-up weights have at most {exact_ops.DEEPEST}")
        whole = bell(key_of(self._seed, name), math.prod(shape)).reshape(rows[0], rows[1], -1)
        coarse, unit = exact_ops.coarse_input(x.reshape(*x.shape[:2], *x.shape[2:] or (1, 1)), whole[0].size)
        taps = taps_of(node, shape[2:], self._graph.shapes[node.output[0]]) if node.op_type == "Conv" else _ONE_PLACE
        y = exact_ops.convolve(coarse, exact_ops.coarse_weights(whole), int(attribute(node, "group", 1)), taps)
        mean, variance = exact_ops.channel_moments(y)
        step = unit * (1 << exact_ops.WEIGHT_SHIFT)
        scale = dyadic(1 / (math.sqrt(float(np.rint(variance).sum()) / len(variance) + 1) * step))
        weights = np.multiply(whole, np.float32(scale), dtype=np.float32).reshape(rows)
        yield name, (weights.T if turned else weights).reshape(self._graph.parameters[name])
        y = (y * np.float32(step * scale)).reshape(len(x), *self._graph.shapes[node.output[0]][1:])
        if len(node.input) < 3:
            return y
        bias = rounded(_around(self._seed, node.input[2], 0, 0.25, len(mean)) - mean * (step * scale))
        yield node.input[2], bias
        return y + _along_channels(bias, y)

    def _normalised(self, node: onnx.NodeProto) -> _Steps:
        """A batch norm whose statistics are the pictures' own, nearly; random factors and offsets."""
        x = self._tensors[node.input[0]]
        channels = x.shape[1]
        mean, variance = exact_ops.channel_moments(np.rint(x * np.float32(256)))
        mean, variance = mean / 256, np.maximum(variance / 65536, _LEAST_VARIANCE)
        names = tuple(node.input[1:5])
        values = (
            _around(self._seed, names[0], 1, 0.25, channels),
            _around(self._seed, names[1], 0, 0.25, channels),
            mean + _around(self._seed, names[2], 0, 0.125, channels) * np.sqrt(variance),
            variance * _around(self._seed, names[3], 1, 0.25, channels),
        )
        scale, offset, centre, spread = map(rounded, values)
        yield from zip(names, (scale, offset, centre, spread), strict=True)
        factor = np.divide(scale, np.sqrt(spread), dtype=np.float32)
        return (x - _along_channels(centre, x)) * _along_channels(factor, x) + _along_channels(offset, x)

    def _by_channel(self, node: onnx.NodeProto) -> _Steps:
        """A product or sum with one parameter per channel, as old models spell the second half of a batch norm."""
        x, name = self._tensors[node.input[0]], self._aliases[node.input[1]]
        value = rounded(_around(self._seed, name, int(node.op_type == "Mul"), 0.25, x.shape[1]))
        yield name, value
        other = _along_channels(value, x)
        return x * other if node.op_type == "Mul" else x + other


def _around(seed: int, name: str, centre: float, reach: float, count: int) -> Reals:
    """Values spread evenly over centre - reach to centre + reach."""
    return centre + signed_bytes(key_of(seed, name), count).astype(np.float64) * (reach / 128)


def _along_channels(values: Floats, x: Floats) -> Floats:
    return values.reshape(-1, *(1,) * (x.ndim - 2))


def _sequence_parameters(node: onnx.NodeProto, parameters: Mapping[str, Shape], seed: int) -> Iterator[Parameter]:
    """Names and values of a node's own parameters: weights that keep a deviation of 1, tables of deviation 1, scales around 1, biases around 0."""
    for number, name in enumerate(node.input):
        if (shape := parameters.get(name)) is None:
            continue
        match node.op_type, number:
            case "MatMul" | "Gemm", 1:
                axis = 0 if node.op_type == "MatMul" else 1
                deviation = next((value for end, value in UNEVEN.items() if name.endswith(end)), 1.0)
                yield name, _bells(seed, name, shape, deviation / math.sqrt(shape[axis]), axis)
            case "Conv", 1:
                yield name, _bells(seed, name, shape, 1 / math.sqrt(math.prod(shape[1:])))
            case "LayerNormalization" | "BatchNormalization", 1 | 4:
                yield name, _spread(seed, name, shape, 1, 0.25)
            case "LayerNormalization" | "BatchNormalization" | "Gemm" | "Conv", _:
                yield name, _spread(seed, name, shape, 0, 0.0625)
            case "Add", _ if len(shape) == 1:
                yield name, _spread(seed, name, shape, 0, 0.0625)
            case _:
                yield name, _bells(seed, name, shape, 1.0)


def _bells(seed: int, name: str, shape: Shape, deviation: float, axis: int | None = None) -> Floats:
    """Small whole numbers times one scale; along an axis their sum is about 0, so that a mean which all products share adds nothing."""
    whole = bell(key_of(seed, name), math.prod(shape)).reshape(shape)
    if axis is not None:
        whole = whole - (whole.sum(axis, np.int64, keepdims=True) // shape[axis]).astype(np.int16)
    return np.multiply(whole, np.float32(dyadic(deviation / math.sqrt(BELL_SQUARE))), dtype=np.float32)


def _spread(seed: int, name: str, shape: Shape, centre: float, reach: float) -> Floats:
    return rounded(_around(seed, name, centre, reach, math.prod(shape))).reshape(shape)
