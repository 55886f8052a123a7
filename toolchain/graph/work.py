"""How much operators have to do: multiply-accumulates and bytes, by kind; their price is the machine's business."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from toolchain.graph.integers.functions import kind_of
from toolchain.graph.rewrite import constant, integer, ints, is_operator, known_shape
from toolchain.operations.kind import OperationKind
from toolchain.operations.library import Kinds, builtin_kinds

CONVOLUTIONS = ("conv2d", "Conv", "ConvInteger")
COUNTED = ("Conv", "ConvInteger", "ConvTranspose", "Gemm", "MatMul", "MatMulInteger", "LSTM", "GRU", "RNN")
CHOOSING = ("Gather", "GatherElements", "GatherND", "Slice", "Shape", "Size")
"""Operators that read no more of their first operand than their results hold."""
UNCOUNTED = "uncounted"
"""The kind of such an operator if its shapes do not tell its multiply-accumulates: it costs its bytes, so that a sum costs as much as its parts."""
RECURRENT = {"LSTM": 4, "GRU": 3, "RNN": 1}
"""Operators that multiply at every step, and the gates of each."""


@dataclass(frozen=True)
class Work:
    """The work of operators of one kind: nodes, multiply-accumulates, bytes read and written, and how often a loop runs its body."""

    nodes: int
    macs: int
    bytes: int
    steps: int = 0


NOTHING = Work(0, 0, 0)


def host_work(nodes: Sequence[ir.Node], element_bytes: int = 0, kinds: Kinds | None = None) -> dict[str, Work]:
    """By kind: of a fused or integer call its kind, of any other node its operator, but `depthwise` for a convolution that has as many groups as
    channels, and `uncounted` for a product whose shapes are not known. Tensors of unknown shape count as nothing.

    Nodes inside control flow count as often as they run, of an If those of the branch with more to do; they are no nodes of their own.
    element_bytes: of every computed tensor, 0 for its own type's. kinds: the operations that there are, the toolchain's where none are given.
    """
    found: dict[str, Work] = {}
    for node in nodes:
        kind, macs = _kind(node), _own_macs(node, kinds)
        kind = UNCOUNTED if not macs and _multiplies(node, kinds) else kind
        size = _touched(node, element_bytes)
        found[kind] = _sum(found.get(kind, NOTHING), Work(1, macs, size, _runs(node)))
        for inner, work in _inside(node, element_bytes, kinds).items():
            found[inner] = _sum(found.get(inner, NOTHING), Work(0, work.macs, work.bytes, work.steps))
    return dict(sorted(found.items()))


def _sum(one: Work, other: Work) -> Work:
    return Work(one.nodes + other.nodes, one.macs + other.macs, one.bytes + other.bytes, one.steps + other.steps)


def _inside(node: ir.Node, element_bytes: int, kinds: Kinds | None) -> dict[str, Work]:
    """The work of the bodies of control flow."""
    found = [(host_work(list(graph), element_bytes, kinds), times) for graph, times in bodies_of(node)]
    if not found:
        return {}
    work, times = max(found, key=lambda body: tuple(sum(getattr(each, key) for each in body[0].values()) for key in ("macs", "bytes")))
    return {kind: Work(each.nodes, each.macs * times, each.bytes * times, each.steps * times) for kind, each in work.items()}


def node_macs(node: ir.Node, kinds: Kinds | None = None) -> int:
    """Multiply-accumulates of one node, its bodies included; 0 where shapes are unknown."""
    return sum(work.macs for work in host_work([node], kinds=kinds).values())


def _own_macs(node: ir.Node, kinds: Kinds | None) -> int:
    described = (kinds or builtin_kinds()).get(kind_of(node))
    return _macs(node.op_type, node) if described is None else _described_macs(described, node)


def _multiplies(node: ir.Node, kinds: Kinds | None) -> bool:
    """Whether an operator is a sum of products."""
    described = (kinds or builtin_kinds()).get(kind_of(node))
    return node.op_type in COUNTED if described is None else bool(described.products)


def _described_macs(kind: OperationKind, node: ir.Node) -> int:
    """By the extents of operands and result."""
    known: dict[str, int] = {}
    for operand, value in zip((*kind.operands, kind.result), (*node.inputs[: len(kind.operands)], node.outputs[0]), strict=False):
        shape = known_shape(value)
        if shape is not None:
            known |= dict(zip(operand.extents, (*shape, *(1,) * (len(operand.extents) - len(shape))), strict=False))
    return sum(math.prod(known.get(extent, 0) for extent in extents) for extents in kind.products)


def _kind(node: ir.Node) -> str:
    kind, group = kind_of(node) or node.op_type, node.attributes.get("group")
    if kind in CONVOLUTIONS and group is not None and group.as_int() > 1 and _shape(node.inputs[0])[1:2] == (group.as_int(),):
        return "depthwise"
    return kind


def _macs(kind: str, node: ir.Node) -> int:
    result = _shape(node.outputs[0])
    if kind in CONVOLUTIONS:
        return math.prod(result) * math.prod(_shape(node.inputs[1])[1:])
    if kind == "ConvTranspose":
        return math.prod(_shape(node.inputs[0])) * math.prod(_shape(node.inputs[1])[1:])
    if kind == "Gemm":
        left, turned = _shape(node.inputs[0]), node.attributes.get("transA")
        return math.prod(result) * left[0 if turned is not None and turned.as_int() else -1]
    if kind in ("MatMul", "MatMulInteger"):
        return math.prod(result) * _shape(node.inputs[0])[-1]
    if kind in RECURRENT:
        return _recurrent(node)
    return 0


@dataclass(frozen=True)
class Recurrence:
    """The sizes of an LSTM, a GRU or an RNN: `rows` are steps times batch, `gates` the rows of all gates' weights."""

    steps: int
    rows: int
    size: int
    hidden: int
    gates: int
    directions: int

    @property
    def input_macs(self) -> int:
        """Products of all steps' inputs with their weights."""
        return self.rows * self.directions * self.gates * self.size

    @property
    def state_macs(self) -> int:
        """Products of all steps' states with their weights."""
        return self.rows * self.directions * self.gates * self.hidden


