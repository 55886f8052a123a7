"""Small random float networks of what exporters write: windows of every form, constants of every shape, tensors with several readers."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Shape = tuple[int, ...]
F = np.float32


@dataclass
class Network:
    """Grows operator by operator; `shapes` has every tensor so far, the input `x` first."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)

    def add(self, kind: str, inputs: list[str], shape: Shape, **attributes: Any) -> str:
        name = f"t{len(self.shapes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], f"{kind}_{name}", **attributes))
        self.shapes[name] = shape
        return name

    def constant(self, array: np.ndarray) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = array
        return name

    def integer(self, low: int, high: int) -> int:
        """Both ends included."""
        return int(self.rng.integers(low, high + 1))

    def flip(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def picture(self) -> str:
        """A picture, mostly the newest."""
        found = [name for name, shape in self.shapes.items() if len(shape) == 4]
        return found[-1] if self.flip(0.7) else found[self.integer(0, len(found) - 1)]

    def vector(self, channels: int) -> np.ndarray:
        """A constant for each channel, in one of the forms that broadcast; none is near zero."""
        values = (self.rng.uniform(0.3, 2, channels) * self.rng.choice([-1, 1], channels)).astype(F)
        return [values.reshape(-1, 1, 1), values.reshape(1, -1, 1, 1), values[:1], values[0].reshape(())][self.integer(0, 3)]

    def model(self, among: Collection[str] = ()) -> onnx.ModelProto:
        """Outputs: all that nothing reads, and now and then a tensor inside. among: of these tensors only."""
        read = {name for node in self.nodes for name in node.input}
        made = [name for name in among or self.shapes if name != "x"]
        outputs = [name for name in made if name not in read or self.flip(0.1)]
        graph = helper.make_graph(
            self.nodes,
            "random",
            [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, self.shapes["x"])],
            [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs],
            [numpy_helper.from_array(np.asarray(array), name) for name, array in self.constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


Grow = Callable[[Network], object]


def _convolution(net: Network) -> None:
    x = net.picture()
    _, channels, *size = net.shapes[x]
    kernel, strides, pads = (net.integer(1, 3), net.integer(1, 3)), (net.integer(1, 2), net.integer(1, 2)), [net.integer(0, 1) for _ in range(4)]
    result = [(size[k] + pads[k] + pads[k + 2] - kernel[k]) // strides[k] + 1 for k in range(2)]
    if min(result) < 1:
        return
    group = channels if net.flip(0.3) else 1
    filters = group * net.integer(1, 2) if group > 1 else net.integer(1, 8)
    weights = net.rng.normal(size=(filters, channels // group, *kernel)) / (channels // group * kernel[0] * kernel[1]) ** 0.5
    operands = [x, net.constant(weights.astype(F)), *([net.constant(net.rng.normal(size=filters).astype(F))] if net.flip(0.7) else [])]
    made = net.add("Conv", operands, (1, filters, *result), strides=strides, pads=pads, group=group)
    if net.flip(0.6):
        net.add("Relu", [made], net.shapes[made]) if net.flip() else _clip(net, made)


def _clip(net: Network, x: str = "") -> None:
    x = x or net.picture()
    low, high = [(0, 6), (0, 1), (-1, 1), (-0.5, 2), (0.25, 1), (-2, -0.5)][net.integer(0, 5)]
    net.add("Clip", [x, net.constant(np.array(low, F)), net.constant(np.array(high, F))], net.shapes[x])


def _pool(kind: str, rounds_up: float = 0.0) -> Grow:
    """rounds_up: the share of pools that do; ONNX's shape inference is wrong about some of them, and ONNX Runtime's quantiser believes it."""

    def make(net: Network) -> None:
        x = net.picture()
        _, channels, *size = net.shapes[x]
        kernel, strides = (net.integer(1, 3), 2), (net.integer(1, 2), net.integer(1, 2))
        pads = [net.integer(0, kernel[k % 2] - 1) if net.flip(0.4) else 0 for k in range(4)]
        room = [size[k] + pads[k] + pads[k + 2] - kernel[k] for k in range(2)]
        if min(room) < 0:
            return
        up = net.flip(rounds_up)
        result = [(-(-room[k] // strides[k]) if up else room[k] // strides[k]) + 1 for k in range(2)]
        result = [each - (up and (each - 1) * strides[k] >= size[k] + pads[k]) for k, each in enumerate(result)]
        extra = {"count_include_pad": net.integer(0, 1)} if kind == "AveragePool" else {}
        net.add(kind, [x], (1, channels, *result), kernel_shape=kernel, strides=strides, pads=pads, ceil_mode=int(up), **extra)

    return make


def _channels(kind: str) -> Grow:
    def make(net: Network) -> None:
        x = net.picture()
        net.add(kind, [x, net.constant(net.vector(net.shapes[x][1]))], net.shapes[x])

    return make


def _norm(net: Network) -> None:
    x = net.picture()
    vectors = [net.constant(net.rng.uniform(0.3, 2, net.shapes[x][1]).astype(F)) for _ in range(4)]
    net.add("BatchNormalization", [x, *vectors], net.shapes[x], epsilon=1e-3)


def _alone(kind: str, **attributes: float) -> Grow:
    def make(net: Network) -> None:
        x = net.picture()
        net.add(kind, [x], net.shapes[x], **attributes)

    return make


def _together(kind: str) -> Grow:
    def make(net: Network) -> None:
        x = net.picture()
        alike = [name for name, shape in net.shapes.items() if shape == net.shapes[x]]
        net.add(kind, [x, alike[net.integer(0, len(alike) - 1)]], net.shapes[x])

    return make


def _concat(net: Network) -> None:
    x = net.picture()
    alike = [name for name, shape in net.shapes.items() if len(shape) == 4 and shape[2:] == net.shapes[x][2:]]
    parts = [x, *(alike[net.integer(0, len(alike) - 1)] for _ in range(net.integer(1, 2)))]
    net.add("Concat", parts, (1, sum(net.shapes[part][1] for part in parts), *net.shapes[x][2:]), axis=1)


def _pad(net: Network) -> None:
    x, pads = net.picture(), [net.integer(0, 1) for _ in range(4)]
    _, channels, height, width = net.shapes[x]
    value = [net.constant(np.array(1, F))] if net.flip(0.3) else []
    shape = (1, channels, height + pads[0] + pads[2], width + pads[1] + pads[3])
    net.add("Pad", [x, net.constant(np.array([0, 0, *pads[:2], 0, 0, *pads[2:]])), *value], shape)


def _resize(net: Network) -> None:
    x = net.picture()
    _, channels, height, width = net.shapes[x]
    factor, form = F(net.rng.choice([2, 3, 1.5, 2.1])), str(net.rng.choice(["asymmetric", "half_pixel", "align_corners"]))
    if height * width <= 100:
        size = (1, channels, int(np.floor(factor * height)), int(np.floor(factor * width)))
        operands = [x, "", net.constant(np.array([1, 1, factor, factor], F))]
        net.add("Resize", operands, size, mode="nearest", nearest_mode="floor", coordinate_transformation_mode=form)


def _slice(net: Network) -> None:
    x = net.picture()
    channels = net.shapes[x][1]
    if channels > 1:
        ends = [net.constant(np.array([end])) for end in (channels // 2, channels, 1)]
        net.add("Slice", [x, *ends], (1, channels - channels // 2, *net.shapes[x][2:]))


def _transpose(net: Network) -> None:
    x = net.picture()
    _, channels, height, width = net.shapes[x]
    net.add("Transpose", [x], (1, channels, width, height), perm=[0, 1, 3, 2])


QUANTISABLE: tuple[Grow, ...] = (
    _convolution, _convolution, _convolution, _pool("MaxPool"), _pool("AveragePool"), _together("Add"), _concat, _clip, _alone("Relu"), _norm,
    _channels("Mul"), _alone("LeakyRelu", alpha=0.1), _pad,
)  # fmt: skip
ANYTHING: tuple[Grow, ...] = (
    *QUANTISABLE, _pool("MaxPool", 0.5), _pool("AveragePool", 0.5), _channels("Add"), _channels("Sub"), _channels("Div"), _together("Sub"),
    _together("Mul"), _alone("Sigmoid"), _alone("HardSwish"), _alone("Tanh"), _alone("Abs"), _resize, _slice, _transpose,
)  # fmt: skip


def _dense(net: Network) -> None:
    """Flattened, and a dense layer in one of its forms, with what follows."""
    x = net.picture()
    size, rows = int(np.prod(net.shapes[x])), net.integer(1, 6)
    if size > 2000:
        return
    flat = net.add("Flatten", [x], (1, size))
    weights = (net.rng.normal(size=(size, rows)) / size**0.5).astype(F)
    bias = net.rng.normal(size=rows).astype(F)
    if net.flip():
        vector = [bias, bias.reshape(1, -1), bias[:1], bias[0].reshape(()), bias[:1].reshape(1, 1)][net.integer(0, 4)]
        made = net.add("Gemm", [flat, net.constant(weights), net.constant(vector)], (1, rows), alpha=0.5 if net.flip(0.3) else 1.0)
    else:
        made = net.add("MatMul", [flat, net.constant(weights)], (1, rows))
        made = net.add("Add", [made, net.constant(bias)], (1, rows))
    if net.flip():
        made = net.add("Mul", [made, net.constant(net.rng.uniform(0.5, 2, rows).astype(F))], (1, rows))
    net.add("Relu", [made], (1, rows))


def random_network(seed: int, kinds: tuple[Grow, ...], most: int) -> Network:
    """Up to `most` steps of these kinds."""
    rng = np.random.default_rng(seed)
    net = Network(rng, shapes={"x": (1, int(rng.integers(1, 9)), int(rng.integers(4, 10)), int(rng.integers(4, 10)))})
    for _ in range(net.integer(2, most)):
        kinds[net.integer(0, len(kinds) - 1)](net)
    if net.flip():
        _dense(net)
    if not net.nodes:
        net.add("Relu", ["x"], net.shapes["x"])
    return net


def inputs(net: Network, seed: int, count: int) -> np.ndarray:
    """[count, *shape of x]."""
    return (np.random.default_rng(seed).normal(size=(count, *net.shapes["x"])) * 2).astype(F)
