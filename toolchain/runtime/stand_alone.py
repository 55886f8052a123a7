"""A bundle as a program in C: regions of C code, and conversions at their borders; nothing of it needs Python or ONNX Runtime."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_ir as ir

from toolchain.abi.dram_map import host_axes, packing_of
from toolchain.codegen.templates import render
from toolchain.graph.integers.calls import BOUNDARY
from toolchain.graph.integers.functions import kind_of
from toolchain.operations.operation import PICTURE_AXES
from toolchain.runtime.contents import Bundle, HostSegment, Interface, Port, RegionProgram
from toolchain.runtime.plan_checks import step_of
from toolchain.spec.errors import UserError, fail
from toolchain.spec.model import Machine

CONSTANTS = "constants.bin"
ROUNDED = {"half_up": "floor({} + 0.5)", "floor": "floor({})", "half_even": "nearbyint({})", "half_away": "round({})"}
"""A quotient to a whole number, as C has it."""
QUOTIENT = "(double)x[k] / (double)scale"
SEQUENCE, LOOPS = 3, 3


def stand_alone(bundle: Bundle, machines: Mapping[str, Machine], place: str = "") -> dict[str, bytes]:
    """The program's files by name: program.c, a file for each region, the library's, and the constants.

    Raises UserError E1114 for a region of other code, an operator that the host computes, or an input that is no float32 tensor.
    """
    writer = _Writer(bundle, machines, place)
    writer.write()
    files = {CONSTANTS: b"".join(part.data for memory in writer.memories() for part in memory.constants)}
    for region in bundle.manifest.regions:
        files[f"{region.function}.c"] = bundle.members[region.binary]
        files |= {name: bundle.members[member] for name, member in region.files.items()}
    sources = " ".join(["program.c", *sorted(name for name in files if name.endswith(".c"))])
    return {"program.c": writer.text(sources).encode(), **files}


@dataclass(frozen=True)
class _Step:
    """A statement of the program. kind: read, write, quantize, dequantize, copy or call; the rest is what the template names of it."""

    kind: str
    tensor: str = ""
    source: str = ""
    region: str = ""
    size: int = 0
    scale: str = ""
    zero: int = 0
    low: int = 0
    high: int = 0
    place: int = 0
    sizes: str = ""
    strides: str = ""
    out: int = 0


@dataclass(frozen=True)
class _Tensor:
    """An array of the program. label: the graph's name, as far as a comment may hold it."""

    name: str
    type: str
    size: int
    label: str


@dataclass(frozen=True)
class _Part:
    """Constant bytes of a region, and where they stand in its memory."""

    address: int
    data: bytes

    @property
    def bytes(self) -> int:
        return len(self.data)


@dataclass(frozen=True)
class _Memory:
    """The memory of a region's function. bytes: of all of it."""

    name: str
    bytes: int
    constants: tuple[_Part, ...]


