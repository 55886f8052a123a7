"""Operators outside the standard set, or on stored integers (QLinearConv and its like, ai.onnx.ml), written as float operators of the standard; and
one fused layer while it is written out: its operands and attributes, and what inference tells of tensors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from toolchain.graph.nodes import needed, replace_nodes
from toolchain.graph.rewrite import ONNX_DOMAINS, is_operator
from toolchain.operations.numbers import Attributes
from toolchain.spec.arrays import Array

VENDOR = "com.microsoft"
WRITTEN = "tilewright.written"
"""Metadata of a model some of whose operators on stored integers were written out."""
Key = tuple[str, str]


class Writer:
    """Collects the nodes that stand for one operator; names of new tensors begin with the name of its result."""

    def __init__(self, node: onnx.NodeProto) -> None:
        self.node, self.nodes = node, list[onnx.NodeProto]()

    def add(self, operator: str, inputs: Sequence[str], word: str, output: str = "", /, **attributes: Any) -> str:
        """A node and its result, `RESULT/word` where no name is given."""
        name = output or f"{self.node.output[0]}/{word}"
        self.nodes.append(helper.make_node(operator, inputs, [name], f"{self.node.name or self.node.output[0]}/{word}", **attributes))
        return name

    def float_of(self, number: int, word: str, /, **attributes: object) -> str:
        """Operand `number`, followed by its scale and zero point, as floating point."""
        return self.add("DequantizeLinear", [name for name in self.node.input[number : number + 3] if name], f"{word}.float", **attributes)

    def store(self, value: str, scale: int) -> None:
        """The result, rounded by the scale that is operand `scale` and the zero point after it."""
        self.add("QuantizeLinear", [value, *(name for name in self.node.input[scale : scale + 2] if name)], "stored", self.node.output[0])

    def keep(self, *names: str) -> Attributes:
        """The node's own attributes of these names."""
        return {a.name: helper.get_attribute_value(a) for a in self.node.attribute if a.name in names}


Rule = Callable[[Writer], None]


def write_out(graph: onnx.GraphProto) -> bool:
    """Rewrites every operator on stored integers that has a rule; whether there was one. Subgraphs stay as they are."""
    nodes: list[onnx.NodeProto] = []
    found = False
    for node in graph.node:
        if node.domain == VENDOR and node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            node.domain = ""  # ONNX Runtime's quantiser writes them for types that the standard's had not before operator set 21
        rule = None if _channels_last(node) else _RULES.get(("" if node.domain in ONNX_DOMAINS else node.domain, node.op_type))
        if rule is None:
            nodes.append(node)
            continue
        writer = Writer(node)
        rule(writer)
        nodes += writer.nodes
        found = True
    if found:
        replace_nodes(graph, nodes)
    return found


def share_floats(graph: onnx.GraphProto) -> None:
    """Makes one tensor of several DequantizeLinear that read the same: the rounding before them is taken out once, for all of their readers.

    graph: its nodes sorted. Those that the graph hands out, or a subgraph reads, stay.
    """
    pinned = {entry.name for entry in graph.output} | {name for node in graph.node for name in set(needed(node)) - set(node.input)}
    first, same = dict[tuple[object, ...], str](), dict[str, str]()
    for node in graph.node:
        if is_operator(node, "DequantizeLinear"):
            key = (*node.input, None, *sorted(a.SerializeToString() for a in node.attribute))
            if first.setdefault(key, node.output[0]) != node.output[0] and node.output[0] not in pinned:
                same[node.output[0]] = first[key]
    for node in [node for node in graph.node if node.output[0] in same]:
        graph.node.remove(node)
    for node in graph.node:
        node.input[:] = [same.get(name, name) for name in node.input]


def _channels_last(node: onnx.NodeProto) -> bool:
    return any(a.name == "channels_last" and a.i for a in node.attribute)


def _convolution(w: Writer) -> None:
    """Operands: x, its scale and zero point; w, the same; the result's scale and zero point; bias at scale x times scale w."""
    x, weight = w.float_of(0, "x"), w.float_of(3, "w", axis=0)
    operands = [x, weight]
    if len(w.node.input) > 8 and w.node.input[8]:
        operands.append(_bias(w, w.node.input[8], w.node.input[1], w.node.input[4]))
    w.store(w.add("Conv", operands, "sum", **w.keep(*CONVOLUTION)), 6)


