"""A bundle as a program in C: its plan, conversions at borders, regions as C or on devices. Neither Python nor ONNX Runtime is needed to run it."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx

from toolchain.abi.dram_map import StoredTensor
from toolchain.codegen import FOLDER, render
from toolchain.graph.integers.calls import BOUNDARY
from toolchain.graph.integers.functions import kind_of
from toolchain.isa.c_source import C_TYPE, CValue, CWriter, Interval, c_constant
from toolchain.operations.operation import PICTURE_AXES
from toolchain.runtime.bundle import digest, manifest_text
from toolchain.runtime.contents import Bundle, HostSegment, Interface, Port, RegionProgram, State, step_of
from toolchain.runtime.executor import host_proto, host_protos
from toolchain.runtime.transfers import integer_inputs
from toolchain.spec.errors import UserError, fail
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Binary, Const, Expr, Name
from toolchain.spec.model import Layout, Machine

FLOAT_BYTES = 4
SEQUENCE = 3
"""Axes of a sequence, [samples, rows, numbers]."""


@dataclass(frozen=True)
class Loop:
    """An index, and how many values it has."""

    index: str
    size: int


@dataclass(frozen=True)
class CPacking:
    """loops: over a sample's elements, in the order of the graph's axes, the outermost first. copies: over the places of one. place: in bytes, over
    their indices."""

    loops: tuple[Loop, ...]
    copies: tuple[Loop, ...]
    place: str


def c_packing(machine: Machine, port: Port, stored: StoredTensor, first: int) -> CPacking | None:
    """first: the byte of the region's memory at which the tensor's buffer begins. None for elements that are no bytes with a sign.

    A device that takes several images finds the sample as the first of them.
    """
    layout = next(item for item in machine.layouts if item.name == stored.layout)
    scalar = layout.type or machine.view[stored.view].element.scalar
    if (scalar.bits, scalar.signed) != (8, True):
        return None
    order = [axis for axis in PICTURE_AXES[SEQUENCE] if axis] if len(port.shape) == SEQUENCE else [1, 2, 3]
    loops = tuple(Loop("nchw"[axis], stored.shape[axis]) for axis in (*order, *(axis for axis in (1, 2, 3) if axis not in order)))
    sizes = dict(zip(layout.extents, stored.extents, strict=True))
    copies = tuple(Loop(f"{each.name}_", each.count) for each in layout.copies)
    indices = {loop.index: CValue(loop.index, Interval(0, loop.size - 1), 32) for loop in loops}
    indices |= {each.name: CValue(loop.index, Interval(0, loop.size - 1), 32) for each, loop in zip(layout.copies, copies, strict=True)}
    place = CWriter(lambda e: _leaf(e, sizes, indices, stored.channel), data=True).value(Binary("+", Const(first), _linear(layout, sizes)))
    return CPacking(loops, copies, place.text)


def _linear(layout: Layout, sizes: Mapping[str, int]) -> Expr:
    """The place of an element among the stored ones, the last axis fastest."""
    found: Expr = Const(0)
    for place, extent in zip(layout.map, layout.shape, strict=True):
        found = Binary("+", Binary("*", found, Const(constant(extent, sizes))), place)
    return found


def _leaf(e: Expr, sizes: Mapping[str, int], indices: Mapping[str, CValue], channel: int) -> CValue:
    """Names in a layout: extents, and indices, of which a tensor's channels may begin in the middle of a wider one's."""
    assert isinstance(e, Name)
    if e.id in sizes:
        return c_constant(sizes[e.id])
    found = indices.get(e.id, c_constant(0))
    if e.id != "c" or not channel:
        return found
    shifted = Interval(found.range.low + channel, found.range.high + channel)
    return CValue(f"({C_TYPE[32]})({found.text} + {channel})", shifted, 32)


ROUNDED = {"half_up": "floor(exact + 0.5)", "floor": "floor(exact)", "half_even": "nearbyint(exact)", "half_away": "round(exact)"}
"""A quotient to a whole number, as C has it."""
MOST_VALUE = (1 << 31) - 1
"""Zero points and limits are 32-bit numbers of C."""
RUNTIME = FOLDER / "c_runtime"
HEADER, BUNDLE_SOURCE, DEVICE_SOURCE = "tilewright.h", "tilewright_bundle.c", "tilewright_process.c"
LINKED_SOURCE = "tilewright_linked.c"
"""In place of BUNDLE_SOURCE in a program that has the bundle's members in itself."""


