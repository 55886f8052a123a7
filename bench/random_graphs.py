"""Random float graphs of every operation that is bound from a model: odd shapes, windows of every form, tensors with several readers, rows, heads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Shape = tuple[int, ...]
F = np.float32
OPSET, IR = 21, 10
MOST_ELEMENTS = 6000
"""Of a tensor: the integer model is run by ONNX Runtime without any rewriting."""


@dataclass
class Graph:
    """Grows operator by operator. shapes: of every tensor so far, the inputs first."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    constants: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    shapes: dict[str, Shape] = field(default_factory=dict[str, Shape])
    inputs: dict[str, Shape] = field(default_factory=dict[str, Shape])

    def add(self, kind: str, operands: Sequence[str], shape: Shape, **attributes: Any) -> str:
        (made,) = self.several(kind, operands, [shape], **attributes)
        return made

    def several(self, kind: str, operands: Sequence[str], shapes: Sequence[Shape], **attributes: Any) -> list[str]:
        """An operator with a result of each shape."""
        names = [f"t{len(self.shapes) + number}" for number in range(len(shapes))]
        self.nodes.append(helper.make_node(kind, list(operands), names, f"{kind}_{names[0]}", **attributes))
        self.shapes.update(zip(names, shapes, strict=True))
        return names

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = np.asarray(values, dtype)
        return name

    def floats(self, *shape: int, scale: float = 1.0) -> str:
        return self.constant(self.rng.normal(size=shape) * scale, F)

    def integer(self, low: int, high: int) -> int:
        """Both ends included."""
        return int(self.rng.integers(low, high + 1))

    def one_of(self, *values: Any) -> Any:
        return values[self.integer(0, len(values) - 1)]

    def flip(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def newest(self, rank: int) -> str | None:
        """A tensor of this rank, mostly the newest: others get several readers."""
        found = [name for name, shape in self.shapes.items() if len(shape) == rank]
        return None if not found else found[-1] if self.flip(0.6) else self.one_of(*found)

    def alike(self, shape: Shape) -> str:
        return self.one_of(*(name for name, other in self.shapes.items() if other == shape))

    def model(self) -> onnx.ModelProto:
        """Outputs: all that nothing reads, and now and then a tensor inside."""
        read = {name for node in self.nodes for name in node.input}
        results = [name for name in self.shapes if name not in self.inputs and (name not in read or self.flip(0.1))]
        graph = helper.make_graph(
            self.nodes,
            "random",
            [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in self.inputs.items()],
            [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, self.shapes[name]) for name in results],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)


Grow = Callable[[Graph, str], object]
"""Adds operators that read a tensor, or nothing where that tensor does not suit."""


def random_graph(seed: int, steps: int | None = None) -> Graph:
    """steps: how many to grow by; without it, a random number. Fewer steps of a seed give the beginning of the same graph."""
    rng = np.random.default_rng(seed)
    graph, drawn = Graph(rng), int(rng.integers(2, 13))
    sequences = bool(np.random.default_rng([seed, 2]).random() < 0.25)
    for number in range(int(rng.choice([1, 1, 1, 2]))):
        size = (int(rng.integers(1, 48)),) if sequences else (int(rng.integers(1, 16)), int(rng.integers(1, 16)))
        picture = (1, int(rng.choice([1, 2, 3, 4, 7, 8, 13, 16, 17, 33])), *size)
        graph.inputs["xz"[number]] = graph.shapes["xz"[number]] = picture
    left = drawn if steps is None else steps
    while left > 0 or not graph.nodes:
        left -= 1
        rank = int(rng.choice([3, 3, 3, 3, 4, 2] if sequences else [4, 4, 4, 4, 3, 2]))
        tensor = graph.newest(rank) or graph.newest(3 if sequences else 4)
        if tensor is not None:
            rank = len(graph.shapes[tensor])
            grow = SEQUENCES if sequences and rank == 3 else KINDS[rank]
            grow[int(rng.integers(len(grow)))](graph, tensor)
    return graph


def samples(graph: Graph, seed: int, count: int) -> dict[str, np.ndarray]:
    """[count, *shape] of every input."""
    rng = np.random.default_rng([seed, 1])
    return {name: (rng.normal(size=(count, *shape)) * 2).astype(F) for name, shape in graph.inputs.items()}


def _fits(shape: Shape) -> bool:
    return min(shape) > 0 and int(np.prod(shape)) <= MOST_ELEMENTS


def _activated(g: Graph, x: str) -> None:
    """What a layer may have taken into itself."""
    kind = g.one_of("", "", "Relu", "Clip", "LeakyRelu")
    if kind == "Clip":
        low, high = g.one_of((0, 6), (-1, 1), (-0.5, 2), (0.25, 1), (-2, -0.5))
        g.add("Clip", [x, g.constant(low, F), g.constant(high, F)], g.shapes[x])
    elif kind:
        g.add(kind, [x], g.shapes[x], **({"alpha": 0.1} if kind == "LeakyRelu" else {}))