def _bias(w: Writer, bias: str, x_scale: str, w_scale: str) -> str:
    """Times both scales, broadcast: a DequantizeLinear with a scale for each channel would take no bias of one number."""
    scale = w.add("Mul", [x_scale, w_scale], "bias.scale")
    return w.add("Mul", [w.add("Cast", [bias], "bias.whole", to=onnx.TensorProto.FLOAT), scale], "bias.float")


def _matmul(w: Writer) -> None:
    w.store(w.add("MatMul", [w.float_of(0, "a"), w.float_of(3, "b", axis=-1)], "sum"), 6)


def _gemm(w: Writer) -> None:
    """Operands: a, b with scale and zero point each; c at scale a times scale b; the result's scale and zero point, if it is stored at all.

    ONNX Runtime multiplies c by alpha too, since it adds it to the products (measured on ONNX Runtime 1.31).
    """
    transposed = bool(w.keep("transB").get("transB"))
    operands = [w.float_of(0, "a"), w.float_of(3, "b", axis=0 if transposed else 1)]
    if len(w.node.input) > 6 and w.node.input[6]:
        operands.append(_bias(w, w.node.input[6], w.node.input[1], w.node.input[4]))
    stored = len(w.node.input) > 7 and bool(w.node.input[7])
    kept = w.keep("alpha", "transA", "transB")
    total = w.add("Gemm", operands, "sum", "" if stored else w.node.output[0], **kept, beta=kept.get("alpha", 1.0))
    if stored:
        w.store(total, 7)


def _binary(operator: str) -> Rule:
    return lambda w: w.store(w.add(operator, [w.float_of(0, "a"), w.float_of(3, "b")], "sum"), 6)


def _unary(operator: str, *attributes: str) -> Rule:
    return lambda w: w.store(w.add(operator, [w.float_of(0, "x")], "result", **w.keep(*attributes)), 3)


def _concat(w: Writer) -> None:
    """Operands: the result's scale and zero point, then three for each part."""
    parts = [w.float_of(number, f"x{number}") for number in range(2, len(w.node.input), 3)]
    w.store(w.add("Concat", parts, "joined", **w.keep("axis")), 0)


WINDOW = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides", "dilations")
CONVOLUTION = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
"""Attributes of a pool and of a convolution."""


def _pool(operator: str, *attributes: str) -> Rule:
    return lambda w: w.store(w.add(operator, [w.float_of(0, "x")], "mean", **w.keep(*attributes)), 3)


_RULES: Mapping[Key, Rule] = MappingProxyType(
    {
        ("", "QLinearConv"): _convolution,
        ("", "QLinearMatMul"): _matmul,
        (VENDOR, "QGemm"): _gemm,
        (VENDOR, "QLinearAdd"): _binary("Add"),
        (VENDOR, "QLinearMul"): _binary("Mul"),
        (VENDOR, "QLinearConcat"): _concat,
        (VENDOR, "QLinearAveragePool"): _pool("AveragePool", *WINDOW),
        (VENDOR, "QLinearGlobalAveragePool"): _pool("GlobalAveragePool"),
        (VENDOR, "QLinearLeakyRelu"): _unary("LeakyRelu", "alpha"),
        (VENDOR, "QLinearSigmoid"): _unary("Sigmoid"),
    }
)


DOMAIN = "ai.onnx.ml"
NARROW = (onnx.TensorProto.FLOAT, onnx.TensorProto.INT32, onnx.TensorProto.INT64)
"""Operands that ONNX Runtime takes to float32 first; a double it takes there last."""


def write_scalers(graph: onnx.GraphProto) -> bool:
    """Rewrites every Scaler whose operand's type is known to be one of NARROW; whether there was one."""
    types = {entry.name: entry.type.tensor_type.elem_type for entry in (*graph.input, *graph.value_info)}
    found = [node for node in graph.node if node.domain == DOMAIN and node.op_type == "Scaler" and types.get(node.input[0]) in NARROW]
    if found:
        replace_nodes(graph, [made for node in graph.node for made in (_written(graph, node) if node in found else [node])])
    return bool(found)