def stand_alone(bundle: Bundle, machines: Mapping[str, Machine], place: str = "", linked: bool = False) -> dict[str, bytes]:
    """The program's files by name: program.c, a file for each region of C code, the library's, and the runtime's. linked: it finds the bundle's
    members in itself, see `toolchain.runtime.linked`.

    Raises UserError E1114 for a region of another kind, an operator that the host computes, or an input that is no float32 tensor.
    """
    writer = written(bundle, machines, place)
    memories = writer.memories()
    used = (HEADER, LINKED_SOURCE if linked else BUNDLE_SOURCE, *((DEVICE_SOURCE,) if any(memory.machine for memory in memories) else ()))
    files = {name: (RUNTIME / name).read_bytes() for name in used}
    files |= region_sources(bundle)
    sources = " ".join(["program.c", *sorted(name for name in files if name.endswith(".c"))])
    manifest = digest(manifest_text(bundle).encode())
    text = render(
        "c99", "program.c.j2", model=in_comment(bundle.manifest.model), sources=sources, manifest=manifest, memories=memories,
        tensors=writer.tensors.values(), steps=writer.steps, states=writer.states(), rounded=ROUNDED[writer.rounding], linked=linked,
    )  # fmt: skip
    return {"program.c": text.encode(), **files}


def in_comment(name: str) -> str:
    """A name of a model or tensor as far as a comment of C, or a text in quotes, may hold it; a bundle from elsewhere may have any."""
    return re.sub(r"[^A-Za-z0-9_.:-]", "_", name)[:80]


def region_sources(bundle: Bundle) -> dict[str, bytes]:
    """Files by name: the C of regions that are C, and the library's that they call."""
    files: dict[str, bytes] = {}
    for region in (region for region in bundle.manifest.regions if region.function):
        files[f"{region.function}.c"] = bundle.members[region.binary]
        files |= bundle.held(region.files)
    return files


def written(bundle: Bundle, machines: Mapping[str, Machine], place: str = "") -> "ProgramWriter":
    """The plan as names of templates. Raises as `stand_alone`."""
    writer = ProgramWriter(bundle, machines, place)
    writer.write()
    return writer


@dataclass(frozen=True)
class CStep:
    """A statement of the program. kind: read, write, quantize, dequantize, copy, fetch, put, get, run; the rest are names of the template.

    checked: of `read`, whether the input becomes integers, so NaN in it is an error."""

    kind: str
    tensor: str = ""
    source: str = ""
    region: str = ""
    size: int = 0
    scale: str = ""
    zero: int = 0
    low: int = 0
    high: int = 0
    loops: tuple[Loop, ...] = ()
    copies: tuple[Loop, ...] = ()
    place: str = ""
    first: int = 0
    function: str = ""
    checked: bool = False


@dataclass(frozen=True)
class CTensor:
    """An array of the program. label: the graph's name, as far as a comment may hold it."""

    name: str
    type: str
    size: int
    label: str


@dataclass(frozen=True)
class _Part:
    """A member of the bundle, and where it stands in a region's memory. digest: its SHA-256 in hex."""

    member: str
    digest: str
    address: int
    bytes: int


@dataclass(frozen=True)
class _Register:
    index: int
    address: int


@dataclass(frozen=True)
class CMemory:
    """The memory of a region, `bytes` of it. function: in C; else `machine` is the device's, and `program` the name and size of its member."""

    name: str
    bytes: int
    constants: tuple[_Part, ...]
    function: str
    machine: str
    program: _Part
    registers: tuple[_Register, ...]