def _convolution(g: Graph, x: str) -> None:
    _, channels, *size = g.shapes[x]
    rank = len(size)
    kernel, strides, dilations = ([g.integer(1, most) for _ in size] for most in (5, 3, 2))
    reach = [(kernel[k] - 1) * dilations[k] + 1 for k in range(rank)]
    pads = [g.integer(0, min(reach[k % rank] - 1, 3)) if g.flip(0.6) else 0 for k in range(2 * rank)]
    result = [(size[k] + pads[k] + pads[k + rank] - reach[k]) // strides[k] + 1 for k in range(rank)]
    group = g.one_of(*(each for each in range(1, channels + 1) if channels % each == 0)) if g.flip(0.4) else 1
    filters = group * g.integer(1, 3) if group > 1 else g.one_of(1, 3, 8, 16, 17, 35)
    if min(size[k] + pads[k] + pads[k + rank] - reach[k] for k in range(rank)) < 0 or not _fits((1, filters, *result)):
        return
    weights = g.floats(filters, channels // group, *kernel, scale=(channels // group * prod(kernel)) ** -0.5)
    bias = [g.floats(filters)] if g.flip(0.7) else []
    made = g.add("Conv", [x, weights, *bias], (1, filters, *result), strides=strides, pads=pads, group=group, dilations=dilations)
    if g.flip(0.2):
        made = g.add("BatchNormalization", [made, *(g.constant(g.rng.uniform(0.3, 2, filters), F) for _ in range(4))], g.shapes[made])
    _activated(g, made)


def _transposed(g: Graph, x: str) -> None:
    _, channels, *size = g.shapes[x]
    rank = len(size)
    kernel, strides = [g.integer(1, 4) for _ in size], [g.integer(1, 3) for _ in size]
    pads = [g.integer(0, kernel[k % rank] // 2) for k in range(2 * rank)]
    more = [g.integer(0, step - 1) for step in strides] if g.flip(0.3) else [0] * rank
    result = [(size[k] - 1) * strides[k] + kernel[k] + more[k] - pads[k] - pads[k + rank] for k in range(rank)]
    filters = g.one_of(1, 3, 8, 16)
    if _fits((1, filters, *result)):
        weights = g.floats(channels, filters, *kernel, scale=channels**-0.5)
        made = g.add("ConvTranspose", [x, weights], (1, filters, *result), strides=strides, pads=pads, output_padding=more)
        _activated(g, made)


def _pool(kind: str) -> Grow:
    def make(g: Graph, x: str) -> None:
        _, channels, *size = g.shapes[x]
        rank = len(size)
        kernel, strides = [g.integer(1, 4) for _ in size], [g.integer(1, 3) for _ in size]
        pads = [g.integer(0, kernel[k % rank] - 1) if g.flip(0.4) else 0 for k in range(2 * rank)]
        result = [(size[k] + pads[k] + pads[k + rank] - kernel[k]) // strides[k] + 1 for k in range(rank)]
        if min(size[k] + pads[k] + pads[k + rank] - kernel[k] for k in range(rank)) >= 0:
            extra = {"count_include_pad": g.integer(0, 1)} if kind == "AveragePool" else {}
            g.add(kind, [x], (1, channels, *result), kernel_shape=kernel, strides=strides, pads=pads, **extra)

    return make


def _alone(kind: str, **attributes: Any) -> Grow:
    return lambda g, x: g.add(kind, [x], g.shapes[x], **attributes)


def _global(kind: str) -> Grow:
    return lambda g, x: g.add(kind, [x], (*g.shapes[x][:2], *(1 for _ in g.shapes[x][2:])))


def _reduced(kind: str) -> Grow:
    def make(g: Graph, x: str) -> None:
        kept, axes = g.integer(0, 1), range(2, len(g.shapes[x]))
        g.add(kind, [x, g.constant([*axes])], (*g.shapes[x][:2], *(1 for _ in axes)) if kept else g.shapes[x][:2], keepdims=kept)

    return make


def _together(kind: str) -> Grow:
    def make(g: Graph, x: str) -> None:
        other = g.alike(g.shapes[x])
        _activated(g, g.add(kind, [x, other] if g.flip() else [other, x], g.shapes[x]))

    return make


def _swish(g: Graph, x: str) -> None:
    g.add("Mul", [x, g.add("Sigmoid", [x], g.shapes[x])], g.shapes[x])


def _excited(g: Graph, x: str) -> None:
    """Squeeze and excite: channels by what all of a picture says of them."""
    _, channels, *_ = g.shapes[x]
    mean = g.add("GlobalAveragePool", [x], (1, channels, 1, 1))
    made = g.add("Conv", [mean, g.floats(channels, channels, 1, 1, scale=channels**-0.5)], (1, channels, 1, 1))
    g.add("Mul", [x, g.add(g.one_of("Sigmoid", "Relu", "Tanh"), [made], (1, channels, 1, 1))], g.shapes[x])


def _channelwise(kind: str) -> Grow:
    def make(g: Graph, x: str) -> None:
        values = g.rng.uniform(0.3, 2, g.shapes[x][1]) * g.rng.choice([-1, 1], g.shapes[x][1])
        ones = [1] * (len(g.shapes[x]) - 2)
        form = g.one_of(values.reshape(-1, *ones), values.reshape(1, -1, *ones), values[:1], values[0])
        g.add(kind, [x, g.constant(form, F)], g.shapes[x])

    return make


def _prelu(g: Graph, x: str) -> None:
    channels = g.shapes[x][1]
    g.add("PRelu", [x, g.constant(g.rng.uniform(-0.2, 1.2, (channels, *(1 for _ in g.shapes[x][2:]))), F)], g.shapes[x])


def _concat(g: Graph, x: str) -> None:
    rank = len(g.shapes[x])
    axis = g.one_of(1, 1, 1, *range(2, rank))
    rest = [extent for k, extent in enumerate(g.shapes[x]) if k != axis]
    fitting = [n for n, shape in g.shapes.items() if len(shape) == rank and [e for k, e in enumerate(shape) if k != axis] == rest]
    parts = [x, *(g.one_of(*fitting) for _ in range(g.integer(1, 3)))]
    shape = tuple(sum(g.shapes[part][axis] for part in parts) if k == axis else extent for k, extent in enumerate(g.shapes[x]))
    if _fits(shape):
        g.add("Concat", parts, shape, axis=axis)


def _pad(g: Graph, x: str) -> None:
    _, channels, *size = g.shapes[x]
    pads, rank = [g.integer(0, 2) for _ in (*size, *size)], len(size)
    value = [g.constant(1, F)] if g.flip(0.3) else []
    shape = (1, channels, *(size[k] + pads[k] + pads[k + rank] for k in range(rank)))
    if _fits(shape):
        g.add("Pad", [x, g.constant([0, 0, *pads[:rank], 0, 0, *pads[rank:]]), *value], shape)


def _slice(g: Graph, x: str) -> None:
    axis = g.integer(1, len(g.shapes[x]) - 1)
    extent, step = g.shapes[x][axis], g.one_of(1, 1, 1, 2)
    first = g.integer(0, extent - 1)
    last = g.integer(first + 1, extent)
    shape = tuple(-(-(last - first) // step) if k == axis else each for k, each in enumerate(g.shapes[x]))
    g.add("Slice", [x, *(g.constant([number]) for number in (first, last, axis, step))], shape)


def _split(g: Graph, x: str) -> None:
    axis = g.one_of(1, *range(1, len(g.shapes[x])))
    extent = g.shapes[x][axis]
    if extent > 1:
        first = g.integer(1, extent - 1)
        shapes = [tuple(size if k == axis else each for k, each in enumerate(g.shapes[x])) for size in (first, extent - first)]
        g.several("Split", [x, g.constant([first, extent - first])], shapes, axis=axis)


def _turned(g: Graph, x: str) -> None:
    order = [0, *(1 + g.rng.permutation(len(g.shapes[x]) - 1))]
    g.add("Transpose", [x], tuple(g.shapes[x][k] for k in order), perm=[int(k) for k in order])


def _shuffle(g: Graph, x: str) -> None:
    _, channels, height, width = g.shapes[x]
    groups = g.one_of(*(each for each in range(1, channels + 1) if channels % each == 0))
    apart = g.add("Reshape", [x, g.constant([1, groups, channels // groups, height, width])], (1, groups, channels // groups, height, width))
    swapped = g.add("Transpose", [apart], (1, channels // groups, groups, height, width), perm=[0, 2, 1, 3, 4])
    g.add("Reshape", [swapped, g.constant([1, channels, height, width])], (1, channels, height, width))


def _blocks(g: Graph, x: str) -> None:
    _, channels, height, width = g.shapes[x]
    block = g.integer(1, 3)
    if channels % block**2 == 0 and g.flip():
        shape = (1, channels // block**2, height * block, width * block)
        g.add("DepthToSpace", [x], shape, blocksize=block, mode=g.one_of("DCR", "CRD"))
    elif height % block == 0 and width % block == 0:
        g.add("SpaceToDepth", [x], (1, channels * block**2, height // block, width // block), blocksize=block)


def _resize(g: Graph, x: str) -> None:
    _, channels, *size = g.shapes[x]
    factors = [g.one_of(1, 2, 3) for _ in size]
    if _fits(shape := (1, channels, *(extent * factor for extent, factor in zip(size, factors, strict=True)))):
        scales = g.constant([1, 1, *factors], F)
        g.add("Resize", [x, "", scales], shape, mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric")


def _softmax(g: Graph, x: str) -> None:
    g.add("Softmax", [x], g.shapes[x], axis=g.one_of(-1, 1))


def _flat(g: Graph, x: str) -> None:
    size = int(np.prod(g.shapes[x]))
    g.add("Flatten", [x], (1, size))


def _rows(g: Graph, x: str) -> None:
    """Pixels as rows of their channels, as transformers have them."""
    _, channels, height, width = g.shapes[x]
    together = g.add("Reshape", [x, g.constant([1, channels, height * width])], (1, channels, height * width))
    g.add("Transpose", [together], (1, height * width, channels), perm=[0, 2, 1])


def _heads(g: Graph, x: str) -> None:
    """Rows by rows of the same: what attention scores are."""
    _, heads, rows, columns = g.shapes[x]
    turned = g.add("Transpose", [x], (1, heads, columns, rows), perm=[0, 1, 3, 2])
    if _fits((1, heads, rows, rows)):
        g.add("MatMul", [x, turned], (1, heads, rows, rows))


def _dense(g: Graph, x: str) -> None:
    size, wide = g.shapes[x][-1], g.one_of(1, 3, 8, 16, 19)
    weights, shape = g.floats(size, wide, scale=size**-0.5), (*g.shapes[x][:-1], wide)
    if len(shape) == 2 and g.flip():
        _activated(g, g.add("Gemm", [x, weights, g.floats(wide)], shape))
    else:
        made = g.add("MatMul", [x, weights], shape)
        _activated(g, g.add("Add", [made, g.floats(wide)], shape) if g.flip(0.7) else made)


def _scores(g: Graph, x: str) -> None:
    """Attention of rows to themselves."""
    _, rows, columns = g.shapes[x]
    turned = g.add("Transpose", [x], (1, columns, rows), perm=[0, 2, 1])
    if _fits((1, rows, rows)):
        scores = g.add("MatMul", [x, turned], (1, rows, rows))
        if g.flip():
            g.add("MatMul", [g.add("Softmax", [scores], (1, rows, rows), axis=-1), x], (1, rows, columns))


def _normal(g: Graph, x: str) -> None:
    size = g.shapes[x][-1]
    g.add("LayerNormalization", [x, g.floats(size), g.floats(size)], g.shapes[x], axis=-1)


def _picture(g: Graph, x: str) -> None:
    """Rows as a picture."""
    size = int(np.prod(g.shapes[x]))
    channels = g.one_of(*(each for each in range(1, min(size, 64) + 1) if size % each == 0))
    g.add("Reshape", [x, g.constant([1, channels, size // channels, 1])], (1, channels, size // channels, 1))


TABLES: tuple[Grow, ...] = (*map(_alone, ("Sigmoid", "Tanh", "HardSwish", "Gelu", "Mish", "Elu", "HardSigmoid")), _swish)
PAIRS: tuple[Grow, ...] = tuple(map(_together, ("Add", "Add", "Sub", "Mul", "Max", "Min")))
LIMITS: tuple[Grow, ...] = (_alone("Relu"), _alone("LeakyRelu", alpha=0.1), lambda g, x: _activated(g, x))
KINDS: dict[int, tuple[Grow, ...]] = {
    2: (*TABLES, *PAIRS, *LIMITS, _dense, _dense, _dense, _softmax, _picture, _picture),
    3: (*TABLES, *PAIRS, *LIMITS, _dense, _dense, _dense, _scores, _scores, _softmax, _normal, _turned, _picture, _picture),
    4: (
        *(_convolution,) * 8, *(_pool("MaxPool"), _pool("AveragePool"), _concat) * 2, *TABLES, *PAIRS, *LIMITS, _transposed, _transposed, _excited,
        _global("GlobalAveragePool"), _global("GlobalMaxPool"), _reduced("ReduceMean"), _reduced("ReduceMax"),
        *map(_channelwise, ("Mul", "Add", "Sub", "Div")), _prelu, _pad, _slice, _split, _turned, _shuffle, _blocks, _resize, _softmax,
        _flat, _rows, _heads,
    ),
}  # fmt: skip
"""By the rank of the tensor that is read."""
SEQUENCES: tuple[Grow, ...] = (*(kind for kind in KINDS[4] if kind not in (_excited, _shuffle, _blocks, _rows, _heads)), _dense, _scores, _normal)
"""Where tensors of three axes are [n, channels, length]."""
