"""A small decoder of today's kind: norms by the root of the mean square, rotary positions, several queries to a key, gated feed-forward layers, and a
causal mask; as exporters spell it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

F = np.float32
LATER = -1e4


@dataclass(frozen=True)
class Shape:
    """heads: of queries; shared: heads of keys and values. turned: channels of a head that rotary positions turn, all where it is 0. computed:
    whether tables follow from an input of positions."""

    layers: int = 1
    rows: int = 8
    heads: int = 4
    shared: int = 2
    inner: int = 32
    turned: int = 0
    interleaved: bool = False
    computed: bool = False
    seed: int = 0

    @property
    def width(self) -> int:
        return self.heads * self.inner

    @property
    def of_turned(self) -> int:
        return self.turned or self.inner


def angles(shape: Shape, first: int = 0) -> np.ndarray:
    """[rows, pairs], as of RoFormer."""
    half = shape.of_turned // 2
    return (first + np.arange(shape.rows))[:, None] / 10000.0 ** (np.arange(half) / half)


class Builder:
    """Nodes and constants as they are added; a node is called after its result."""

    def __init__(self, shape: Shape) -> None:
        self.shape, self.rng = shape, np.random.default_rng(shape.seed)
        self.nodes, self.constants = list[onnx.NodeProto](), dict[str, onnx.TensorProto]()

    def constant(self, name: str, array: Any) -> str:
        self.constants.setdefault(name, numpy_helper.from_array(np.asarray(array), name))
        return name

    def whole(self, *numbers: int) -> str:
        return self.constant("n" + "_".join(map(str, numbers)), np.array(numbers, np.int64))

    def add(self, operator: str, inputs: list[str], name: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def product(self, x: str, name: str, size: int, out: int) -> str:
        return self.add("MatMul", [x, self.constant(f"{name}.weights", self.rng.normal(0, size**-0.5, (size, out)).astype(F))], name)

    def norm(self, x: str, name: str) -> str:
        square = self.add("Pow", [x, self.constant("two", F(2))], f"{name}.squares")
        mean = self.add("ReduceMean", [square, self.whole(-1)], f"{name}.power", keepdims=1)
        root = self.add("Sqrt", [self.add("Add", [mean, self.constant("epsilon", F(1e-5))], f"{name}.shifted")], f"{name}.root")
        normal = self.add("Mul", [x, self.add("Div", [self.constant("one", F(1)), root], f"{name}.inverse")], f"{name}.normal")
        return self.add("Mul", [normal, self.constant(f"{name}.scale", self.rng.normal(1, 0.1, self.shape.width).astype(F))], name)

    def cut(self, x: str, name: str, first: int, stop: int, step: int = 1) -> str:
        return self.add("Slice", [x, self.whole(first), self.whole(stop), self.whole(3), self.whole(step)], name)

    def heads(self, x: str, name: str, heads: int) -> str:
        apart = self.add("Reshape", [x, self.whole(0, 0, heads, self.shape.inner)], f"{name}.apart")
        return self.add("Transpose", [apart], f"{name}.heads", perm=(0, 2, 1, 3))

    def rotary(self, x: str, name: str, heads: int) -> str:
        """x * cos + swapped * sin, of the first channels where not all are turned."""
        whole, turned, inner = x, self.shape.of_turned, self.shape.inner
        if turned < inner:
            x = self.cut(x, f"{name}.front", 0, turned)
        if self.shape.interleaved:
            a, b = (self.cut(x, f"{name}.{word}", first, turned, 2) for first, word in enumerate(("even", "odd")))
            sides = [self.add("Unsqueeze", [each, self.whole(-1)], f"{each}.side") for each in (self.add("Neg", [b], f"{name}.minus"), a)]
            stack = self.add("Concat", sides, f"{name}.stack", axis=-1)
            swapped = self.add("Reshape", [stack, self.whole(1, heads, self.shape.rows, turned)], f"{name}.swapped")
        else:
            a, b = self.cut(x, f"{name}.low", 0, turned // 2), self.cut(x, f"{name}.high", turned // 2, turned)
            swapped = self.add("Concat", [self.add("Neg", [b], f"{name}.minus"), a], f"{name}.swapped", axis=-1)
        kept = self.add("Mul", [x, "cos"], f"{name}.kept")
        turned_ones = self.add("Add", [kept, self.add("Mul", [swapped, "sin"], f"{name}.moved")], f"{name}.turned")
        if turned == inner:
            return turned_ones
        return self.add("Concat", [turned_ones, self.cut(whole, f"{name}.rest", turned, inner)], f"{name}.whole", axis=-1)

    def repeated(self, x: str, name: str) -> str:
        """Heads of keys or values, each for all its queries."""
        share = self.shape.heads // self.shape.shared
        if share == 1:
            return x
        single = self.add("Unsqueeze", [x, self.whole(2)], f"{name}.single")
        sizes = (1, self.shape.shared, share, self.shape.rows, self.shape.inner)
        spread = self.add("Expand", [single, self.whole(*sizes)], f"{name}.spread")
        return self.add("Reshape", [spread, self.whole(1, self.shape.heads, self.shape.rows, self.shape.inner)], f"{name}.all")

    def tables(self) -> None:
        """cos and sin [1, 1, rows, turned channels]: constants, or computed from positions [1, rows]."""
        shape = self.shape
        if not shape.computed:
            twice = np.repeat(angles(shape), 2, -1) if shape.interleaved else np.tile(angles(shape), 2)
            for name in ("cos", "sin"):
                self.constant(name, getattr(np, name)(twice)[None, None].astype(F))
            return
        half = shape.of_turned // 2
        speeds = self.constant("speeds", (10000.0 ** -(np.arange(half) / half)).astype(F).reshape(1, 1, half))
        places = self.add("Unsqueeze", [self.add("Cast", ["positions"], "places", to=onnx.TensorProto.FLOAT), self.whole(-1)], "column")
        turns = self.add("Mul", [places, speeds], "turns")
        if shape.interleaved:
            side = self.add("Unsqueeze", [turns, self.whole(-1)], "turns.side")
            stack = self.add("Concat", [side, side], "turns.stack", axis=-1)
            twice = self.add("Reshape", [stack, self.whole(1, shape.rows, 2 * half)], "twice")
        else:
            twice = self.add("Concat", [turns, turns], "twice", axis=-1)
        for kind in ("Cos", "Sin"):
            self.add("Unsqueeze", [self.add(kind, [twice], f"{kind}.rows"), self.whole(1)], kind.lower())

    def layer(self, x: str, p: str) -> str:
        s = self.shape
        h = self.norm(x, f"{p}.norm1")
        q = self.rotary(self.heads(self.product(h, f"{p}.q", s.width, s.width), f"{p}.q", s.heads), f"{p}.q", s.heads)
        k = self.heads(self.product(h, f"{p}.k", s.width, s.shared * s.inner), f"{p}.k", s.shared)
        k = self.repeated(self.rotary(k, f"{p}.k", s.shared), f"{p}.k")
        v = self.repeated(self.heads(self.product(h, f"{p}.v", s.width, s.shared * s.inner), f"{p}.v", s.shared), f"{p}.v")
        scores = self.add("MatMul", [q, self.add("Transpose", [k], f"{p}.columns", perm=(0, 1, 3, 2))], f"{p}.scores")
        scaled = self.add("Mul", [scores, self.constant("scale", F(s.inner**-0.5))], f"{p}.scaled")
        masked = self.add("Add", [scaled, self.constant("mask", np.triu(np.full((s.rows, s.rows), LATER, F), 1)[None, None])], f"{p}.masked")
        sums = self.add("MatMul", [self.add("Softmax", [masked], f"{p}.shares", axis=-1), v], f"{p}.sums")
        joined = self.add("Transpose", [sums], f"{p}.turned", perm=(0, 2, 1, 3))
        context = self.add("Reshape", [joined, self.whole(0, 0, s.width)], f"{p}.context")
        x = self.add("Add", [x, self.product(context, f"{p}.out", s.width, s.width)], f"{p}.middle")
        h = self.norm(x, f"{p}.norm2")
        gate, up = (self.product(h, f"{p}.{word}", s.width, 2 * s.width) for word in ("gate", "up"))
        active = self.add("Mul", [gate, self.add("Sigmoid", [gate], f"{p}.open")], f"{p}.silu")
        down = self.product(self.add("Mul", [active, up], f"{p}.gated"), f"{p}.down", 2 * s.width, s.width)
        return self.add("Add", [x, down], f"{p}.y")


def llama(shape: Shape = Shape()) -> onnx.ModelProto:
    """x [1, rows, width] to y; positions [1, rows] beside it where tables are computed."""
    b = Builder(shape)
    b.tables()
    x = "x"
    for number in range(shape.layers):
        x = b.layer(x, f"layer{number}")
    b.nodes[-1].output[0] = "y"
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, shape.rows, shape.width]) for name in ("x", "y")]
    places = [helper.make_tensor_value_info("positions", onnx.TensorProto.INT64, [1, shape.rows])] if shape.computed else []
    graph = helper.make_graph(b.nodes, "llama", [ends[0], *places], ends[1:], list(b.constants.values()))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
