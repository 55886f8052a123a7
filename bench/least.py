"""The least time that a network's own work takes on the units of a machine: counted from the model's file, at rates from the machine's."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx
import onnx

from toolchain.models.build import model_shape_graph
from toolchain.models.model import Model
from toolchain.models.sources import Shapes, graph_macs
from toolchain.spec.evaluate import constant
from toolchain.spec.model import Instruction, Machine
from toolchain.timing.class_cost import Fields, class_cost, traffic


@dataclass(frozen=True)
class Rates:
    """All a cycle: multiply-accumulates, bytes that the unit of pools and additions writes, bytes through the port of DRAM.

    sizes: bytes of an element by layout. held: bytes of the memory that weights wait in.
    """

    macs: int
    written: float
    moved: float
    clock_khz: int
    sizes: Mapping[str, int]
    held: int


@dataclass(frozen=True)
class Work:
    """On one image. written: elements that pools and additions write, times taps or operands. weights, biases, border (inputs and outputs):
    how many. behind: for each dense layer, the multiply-accumulates before it, and the weights of it and of the layers behind it."""

    macs: int
    written: int
    weights: int
    biases: int
    border: int
    behind: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Least:
    """Milliseconds of three units' own work, and of a chain: all multiply-accumulates before a dense layer, then the weights from there on that do
    not wait on chip."""

    conv_ms: float
    misc_ms: float
    moved_ms: float
    chain_ms: float = 0.0

    @property
    def busiest(self) -> float:
        """The longest of the three units' times."""
        return max(self.conv_ms, self.misc_ms, self.moved_ms)

    @property
    def bound(self) -> float:
        """The longest of all."""
        return max(self.busiest, self.chain_ms)


def least(model: Model, rates: Rates, images: int) -> Least:
    """The busy times of one run."""
    work = work_of(model)
    conv, misc = images * work.macs / rates.macs, images * work.written * rates.sizes["activations"] / rates.written
    once = work.weights * rates.sizes["weights"] + work.biases * rates.sizes["bias"]
    moved = once + images * work.border * rates.sizes["activations"]
    chains = (images * macs / rates.macs + max(late * rates.sizes["weights"] - rates.held, 0) / rates.moved for macs, late in work.behind)
    cycles = conv, misc, moved / rates.moved, max(chains, default=0.0)
    return Least(*(each / rates.clock_khz for each in cycles))


def rates(machine: Machine, unit: str, memory: str, parameters: str) -> Rates:
    """unit: of pools and additions, which write `memory`. parameters: the memory of weights."""
    number = next(k for k, found in enumerate(machine.units) if found.name == unit)
    own = [instruction for instruction in machine.instructions if constant(instruction.unit, {}) == number]
    (port,) = machine.timing.resources
    assert machine.timing.peak_macs is not None
    written = max(rate for instruction in own for rate in _written(machine, instruction, memory))
    sizes = {layout.name: layout.type.bits // 8 for layout in machine.layouts if layout.type}
    held = next(found.bytes for found in machine.memories if found.name == parameters)
    return Rates(machine.timing.peak_macs, written, port.bytes_per_cycle / port.per, machine.timing.clock_khz, sizes, held)


def _written(machine: Machine, instruction: Instruction, memory: str) -> Iterator[float]:
    """Bytes a cycle with one field at its greatest value and all others at 1, or what is next to it."""
    ones = {field.name: min(max(field.low, 1), field.high) for field in instruction.fields}
    for field in instruction.fields:
        values = ones | {field.name: field.high}
        fields = Fields(1, values.__getitem__, _one)
        if cycles := class_cost(machine, instruction, fields).held:
            yield float(traffic(machine, instruction, "write", memory, fields) / cycles)


def _one(register: str, name: str) -> int:
    """Every field that a register holds."""
    del register, name
    return 1


def work_of(model: Model) -> Work:
    """Counted from the graph as it is declared; a constant of one axis is a bias."""
    bare = model_shape_graph(model)
    assert bare is not None
    graph, shapes = bare.proto.graph, {**bare.shapes, **bare.parameters}
    weights = {name: shape for node in graph.node if _weighted(node) for name, shape in _constants(node, shapes)}
    many = sum(math.prod(shape) for shape in weights.values() if len(shape) > 1)
    biases = sum(shape[0] for shape in weights.values() if len(shape) == 1)
    border = sum(math.prod(shapes[value.name]) for value in (*graph.input, *graph.output) if value.name not in bare.parameters)
    macs, written = sum(graph_macs(graph.node, shapes).values()), sum(_elements(node, shapes) for node in graph.node)
    return Work(macs, written, many, biases, border, tuple(_behind(graph.node, shapes)))


def _behind(nodes: Sequence[onnx.NodeProto], shapes: Shapes) -> Iterator[tuple[int, int]]:
    """As Work has it."""
    maker = {name: index for index, node in enumerate(nodes) for name in node.output}
    graph = nx.DiGraph((maker[name], index) for index, node in enumerate(nodes) for name in node.input if name in maker)
    macs = [sum(graph_macs([node], shapes).values()) for node in nodes]
    weights = [sum(math.prod(shape) for _, shape in _constants(node, shapes) if len(shape) > 1) if _weighted(node) else 0 for node in nodes]
    for index, node in enumerate(nodes):
        if node.op_type == "Gemm" and index in graph:
            yield sum(macs[k] for k in nx.ancestors(graph, index)), weights[index] + sum(weights[k] for k in nx.descendants(graph, index))


def _weighted(node: onnx.NodeProto) -> bool:
    return node.op_type in ("Conv", "Gemm")


def _constants(node: onnx.NodeProto, shapes: Shapes) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Weights and bias; a convolution with a batch norm behind it has a bias once the norm is folded."""
    for name in node.input[1:]:
        yield name, tuple(shapes[name])
    if len(node.input) == 2:
        yield f"{node.output[0]}.bias", (shapes[node.input[1]][0],)


def _elements(node: onnx.NodeProto, shapes: Shapes) -> int:
    """Elements of the result times taps or operands."""
    size = math.prod(shapes[node.output[0]])
    match node.op_type:
        case "Add":
            return size * len(node.input)
        case "GlobalAveragePool":
            return math.prod(shapes[node.input[0]])
        case "MaxPool" | "AveragePool":
            taps = math.prod(next(attribute.ints for attribute in node.attribute if attribute.name == "kernel_shape"))
            return size * taps if taps > 1 else 0
        case _:
            return 0