def drop_maps(graph: onnx.GraphProto) -> None:
    """Hands out the tensor [n, classes] of which a ZipMap makes a sequence of maps: their values, sorted by class as maps are."""
    zips = {node.output[0]: node for node in graph.node if node.domain == DOMAIN and node.op_type == "ZipMap"}
    kept = [node for node in graph.node if not node.output or node.output[0] not in zips]
    for entry in graph.output:
        if entry.name in zips:
            writer = Writer(zips[entry.name])
            labels: Sequence[int | bytes] = next(iter(writer.keep("classlabels_int64s", "classlabels_strings").values()))
            order = np.array(sorted(range(len(labels)), key=lambda number: labels[number]), np.int64)
            graph.initializer.append(numpy_helper.from_array(order, f"{entry.name}/order"))
            writer.add("Gather", [writer.node.input[0], f"{entry.name}/order"], "sorted", entry.name, axis=1)
            kept += writer.nodes
            entry.type.CopyFrom(helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None))
    if zips:
        replace_nodes(graph, kept)


def _written(graph: onnx.GraphProto, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """(x - offset) * scale, in float32 as ONNX Runtime computes it."""
    writer = Writer(node)
    for name in ("offset", "scale"):
        values = np.array(writer.keep(name)[name], np.float32)
        graph.initializer.append(numpy_helper.from_array(values, f"{node.output[0]}/{name}"))
    x = writer.add("Cast", [node.input[0]], "float", to=onnx.TensorProto.FLOAT)
    difference = writer.add("Sub", [x, f"{node.output[0]}/offset"], "difference")
    writer.add("Mul", [difference, f"{node.output[0]}/scale"], "scaled", node.output[0])
    return writer.nodes


class Known(NamedTuple):
    """The type and shape of a tensor, by inference. shape: None for an extent that is open."""

    type: int
    shape: tuple[int | None, ...]


@dataclass(frozen=True)
class Facts:
    """tensors: by name; those of which nothing is known are not there. makers: the kind of the operator that makes a tensor. counts: whole numbers
    that are constant, of few elements."""

    tensors: Mapping[str, Known]
    makers: Mapping[str, str]
    counts: Mapping[str, Array] = field(default_factory=dict[str, Array])


class Layer(Writer):
    """Collects what stands for one fused layer."""

    def __init__(self, node: onnx.NodeProto, facts: Facts) -> None:
        super().__init__(node)
        self.facts, self.constants, self.refusal = facts, list[onnx.TensorProto](), ""
        self.given: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}

    def operand(self, number: int) -> str:
        """The name of an operand; empty where there is none."""
        return self.node.input[number] if number < len(self.node.input) else ""

    def has(self, *numbers: int) -> bool:
        return any(self.operand(number) for number in numbers)

    def refuse(self, because: str) -> bool:
        """Keeps why the layer stays as it is. False, which a rule answers then."""
        self.refusal = because
        return False

    def shape(self, name: str) -> tuple[int | None, ...]:
        """Empty where nothing is known of it."""
        return self.facts.tensors[name].shape if name in self.facts.tensors else ()

    def rank(self, name: str) -> int | None:
        return len(self.facts.tensors[name].shape) if name in self.facts.tensors else None

    def element_type(self, name: str) -> int:
        """An element type of ONNX; 0 where it is not known."""
        return self.facts.tensors[name].type if name in self.facts.tensors else TensorProto.UNDEFINED

    def hands_out(self, *numbers: int) -> bool:
        """Whether the node has one of these results."""
        return any(number < len(self.node.output) and bool(self.node.output[number]) for number in numbers)

    def constant(self, word: str, value: object, dtype: type[np.generic] = np.float32) -> str:
        name = f"{self.node.output[0]}/{word}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def add_once(self, operator: str, inputs: Sequence[str], name: str, /, **attributes: Any) -> str:
        """A node that several layers share. name: of its result, the same in all of them."""
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def once(self, name: str, value: object, dtype: type[np.generic]) -> str:
        """A constant that several layers share."""
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def split(self, name: str, parts: Sequence[str], word: str, axis: int) -> None:
        """Equal parts of a tensor along an axis."""
        given = self.node.name or self.node.output[0]
        self.nodes.append(helper.make_node("Split", [name], parts, f"{given}/{word}", axis=axis, num_outputs=len(parts)))

    def total(self, names: Sequence[str], word: str, output: str = "") -> str:
        """The sum of all tensors that are there."""
        first, *others = filter(None, names)
        for number, other in enumerate(others):
            first = self.add("Add", [first, other], f"{word}{number}", output if number == len(others) - 1 else "")
        return first


LayerRule = Callable[[Layer], bool]
"""Adds the nodes; whether it could."""