@dataclass(frozen=True)
class CState:
    """A state of the model. taken, made: the arrays that a step reads and leaves. bytes: of each. start: the member with the numbers before the first
    step, None for zeros."""

    taken: str
    made: str
    bytes: int
    start: _Part | None


@dataclass
class ProgramWriter:
    """Walks through the plan and collects the template's names. hint: of refusals. tensors: by the graph's names."""

    bundle: Bundle
    machines: Mapping[str, Machine]
    place: str
    hint: str = "a stand-alone program has regions and conversions at their borders; `tilewright extract` makes a model of a part"
    tensors: dict[str, CTensor] = field(default_factory=dict[str, CTensor])
    steps: list[CStep] = field(default_factory=list[CStep])
    rounding: str = "half_up"

    def write(self) -> None:
        manifest = self.bundle.manifest
        for run in manifest.regions:
            self.check_bytes(run)
        integers = integer_inputs(manifest.inputs, host_protos(self.bundle, self.place))
        for entry in manifest.inputs:
            made = self.tensor(entry.name, "float", self.size(entry))
            if entry in manifest.step_inputs:
                self.steps.append(CStep("read", made.name, made.label, size=made.size, checked=entry.name in integers))
        for step in manifest.plan:
            run = step_of(manifest, step)
            if isinstance(run, RegionProgram):
                self.region(run)
            else:
                self.host(run)
        for entry in manifest.outputs:
            if entry.name not in self.tensors:
                raise self.refused(f"the output '{entry.name}' is a constant")
            if entry in manifest.step_outputs:
                self.steps.append(CStep("write", self.tensors[entry.name].name, size=self.size(entry)))

    def refused(self, text: str) -> UserError:
        return fail("E1114", text, hint=self.hint, place=self.place)

    def check_bytes(self, run: RegionProgram) -> None:
        """Raises UserError E1114 for a machine whose tensors are halves."""
        if self.machines[run.target].floats:
            raise self.refused(f"region '{run.name}' on {run.target} has tensors of float16, which plain C has no type for")

    def size(self, entry: Interface) -> int:
        """Elements of one sample."""
        if entry.dtype != "float32" or entry.shape is None or min(entry.shape, default=1) < 1:
            raise self.refused(f"'{entry.name}' is no float32 tensor of a known size")
        return math.prod(entry.shape)

    def tensor(self, name: str, kind: str, size: int) -> CTensor:
        self.tensors[name] = CTensor(f"t{len(self.tensors)}", kind, size, in_comment(name))
        return self.tensors[name]

    def array(self, name: str) -> CTensor:
        """The array of a tensor that was made before. Raises UserError E1107 where a damaged host segment has not made it."""
        if name not in self.tensors:
            raise self.damaged(f"'{name[:80]}' is read before it is made")
        return self.tensors[name]

    def damaged(self, text: str) -> UserError:
        return fail("E1107", f"a host segment of the bundle is damaged: {text}", hint="build the model again", place=self.place)

    def host(self, segment: HostSegment) -> None:
        """Conversions; anything else is refused. Raises UserError E1107 for one that is damaged."""
        for node in host_proto(self.bundle, segment, self.place).graph.node:
            kind = kind_of(node)
            if kind not in BOUNDARY or len(node.input) != 1 or len(node.output) != 1:
                raise self.refused(f"node '{node.name[:80]}' ({node.op_type[:80]}) is computed by the host")
            given = {each.name: each.i for each in node.attribute if each.type == onnx.AttributeProto.INT}
            scale = next((each.f for each in node.attribute if each.name == "scale" and each.type == onnx.AttributeProto.FLOAT), 0.0)
            if not 0 < scale < math.inf or any(abs(value) > MOST_VALUE for value in given.values()):
                raise self.damaged(f"node '{node.name[:80]}' has no proper scale, zero point or limits")
            source, narrow = self.array(node.input[0]), kind == "quantize"
            made = self.tensor(node.output[0], "int8_t" if narrow else "float", source.size)
            zero = given.get("zero_y" if narrow else "zero_x", 0)
            self.steps.append(CStep(kind, made.name, source.name, "", made.size, f"{scale.hex()}f", zero, given.get("low", 0), given.get("high", 0)))

    def region(self, run: RegionProgram) -> None:
        machine = self.machines[run.target]
        if machine.calls_operators:
            self.floats(run)
            return
        if run.whole:
            raise self.refused(f"region '{run.name}' is a graph for an engine, {run.target}")
        if run.map.rooms > 1:
            raise self.refused(f"region '{run.name}' takes {run.images} images a run, and a program takes one: build without 'images='")
        if run.batch > 1:
            raise self.refused(f"region '{run.name}' takes {run.batch} images of a sample")
        self.rounding = machine.quantisation.rounding if machine.quantisation else self.rounding
        for port in run.inputs:
            stored = run.map.tensors[port.tensor]
            if stored.extents[self.layout_axis(machine, stored.layout)] == stored.shape.channels:
                self.steps.append(CStep("clear", region=run.name, first=run.map.address_of(port.tensor), size=stored.bytes))
            self.steps.append(self.copy("copy", machine, run, port, self.array(port.name)))
        self.steps.append(CStep("run", region=run.name, function=run.function))
        for port in run.outputs:
            self.steps.append(self.copy("fetch", machine, run, port, self.tensor(port.name, "int8_t", math.prod(port.shape))))

    def floats(self, run: RegionProgram) -> None:
        """A region whose tensors stand in memory as they are."""
        for port in run.inputs:
            first, size = self.span(run, port)
            self.steps.append(CStep("put", self.array(port.name).name, region=run.name, first=first, size=size))
        self.steps.append(CStep("run", region=run.name, function=run.function))
        for port in run.outputs:
            first, size = self.span(run, port)
            made = self.tensor(port.name, "float", math.prod(port.shape))
            self.steps.append(CStep("get", made.name, region=run.name, first=first, size=size))

    def span(self, run: RegionProgram, port: Port) -> tuple[int, int]:
        """The first byte of a tensor in the region's memory, and how many it has."""
        return run.map.address_of(port.tensor), run.map.tensors[port.tensor].bytes

    def layout_axis(self, machine: Machine, layout: str) -> int:
        """The axis of channels among a layout's."""
        return next(item for item in machine.layouts if item.name == layout).domain.index("c")

    def copy(self, kind: str, machine: Machine, run: RegionProgram, port: Port, tensor: CTensor) -> CStep:
        """Elements in the graph's order to or from the region's memory."""
        stored = run.map.tensors[port.tensor]
        found = c_packing(machine, port, stored, run.map.address_of(port.tensor))
        if found is None:
            raise self.refused(f"'{port.name}' is no tensor of bytes in region '{run.name}'")
        return CStep(kind, tensor.name, region=run.name, loops=found.loops, copies=found.copies, place=found.place)

    def states(self) -> list[CState]:
        """The states of the model, in floating point: the integers that go round in a device's memory come out of the conversions as they were."""
        return [self.state(state) for state in self.bundle.manifest.states]

    def state(self, state: State) -> CState:
        taken, made = self.array(state.input), self.array(state.output)
        return CState(taken.name, made.name, FLOAT_BYTES * made.size, self.part(state.start, 0) if state.start else None)

    def memories(self) -> list[CMemory]:
        """The memory of each region, in their order."""
        return [self.memory(region) for region in self.bundle.manifest.regions]

    def memory(self, region: RegionProgram) -> CMemory:
        segments = {name: segment for name, segment in region.map.segments.items() if not segment.memory}
        constants = tuple(self.part(member, segments[name].address) for name, member in region.constants.items())
        registers = tuple(_Register(segment.register, segment.address) for segment in segments.values() if segment.register >= 0)
        machine, program = "" if region.function else region.target, self.part(region.binary, 0)
        return CMemory(region.name, region.map.bytes, constants, region.function, machine, program, registers)

    def part(self, member: str, address: int) -> _Part:
        data = self.bundle.members[member]
        return _Part(member, digest(data), address, len(data))