@dataclass
class _Writer:
    """Walks through the plan; what the template needs fills on the way. names: of tensors in C, by the graph's."""

    bundle: Bundle
    machines: Mapping[str, Machine]
    place: str
    tensors: dict[str, _Tensor] = field(default_factory=dict[str, _Tensor])
    steps: list[_Step] = field(default_factory=list[_Step])
    rounding: str = "half_up"

    def write(self) -> None:
        manifest = self.bundle.manifest
        for entry in manifest.inputs:
            made = self.tensor(entry.name, "float", self.size(entry))
            self.steps.append(_Step("read", made.name, size=made.size))
        for step in manifest.plan:
            run = step_of(manifest, step)
            if isinstance(run, RegionProgram):
                self.region(run)
            else:
                self.host(run)
        for entry in manifest.outputs:
            if entry.name not in self.tensors:
                raise self.refused(f"the output '{entry.name}' is an input")
            self.steps.append(_Step("write", self.tensors[entry.name].name, size=self.size(entry)))

    def refused(self, text: str) -> UserError:
        hint = "a stand-alone program has regions in C and conversions at their borders; `tilewright extract` makes a model of a part"
        return fail("E1114", text, hint=hint, place=self.place)

    def size(self, entry: Interface) -> int:
        """Elements of one sample."""
        if entry.dtype != "float32" or entry.shape is None or min(entry.shape, default=1) < 1:
            raise self.refused(f"'{entry.name}' is no float32 tensor of a known size")
        return math.prod(entry.shape)

    def tensor(self, name: str, kind: str, size: int) -> _Tensor:
        self.tensors[name] = _Tensor(f"t{len(self.tensors)}", kind, size, re.sub(r"[^A-Za-z0-9_.:-]", "_", name)[:80])
        return self.tensors[name]

    def host(self, segment: HostSegment) -> None:
        """Conversions; anything else is refused."""
        for node in ir.serde.deserialize_model(onnx.load_from_string(self.bundle.members[segment.model])).graph:
            kind, (first, *others) = kind_of(node), node.inputs
            if kind not in BOUNDARY or others or first is None:
                raise self.refused(f"node '{node.name}' ({node.op_type}) is computed by the host")
            given = {name: attribute.value for name, attribute in node.attributes.items()}
            source, narrow = self.tensors[first.name or ""], kind == "quantize"
            made = self.tensor(node.outputs[0].name or "", "int8_t" if narrow else "float", source.size)
            zero, scale = int(given.get("zero_y" if narrow else "zero_x", 0)), f"{float(given['scale']).hex()}f"
            self.steps.append(_Step(kind, made.name, source.name, "", made.size, scale, zero, int(given.get("low", 0)), int(given.get("high", 0))))

    def region(self, run: RegionProgram) -> None:
        machine = self.machines[run.target]
        if not run.function:
            raise self.refused(f"region '{run.name}' is no C but code of {run.target}")
        self.rounding = machine.quantisation.rounding if machine.quantisation else self.rounding
        self.steps += [self.copy(machine, run, port, self.tensors[port.name], out=0) for port in run.inputs]
        self.steps.append(_Step("call", region=run.function))
        for port in run.outputs:
            self.steps.append(self.copy(machine, run, port, self.tensor(port.name, "int8_t", math.prod(port.shape)), out=1))

    def copy(self, machine: Machine, run: RegionProgram, port: Port, tensor: _Tensor, out: int) -> _Step:
        """The tensor's elements in the graph's order: a start and a stride for each axis."""
        stored = run.map.tensors[port.tensor]
        found = packing_of(machine, stored)
        places = np.ravel_multi_index(np.broadcast_arrays(*found.index), found.shape).transpose(np.argsort(host_axes(found.layout)))
        places = places[..., 0].transpose(PICTURE_AXES[SEQUENCE]) if len(port.shape) == SEQUENCE else places.reshape(port.shape)
        sizes, strides = affine(places[0])
        where = run.map.segments[stored.segment].address + stored.offset + int(places.flat[0])
        return _Step("copy", tensor.name, region=run.function, place=where, sizes=sizes, strides=strides, out=out)

    def memories(self) -> list[_Memory]:
        """Of the regions, in their order."""
        return [self.memory(region) for region in self.bundle.manifest.regions]

    def memory(self, region: RegionProgram) -> _Memory:
        parts = tuple(_Part(region.map.segments[name].address, self.bundle.members[member]) for name, member in region.constants.items())
        return _Memory(region.function, max(segment.address + segment.bytes for segment in region.map.segments.values()), parts)

    def text(self, sources: str) -> str:
        rounded = ROUNDED[self.rounding].format(QUOTIENT)
        tensors, regions = self.tensors.values(), self.memories()
        model = self.bundle.manifest.model
        return render("c99", "program.c.j2", model=model, sources=sources, regions=regions, tensors=tensors, steps=self.steps, rounded=rounded)


def affine(offsets: "np.typing.NDArray[np.int64]") -> tuple[str, str]:
    """Sizes and strides of three nested loops, as C lists them. Raises ValueError where elements do not stand at regular places."""
    offsets = offsets.reshape((1,) * (LOOPS - offsets.ndim) + offsets.shape)
    strides = [int(np.diff(offsets, axis=axis).flat[0]) if size > 1 else 0 for axis, size in enumerate(offsets.shape)]
    rebuilt = offsets.flat[0] + sum(stride * index for stride, index in zip(strides, np.indices(offsets.shape), strict=True))
    if not np.array_equal(rebuilt, offsets):
        raise ValueError("its elements do not stand at regular places")
    return ", ".join(map(str, offsets.shape)), ", ".join(map(str, strides))
