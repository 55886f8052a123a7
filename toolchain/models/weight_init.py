"""Made-up values for a graph's parameters. Two made-up pictures go through the network while it is given its weights, so that
every convolution's result has deviation 1 and every batch norm has statistics that fit, however deep the network is."""

import math
from collections.abc import Generator, Iterator
from itertools import chain

import numpy as np
import onnx

from toolchain.models import exact_ops
from toolchain.models.exact_ops import Floats, Reals, Taps, attribute, taps_of
from toolchain.models.functions import DOMAIN
from toolchain.models.random_bits import bell, key_of, signed_bytes
from toolchain.models.samples import seeded_samples
from toolchain.models.shape_graph import ShapeGraph
from toolchain.spec.errors import fail

Parameter = tuple[str, Floats]
_Steps = Generator[Parameter, None, Floats]
_PICTURES = 2
_GRID = float(1 << 12)
_SCALE_STEPS = 256
_LEAST_VARIANCE = 1 / 256
_ONE_PLACE = Taps((1, 1), (1, 1), (0, 0, 0, 0), (1, 1), (1, 1))


def seeded(bare: ShapeGraph, seed: int) -> Iterator[Parameter]:
    """Every parameter's name and values, in the order in which the graph uses them. Raises UserError E0811 for sums that are too long."""
    walk = _Walk(bare, seed)
    for number, node in enumerate(bare.proto.graph.node):
        yield from walk.visit(number, node)


class _Walk:
    """tensors: what the pictures have become, as long as a later node reads it."""

    def __init__(self, bare: ShapeGraph, seed: int) -> None:
        self._graph = bare
        self._seed = seed
        inputs = {value.name: bare.shapes[value.name] for value in bare.proto.graph.input}
        self._tensors = {name: seeded_samples(name, shape, _PICTURES, "probe") for name, shape in inputs.items()}
        self._aliases: dict[str, str] = {}
        self._last_use = {name: number for number, node in enumerate(bare.proto.graph.node) for name in node.input}

    def visit(self, number: int, node: onnx.NodeProto) -> Iterator[Parameter]:
        """The node's own parameters."""
        name = node.output[0]
        match node.op_type:
            case _ if node.domain == DOMAIN:
                self._tensors[name] = self._called(node)
            case "Unsqueeze" | "Reshape" if node.input[0] in self._graph.parameters:
                self._aliases[name] = node.input[0]
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
        scale = _dyadic(1 / (math.sqrt(float(np.rint(variance).sum()) / len(variance) + 1) * step))
        weights = np.multiply(whole, np.float32(scale), dtype=np.float32).reshape(rows)
        yield name, (weights.T if turned else weights).reshape(self._graph.parameters[name])
        y = (y * np.float32(step * scale)).reshape(len(x), *self._graph.shapes[node.output[0]][1:])
        if len(node.input) < 3:
            return y
        bias = _rounded(self._around(node.input[2], 0, 0.25, len(mean)) - mean * (step * scale))
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
            self._around(names[0], 1, 0.25, channels),
            self._around(names[1], 0, 0.25, channels),
            mean + self._around(names[2], 0, 0.125, channels) * np.sqrt(variance),
            variance * self._around(names[3], 1, 0.25, channels),
        )
        scale, offset, centre, spread = map(_rounded, values)
        yield from zip(names, (scale, offset, centre, spread), strict=True)
        factor = np.divide(scale, np.sqrt(spread), dtype=np.float32)
        return (x - _along_channels(centre, x)) * _along_channels(factor, x) + _along_channels(offset, x)

    def _by_channel(self, node: onnx.NodeProto) -> _Steps:
        """A product or sum with one parameter per channel, as old models spell the second half of a batch norm."""
        x, name = self._tensors[node.input[0]], self._aliases[node.input[1]]
        value = _rounded(self._around(name, int(node.op_type == "Mul"), 0.25, x.shape[1]))
        yield name, value
        other = _along_channels(value, x)
        return x * other if node.op_type == "Mul" else x + other

    def _around(self, name: str, centre: float, reach: float, count: int) -> Reals:
        """Values spread evenly over centre - reach to centre + reach."""
        return centre + signed_bytes(key_of(self._seed, name), count).astype(np.float64) * (reach / 128)


def _dyadic(value: float) -> float:
    """Rounded to eight significant bits, so that products with small whole numbers are exact in float32."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * _SCALE_STEPS) / _SCALE_STEPS, exponent)


def _rounded(values: Reals) -> Floats:
    """To multiples of 2**-12."""
    return (np.rint(values * _GRID) / _GRID).astype(np.float32)


def _along_channels(values: Floats, x: Floats) -> Floats:
    return values.reshape(-1, *(1,) * (x.ndim - 2))