def recurrence_of(node: ir.Node) -> Recurrence | None:
    """x is [steps, batch, size], or [batch, steps, size] by the attribute layout. None for other operators, and where shapes are not known."""
    if not is_operator(node, *RECURRENT) or len(data := _shape(node.inputs[0])) != 3 or len(weights := _shape(node.inputs[1])) != 3:
        return None
    steps = data[1] if integer(node, "layout", 0) else data[0]
    return Recurrence(steps, data[0] * data[1], data[2], weights[1] // RECURRENT[node.op_type], weights[1], weights[0])


def _recurrent(node: ir.Node) -> int:
    """Every step multiplies its input and its state with all gates' weights."""
    found = recurrence_of(node)
    return 0 if found is None else found.input_macs + found.state_macs


def _shape(value: ir.Value | None) -> tuple[int, ...]:
    """(0,) where it is not known, or has no axes that a product could be counted over."""
    return known_shape(value) or (0,)


def _touched(node: ir.Node, element_bytes: int) -> int:
    """Bytes read and written. An operator that chooses some elements of its first operand reads as many as it hands on, however large a table is."""
    sizes = [0 if value is None else _bytes(value, element_bytes) for value in node.inputs]
    made = sum(_bytes(value, element_bytes) for value in node.outputs)
    if is_operator(node, *CHOOSING):
        sizes[0] = min(sizes[0], made)
    return sum(sizes) + made


def _bytes(value: ir.Value, element_bytes: int) -> int:
    if value.dtype is None or value.dtype == ir.DataType.STRING:
        return 0
    size = value.dtype.itemsize if value.is_initializer() or not element_bytes else element_bytes
    shape = known_shape(value)
    return 0 if shape is None else int(math.prod(shape) * size)


def bodies_of(node: ir.Node) -> list[tuple[ir.Graph, int]]:
    """The bodies of a node, each with its number of runs, 1 where it depends on the data; of an If both branches, of which one runs."""
    graphs = [graph for attribute in node.attributes.values() for graph in _graphs(attribute)]
    times = _trips(node) if is_operator(node, "Loop") else _steps(node) if is_operator(node, "Scan") else 1
    return [(graph, times) for graph in graphs]


def _runs(node: ir.Node) -> int:
    """How often a loop runs its body; 0 for other operators."""
    return sum(times for _, times in bodies_of(node)) if is_operator(node, "Loop", "Scan") else 0


def _graphs(attribute: ir.Attr) -> Sequence[ir.Graph]:
    if attribute.is_ref():
        return ()
    if attribute.type == ir.AttributeType.GRAPH:
        return (attribute.as_graph(),)
    return tuple(attribute.as_graphs()) if attribute.type == ir.AttributeType.GRAPHS else ()


def _trips(node: ir.Node) -> int:
    """Iterations of a Loop; the most, where its condition may end it earlier."""
    count = constant(node.inputs[0])
    return max(int(count.item()), 0) if count is not None and count.size == 1 and count.item() < 2**31 else 1


def _steps(node: ir.Node) -> int:
    """The length of the first scanned input along its axis."""
    count = integer(node, "num_scan_inputs", 0)
    axis = (*ints(node, "scan_input_axes", ()), 0)[0]
    shape = known_shape(node.inputs[-count]) if count else None
    return shape[axis] if shape and -len(shape) <= axis < len(shape) else 1
