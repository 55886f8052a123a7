"""Random small networks whose operators join, split, reduce, move or reshape the first axis, on the host and behind a convolution."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
CHANNELS = 4
KINDS = ("Concat", "Sum", "Max", "Mean", "Flatten", "Transpose", "Reshape", "Softmax", "Gather", "Slice", "Add", "Sort", "CumSum", "Expand", "Norm")


@dataclass
class _Drawn:
    """A network as it grows. tensors: name and shape, as far as it is known by construction."""

    draw: Random
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    constants: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])
    tensors: list[tuple[str, tuple[int, ...]]] = field(default_factory=list[tuple[str, tuple[int, ...]]])

    def constant(self, values: Any, dtype: type[np.generic] = np.int64) -> str:
        name = f"k{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(values, np.dtype(dtype)), name))
        return name

    def add(self, kind: str, inputs: list[str], shape: tuple[int, ...], **attributes: Any) -> None:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        self.tensors.append((name, shape))


def axis_network(seed: int, convolution: bool = False) -> onnx.ModelProto:
    """opset 18. One input x [batch, ...]; some inputs are outputs too. convolution: with one at the front and one behind."""
    draw = Random(seed)
    batch = draw.choice([1, 1, 2, 3])
    shape = (batch, CHANNELS, 4, 4) if convolution else draw.choice([(batch, 4), (batch, 2, 3), (batch, 2, 3, 2), (batch,)])
    made = _Drawn(draw, tensors=[("x", shape)])
    if convolution:
        _convolve(made, "x", shape)
    for _ in range(draw.randint(1, 3)):
        _draw_node(made, *draw.choice(made.tensors[-2:]))
    if convolution and (pictures := [(name, s) for name, s in made.tensors if len(s) == 4 and s[1] == CHANNELS]):
        _convolve(made, *pictures[-1])
    outputs = [made.nodes[-1].output[0]]
    outputs += [name for name, _ in made.tensors[:-1] if draw.random() < 0.4]
    shapes = dict(made.tensors)
    ends = [helper.make_tensor_value_info(name, FLOAT, shapes[name]) for name in dict.fromkeys(outputs)]
    graph = helper.make_graph(made.nodes, "axes", [helper.make_tensor_value_info("x", FLOAT, shape)], ends, made.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _convolve(made: _Drawn, name: str, shape: tuple[int, ...]) -> None:
    weights = made.constant([[[[made.draw.uniform(-1, 1)]] for _ in range(CHANNELS)] for _ in range(CHANNELS)], np.float32)
    made.add("Conv", [name, weights], shape)


def _draw_node(made: _Drawn, name: str, shape: tuple[int, ...]) -> None:
    """One operator on the first axis."""
    draw, rest, count = made.draw, shape[1:], int(np.prod(shape))
    if not shape:
        made.add("Mul", [name, made.constant(draw.uniform(-2, 2), np.float32)], shape)
        return
    kind = draw.choice(KINDS)
    if kind == "Concat":
        made.add(kind, [name, name], (2 * shape[0], *rest), axis=0)
    elif kind in ("Sum", "Max", "Mean"):
        keep = draw.choice([0, 1])
        made.add(f"Reduce{kind}", [name, made.constant([0])], ((1,) * keep) + rest, keepdims=keep)
    elif kind == "Flatten":
        made.add(kind, [name], (1, count), axis=0)
    elif kind == "Transpose":
        order = list(range(len(shape)))
        draw.shuffle(order)
        made.add(kind, [name], tuple(shape[axis] for axis in order), perm=order)
    elif kind == "Reshape":
        wanted = draw.choice([(count,), (1, count), (count, 1), (*rest, shape[0]), (1, shape[0], *rest)])
        made.add(kind, [name, made.constant(list(wanted))], wanted)
    elif kind == "Softmax":
        made.add(kind, [name], shape, axis=0)
    elif kind == "Gather":
        places = [draw.randrange(shape[0]) for _ in range(draw.randint(1, 3))]
        made.add(kind, [name, made.constant(places)], (len(places), *rest), axis=0)
    elif kind == "Slice":
        made.add(kind, [name, made.constant([-1]), made.constant([9]), made.constant([0])], (1, *rest))
    elif kind == "Add":
        other = np.array([draw.uniform(-1, 1) for _ in range(count)]).reshape(shape)
        made.add(kind, [name, made.constant(other, np.float32)], shape)
    elif kind == "Sort":
        made.nodes.append(helper.make_node("TopK", [name, made.constant([shape[0]])], [f"t{len(made.nodes)}", f"places{len(made.nodes)}"], axis=0))
        made.tensors.append((made.nodes[-1].output[0], shape))
    elif kind == "CumSum":
        made.add(kind, [name, made.constant(0)], shape)
    elif kind == "Expand":
        made.add(kind, [name, made.constant([2, *shape])], (2, *shape))
    else:
        made.add("LpNormalization", [name], shape, axis=0)
