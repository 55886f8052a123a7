"""A region of ONNX's operators as a graph: in JSON, constants beside it, in float32 or float16, for machines that build an engine of it; or as an
ONNX file for a vendor's own compiler, which answers with bytes that only its device understands."""

import json
import math
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from toolchain.abi.dram_map import DramMap, Segment, Shape, StoredTensor
from toolchain.codegen import RegionCode, render
from toolchain.graph.regions import GraphRegion, GraphTensor, onnx_of
from toolchain.schedule.backend import Backend
from toolchain.schedule.dram_allocation import ALIGN
from toolchain.schedule.form.plan import Schedule
from toolchain.schedule.graph_offload import GraphRules
from toolchain.schedule.regions.region import Region
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError, fail
from toolchain.spec.model import Machine, Tool

SUFFIX = ".half"
FIRST = 0
"""The operand whose type is the one that an operator computes in."""


def half_region(region: GraphRegion) -> GraphRegion:
    """The region with the same border in float32. Numbers beyond float16's range become infinite, as in any engine of it."""
    made = _Half(region)
    nodes = (*made.casts_in(), *(made.node(node) for node in region.nodes), *made.casts_out())
    used = {value.name for node in nodes for value in node.inputs if value is not None}
    constants = {name: array for name, array in made.constants.items() if name in used}
    return GraphRegion(region.name, region.inputs, region.outputs, nodes, constants, region.opset)


@dataclass
class _Half:
    """constants: those of the region, and the rounded ones beside them."""

    region: GraphRegion
    constants: dict[str, Array] = field(default_factory=dict[str, Array])

    def __post_init__(self) -> None:
        self.constants |= self.region.constants

    def casts_in(self) -> Iterator[ir.Node]:
        for tensor in self.region.inputs:
            yield _cast(tensor.name, f"{tensor.name}{SUFFIX}", ir.DataType.FLOAT16)

    def casts_out(self) -> Iterator[ir.Node]:
        for tensor in self.region.outputs:
            yield _cast(f"{tensor.name}{SUFFIX}", tensor.name, ir.DataType.FLOAT)

    def node(self, node: ir.Node) -> ir.Node:
        computed = _computed(node)
        inputs = [value and _value(self.operand(value, number in computed)) for number, value in enumerate(node.inputs)]
        outputs = [_value(f"{value.name}{SUFFIX}" if value.name else "") for value in node.outputs]
        return ir.Node(node.domain, node.op_type, inputs, list(node.attributes.values()), outputs=outputs, name=node.name)

    def operand(self, value: ir.Value, computed: bool) -> str:
        """The name of an operand: of computed tensors the one in float16; constants are rounded where the operator computes with them."""
        name = value.name or ""
        held = self.region.constants.get(name)
        if held is None:
            return f"{name}{SUFFIX}" if name else ""
        if not computed or held.dtype != np.float32:
            return name
        with np.errstate(over="ignore"):
            self.constants[f"{name}{SUFFIX}"] = held.astype(np.float16)
        return f"{name}{SUFFIX}"


def _computed(node: ir.Node) -> frozenset[int]:
    """The operands that have the type of the first: not the factors of a Resize, which are float32 whatever it resizes."""
    formal = onnx.defs.get_schema(node.op_type).inputs
    kinds: Mapping[int, str] = {number: formal[min(number, len(formal) - 1)].type_str for number in range(len(node.inputs))}
    return frozenset(number for number, kind in kinds.items() if kind == kinds[FIRST])


def _cast(source: str, target: str, kind: ir.DataType) -> ir.Node:
    return ir.Node("", "Cast", [_value(source)], [ir.AttrInt64("to", int(kind))], outputs=[_value(target)], name=f"{target}.cast")


def _value(name: str) -> ir.Value:
    return ir.Value(name=name)


