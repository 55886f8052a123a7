"""The least time that a network's own work keeps the units of a machine busy: counted from the model's file, at rates from the machine's."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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

    sizes: bytes of an element by layout.
    """

    macs: int
    written: float
    moved: float
    clock_khz: int
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class Work:
    """On one image. written: elements that pools and additions write, times taps or operands. weights, biases, border (inputs and outputs):
    how many."""

    macs: int
    written: int
    weights: int
    biases: int
    border: int


@dataclass(frozen=True)
class Least:
    """Milliseconds. moved: bytes."""

    conv_ms: float
    misc_ms: float
    moved: int
    gb_per_s: float

    def moved_ms(self, gb_per_s: float | None = None) -> float:
        """At another rate than the machine's."""
        return self.moved / (gb_per_s or self.gb_per_s) / 1e6

    def bound(self, gb_per_s: float | None = None) -> float:
        """The longest of the three."""
        return max(self.conv_ms, self.misc_ms, self.moved_ms(gb_per_s))


def least(model: Model, rates: Rates, images: int) -> Least:
    """The busy times of one run."""
    work = work_of(model)
    conv, misc = images * work.macs / rates.macs, images * work.written * rates.sizes["activations"] / rates.written
    once = work.weights * rates.sizes["weights"] + work.biases * rates.sizes["bias"]
    moved = once + images * work.border * rates.sizes["activations"]
    return Least(conv / rates.clock_khz, misc / rates.clock_khz, moved, rates.moved * rates.clock_khz / 1e6)


def rates(machine: Machine, unit: str, memory: str) -> Rates:
    """unit: of pools and additions, which write `memory`."""
    number = next(k for k, found in enumerate(machine.units) if found.name == unit)
    own = [instruction for instruction in machine.instructions if constant(instruction.unit, {}) == number]
    (port,) = machine.timing.resources
    assert machine.timing.peak_macs is not None
    written = max(rate for instruction in own for rate in _written(machine, instruction, memory))
    sizes = {layout.name: layout.type.bits // 8 for layout in machine.layouts if layout.type}
    return Rates(machine.timing.peak_macs, written, port.bytes_per_cycle / port.per, machine.timing.clock_khz, sizes)


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
    weights = {name: shape for node in graph.node if node.op_type in ("Conv", "Gemm") for name, shape in _constants(node, shapes)}
    many = sum(math.prod(shape) for shape in weights.values() if len(shape) > 1)
    biases = sum(shape[0] for shape in weights.values() if len(shape) == 1)
    border = sum(math.prod(shapes[value.name]) for value in (*graph.input, *graph.output) if value.name not in bare.parameters)
    macs, written = sum(graph_macs(graph.node, shapes).values()), sum(_elements(node, shapes) for node in graph.node)
    return Work(macs, written, many, biases, border)


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
