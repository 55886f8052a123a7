"""A small encoder of a transformer: layers of attention by heads and of two products around a GELU, each with its norm."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

F = np.float32


class _Graph:
    """Nodes and constants as they are added; a node is called after its result."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, array: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, operator: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def dense(self, x: str, name: str, size: int, out: int) -> str:
        weights = self.constant(f"{name}.weights", self.rng.normal(0, size**-0.5, (size, out)).astype(F))
        bias = self.constant(f"{name}.bias", self.rng.normal(0, 0.1, out).astype(F))
        return self.add("Add", [self.add("MatMul", [x, weights], f"{name}.product"), bias], name)

    def norm(self, x: str, name: str, size: int) -> str:
        given = [self.constant(f"{name}.{end}", self.rng.normal(mean, 0.1, size).astype(F)) for end, mean in (("scale", 1), ("offset", 0))]
        return self.add("LayerNormalization", [x, *given], name, axis=-1, epsilon=1e-5)

    def heads(self, x: str, name: str, perm: Sequence[int]) -> str:
        return self.add("Transpose", [self.add("Reshape", [x, "by_heads"], f"{name}.apart")], name, perm=perm)


def encoder(layers: int = 1, width: int = 32, heads: int = 2, rows: int = 16, seed: int = 0, factor: float = 1.0) -> onnx.ModelProto:
    """x [1, rows, width] to y. factor: of the usual 1 / sqrt(channels of a head)."""
    g, inner = _Graph(seed), width // heads
    g.constant("by_heads", np.array([0, 0, heads, inner]))
    g.constant("joined", np.array([0, 0, width]))
    g.constant("root", F(np.sqrt(inner) / factor))
    x = "x"
    for number in range(layers):
        p = f"layer{number}"
        q, k, v = (g.dense(x, f"{p}.{name}", width, width) for name in ("queries", "keys", "values"))
        scores = g.add("MatMul", [g.heads(q, f"{p}.q", (0, 2, 1, 3)), g.heads(k, f"{p}.k", (0, 2, 3, 1))], f"{p}.scores")
        shares = g.add("Softmax", [g.add("Div", [scores, "root"], f"{p}.scaled")], f"{p}.shares", axis=-1)
        sums = g.add("MatMul", [shares, g.heads(v, f"{p}.v", (0, 2, 1, 3))], f"{p}.sums")
        context = g.add("Reshape", [g.add("Transpose", [sums], f"{p}.turned", perm=(0, 2, 1, 3)), "joined"], f"{p}.context")
        x = g.norm(g.add("Add", [g.dense(context, f"{p}.out", width, width), x], f"{p}.first"), f"{p}.norm1", width)
        inside = g.add("Gelu", [g.dense(x, f"{p}.up", width, 2 * width)], f"{p}.gelu")
        x = g.norm(g.add("Add", [g.dense(inside, f"{p}.down", 2 * width, width), x], f"{p}.second"), f"{p}.norm2", width)
    g.nodes[-1].output[0] = "y"
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, rows, width]) for name in ("x", "y")]
    graph = helper.make_graph(g.nodes, "encoder", ends[:1], ends[1:], g.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