@dataclass(frozen=True)
class JsonGenerator:
    """The generator of machines that take a graph."""

    def generate(self, backend: Backend, region: Region | GraphRegion, schedule: Schedule | None = None) -> RegionCode:
        """Raises UserError E1010 for an attribute that JSON does not hold."""
        assert isinstance(region, GraphRegion)
        assert schedule is None
        cycles = graph_cycles(backend, region)
        region = half_region(region) if backend.machine.half else region
        held, constants, offsets = place_graph(region)
        source = graph_text(region, offsets)
        return RegionCode(
            target=backend.machine.name,
            suffix="json",
            blob=source.encode(),
            source=source,
            map=held,
            constants={"constants": constants},
            images=1,
            cycles=cycles,
        )


def graph_cycles(backend: Backend, region: GraphRegion) -> float:
    """Cycles of a run, operators one after the other, by the machine's file."""
    rules = GraphRules(backend.machine)
    return sum(rules.cycles(node, region.constants) for node in region.nodes)


def place_graph(region: GraphRegion) -> tuple[DramMap, bytes, dict[str, int]]:
    """The planned memory of tensors at the border; constant bytes, each content once, and where each constant stands among them."""
    held, (constants, offsets) = place_border(region), place_constants(region)
    return replace(held, segments={**held.segments, "constants": Segment(0, len(constants))}), constants, offsets


def place_border(region: GraphRegion) -> DramMap:
    """The planned memory of tensors at the border: inputs, and results behind them."""
    tensors, segments, end = dict[str, StoredTensor](), dict[str, Segment](), 0
    for segment, members in (("inputs", region.inputs), ("results", region.outputs)):
        size = 0
        for tensor in members:
            tensors[tensor.name] = _stored(tensor, segment, size)
            size += -(-tensor.bytes // ALIGN) * ALIGN
        segments[segment] = Segment(end, size)
        end += size
    return DramMap("", "", segments, tensors, tuple(t.name for t in region.inputs), tuple(t.name for t in region.outputs))


def place_constants(region: GraphRegion) -> tuple[bytes, dict[str, int]]:
    """Constant bytes, each content once, and where each constant stands among them."""
    offsets, parts, known = dict[str, int](), list[bytes](), dict[bytes, int]()
    for name, array in region.constants.items():
        data = array.tobytes()
        if data not in known:
            known[data] = sum(map(len, parts))
            parts.append(data + bytes(-len(data) % ALIGN))
        offsets[name] = known[data]
    return b"".join(parts), offsets


def _stored(tensor: GraphTensor, segment: str, offset: int) -> StoredTensor:
    """In the order of its axes, without a layout."""
    shape = Shape(1, math.prod(tensor.shape), 1, 1)
    return StoredTensor(shape, segment, offset, tensor.bytes, "", "", tuple(shape))


@dataclass(frozen=True)
class _Entry:
    """A tensor as the template has it: every value is JSON already."""

    name: str
    shape: str
    dtype: str
    offset: int = 0


@dataclass(frozen=True)
class _Node:
    name: str
    operator: str
    inputs: str
    outputs: str
    attributes: str


def graph_text(region: GraphRegion, offsets: Mapping[str, int]) -> str:
    """The region as JSON. offsets: of constants in their segment, in bytes."""
    inputs, outputs = ([_Entry(_json(t.name), _json(t.shape), _json(t.dtype)) for t in side] for side in (region.inputs, region.outputs))
    constants = [_constant(name, array, offsets[name]) for name, array in region.constants.items()]
    nodes = [_node(node) for node in region.nodes]
    return render(
        "json", "graph.json.j2", name=_json(region.name), opset=region.opset, inputs=inputs, outputs=outputs, constants=constants, nodes=nodes
    )


def _json(value: object) -> str:
    return json.dumps(value)


def _constant(name: str, array: Array, offset: int) -> _Entry:
    return _Entry(_json(name), _json(array.shape), _json(str(np.dtype(array.dtype).name)), offset)


def _node(node: ir.Node) -> _Node:
    inputs, outputs = (_json([value.name if value is not None else "" for value in side]) for side in (node.inputs, node.outputs))
    attributes = {name: _attribute(node, attribute) for name, attribute in node.attributes.items()}
    return _Node(_json(node.name or ""), _json(node.op_type), inputs, outputs, _json(attributes))


def _attribute(node: ir.Node, attribute: ir.Attr) -> dict[str, object]:
    """{TYPE: VALUE}; a float32 as the shortest decimal number that gives it back."""
    kinds = {
        ir.AttributeType.INT: "int", ir.AttributeType.INTS: "ints", ir.AttributeType.FLOAT: "float", ir.AttributeType.FLOATS: "floats",
        ir.AttributeType.STRING: "string", ir.AttributeType.STRINGS: "strings",
    }  # fmt: skip
    kind = kinds.get(attribute.type)
    if kind is None:
        raise fail("E1010", f"attribute '{attribute.name}' of '{node.name}' is a {attribute.type.name.lower()}, which the graph does not hold")
    value = attribute.value
    return {kind: list(value) if kind.endswith("s") else float(value) if kind == "float" else value}


VARIABLE = "TILEWRIGHT_TOOLS"
"""Names the programs that machines' files may start, separated as in PATH: a machine's file alone never starts one."""
GRAPH, CODE = "region.onnx", "region.bin"
SHOWN = 300
"""Bytes of a tool's last words that a message repeats."""


def tool_path(machine: Machine, name: str) -> Path:
    """The program of that name among those that the user names. Raises UserError E1116 where it is not there."""
    named = [Path(text) for text in os.environ.get(VARIABLE, "").split(os.pathsep) if text]
    found = next((path for path in named if path.name == name), None)
    if found is None:
        hint = f"if you trust it, set {VARIABLE} to its path"
        raise fail("E1116", f"machine '{machine.name}' needs its vendor's program '{name}', which {VARIABLE} does not name", hint=hint)
    if not found.is_file() or not os.access(found, os.X_OK):
        raise fail("E1116", f"{VARIABLE} names '{found}', which is no program that can be started")
    return found.absolute()


class ToolGenerator:
    """The generator of machines with `codegen: tool`."""

    def generate(self, backend: Backend, region: Region | GraphRegion, schedule: Schedule | None = None) -> RegionCode:
        """Raises UserError E1116 where the user names no such compiler, E1117 where it fails."""
        assert isinstance(region, GraphRegion)
        assert schedule is None
        machine, tool = backend.machine, backend.machine.tool
        assert tool is not None
        model = onnx_of(half_region(region) if machine.half else region)
        blob = run_compiler(tool_path(machine, tool.compiler), tool, model.SerializeToString(), region.name)
        return RegionCode(
            target=machine.name,
            suffix="bin",
            blob=blob,
            source=onnx.printer.to_text(model.graph),
            map=place_border(region),
            constants={},
            images=1,
            cycles=graph_cycles(backend, region),
        )


def run_compiler(program: Path, tool: Tool, model: bytes, region: str) -> bytes:
    """The code that `PROGRAM region.onnx region.bin ARGUMENTS` writes, in a folder of its own. Raises UserError E1117 for every other end."""
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        graph, code = Path(folder, GRAPH), Path(folder, CODE)
        graph.write_bytes(model)
        log = Path(folder, "log")
        try:
            ended = _ended([str(program), GRAPH, CODE, *tool.arguments], Path(folder), log, tool.seconds)
        except OSError as error:
            raise _failed(tool, region, f"cannot be started: {error.strerror}", log) from None
        if ended is None:
            raise _failed(tool, region, f"takes longer than {tool.seconds} s", log)
        if ended:
            raise _failed(tool, region, f"ends with code {ended}", log)
        size = code.stat().st_size if code.is_file() and not code.is_symlink() else 0
        if not 0 < size <= tool.megabytes * 10**6:
            raise _failed(tool, region, f"writes {size} bytes of code, and may write 1 to {tool.megabytes} MB", log)
        return code.read_bytes()


def _ended(command: list[str], folder: Path, log: Path, seconds: int) -> int | None:
    """The code with which a command ends, None where it does not in time; then all processes that it started are stopped. Raises OSError."""
    with log.open("wb") as words:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=words, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _failed(tool: Tool, region: str, text: str, log: Path) -> UserError:
    with log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(file.tell() - SHOWN, 0))
        lines = file.read().decode("utf-8", "replace").split("\n")
    said = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return fail("E1117", f"the vendor's compiler '{tool.compiler}' {text}, on region '{region}'{f': {said}' if said else ''}")
