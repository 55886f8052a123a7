"""A bundle for ONNX Runtime: a model whose regions are EPContext nodes, its form for graphs that an execution provider has compiled, and the
provider that runs them, a plug-in in C.

The host's operators stand there as they are, so that any ONNX Runtime with a provider for these nodes runs the model.
Source: ONNX Runtime, EP Context Design, https://onnxruntime.ai/docs/execution-providers/EP-Context-Design.html.

Source of the interface: ONNX Runtime, Plugin Execution Provider Libraries, https://onnxruntime.ai/docs/execution-providers/plugin-ep-libraries/.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx
from onnx import helper

from toolchain.codegen import render
from toolchain.graph.importing.versions import IR_VERSION, OPSET
from toolchain.runtime.bundle import digest, manifest_text
from toolchain.runtime.contents import Bundle, HostSegment, Port, RegionProgram, step_of
from toolchain.runtime.executor import host_protos, with_constants
from toolchain.runtime.stand_alone import (
    BUNDLE_SOURCE,
    DEVICE_SOURCE,
    HEADER,
    ROUNDED,
    RUNTIME,
    CMemory,
    CStep,
    CTensor,
    ProgramWriter,
    in_comment,
    region_sources,
)
from toolchain.runtime.transfers import integer_inputs
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine
from toolchain.spec.packages import __version__

DOMAIN, OPERATOR, SOURCE = "com.microsoft", "EPContext", "tilewright"
MOST = (1 << 31) - 1
"""Bytes of an ONNX file, which is one protocol buffer."""

MOST_AXES = 8
"""The axes of a tensor at a region's border, in tilewright_provider.h, at most."""
SOURCES = ("tilewright_provider.h", "tilewright_provider.c")
MAIN = "provider.c"
NAN_CODE = "E1134"
HINT = "`toolchain.load` in Python runs every bundle"


def ep_context_model(bundle: Bundle, context: str | bytes, place: str = "") -> onnx.ModelProto:
    """context: the bundle's file, as its path from the model's folder or as its bytes, which the first region's node holds for all.

    A run with NaN in an input that becomes integers is an error of the engine that runs the model, as it is one of the runtime.

    Raises UserError E1107 for a damaged host segment, E1118 for a model that would be too large or has no region.
    """
    made = _Model(bundle, place)
    regions, protos = 0, host_protos(bundle, place)
    integers, hosts = integer_inputs(bundle.manifest.inputs, protos), iter(protos)
    for step in bundle.manifest.plan:
        run = step_of(bundle.manifest, step)
        if isinstance(run, HostSegment):
            made.add_host(next(hosts))
        else:
            made.nodes.append(_node(run, context, digest(manifest_text(bundle).encode()), main=not regions))
            regions += 1
    if not regions:
        raise fail("E1118", "nothing of the model runs on a machine, so no node of it is compiled")
    for name in sorted(integers):
        made.guard(name)
    model = made.proto()
    if (size := model.ByteSize()) > MOST:
        raise fail("E1118", f"the ONNX model would have {size} bytes; at most {MOST} are possible", hint="without --embed it is smaller")
    return model


def _node(region: RegionProgram, context: str | bytes, manifest: str, main: bool) -> onnx.NodeProto:
    """manifest: the SHA-256 of the bundle's, by which a provider knows its own nodes. main: whether the node says where the bundle is; others find
    theirs in it by the name of their partition."""
    given = {"ep_cache_context": context, "embed_mode": int(isinstance(context, bytes))} if main else {}
    names = ([port.name for port in side] for side in (region.inputs, region.outputs))
    return helper.make_node(
        OPERATOR, *names, name=region.name, domain=DOMAIN, main_context=int(main), partition_name=region.name, source=SOURCE,
        ep_sdk_version=__version__, notes=manifest, hardware_architecture=region.target, **given,
    )  # fmt: skip


@dataclass
class _Model:
    """Nodes, constants and functions that host segments bring together, each once."""

    bundle: Bundle
    place: str
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    constants: dict[str, onnx.TensorProto] = field(default_factory=dict[str, onnx.TensorProto])
    functions: dict[tuple[str, str], onnx.FunctionProto] = field(default_factory=dict[tuple[str, str], onnx.FunctionProto])
    opsets: dict[str, int] = field(default_factory=lambda: {"": OPSET, DOMAIN: 1})
    ends: dict[str, onnx.ValueInfoProto] = field(default_factory=dict[str, onnx.ValueInfoProto])
    version: int = IR_VERSION

    def add_host(self, segment: onnx.ModelProto) -> None:
        proto = with_constants(segment, self.bundle.members, self.place)
        self.version = max(self.version, proto.ir_version)
        self.nodes += proto.graph.node
        self.constants |= {tensor.name: tensor for tensor in proto.graph.initializer}
        self.functions |= {(function.domain, function.name): function for function in proto.functions}
        self.opsets |= {entry.domain: entry.version for entry in proto.opset_import}
        self.ends |= {entry.name: entry for entry in (*proto.graph.input, *proto.graph.output)}

    def guard(self, name: str) -> None:
        """Has the readers of an input read a copy of it that cannot be made where it holds NaN: an index outside a list of one is an error of every
        engine, and says how many there are."""
        known = {tensor for node in self.nodes for tensor in (*node.input, *node.output)} | self.constants.keys() | self.ends.keys()
        stem = f"{name}.numbers"
        while any(tensor.startswith(stem) for tensor in known):
            stem += "_"
        for node in self.nodes:
            node.input[:] = [stem if tensor == name else tensor for tensor in node.input]
        one, missing, ones, count, sound = (f"{stem}.{each}" for each in ("one", "missing", "ones", "count", "sound"))
        self.constants[one] = helper.make_tensor(one, self.ends[name].type.tensor_type.elem_type, [1], [1.0])
        told = f"{NAN_CODE}: the input '{name}' holds NaN, and becomes integers, which have no such number"
        self.nodes[:0] = [
            helper.make_node("IsNaN", [name], [missing]),
            helper.make_node("Cast", [missing], [ones], to=onnx.TensorProto.INT64),
            helper.make_node("ReduceSum", [ones], [count], keepdims=0),
            helper.make_node("Gather", [one, count], [sound], told),
            helper.make_node("Mul", [name, sound], [stem]),
        ]

    def proto(self) -> onnx.ModelProto:
        manifest = self.bundle.manifest
        types = self._stored_types()
        ports = {port.name: _info(port, types[region.target]) for region in manifest.regions for port in _border(region)} | self.ends
        inputs, outputs = ([ports[entry.name] for entry in side] for side in (manifest.inputs, manifest.outputs))
        made = [ports[port.name] for region in manifest.regions for port in region.outputs]
        inner = [entry for entry in made if entry.name not in {output.name for output in manifest.outputs}]
        graph = helper.make_graph(self.nodes, manifest.model, inputs, outputs, [*self.constants.values()], value_info=inner)
        opsets = [helper.make_opsetid(domain, version) for domain, version in sorted(self.opsets.items())]
        functions = [*self.functions.values()]
        return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=self.version, producer_name=SOURCE)

    def _stored_types(self) -> dict[str, int]:
        """ONNX's types by machine: floating point for those that run graphs, else the integers that the host gives their regions or takes."""
        regions = self.bundle.manifest.regions
        types = {region.target: onnx.TensorProto.FLOAT if region.whole else onnx.TensorProto.INT8 for region in regions}
        ends = [(region.target, self.ends.get(port.name)) for region in regions if not region.whole for port in _border(region)]
        return types | {target: entry.type.tensor_type.elem_type for target, entry in ends if entry is not None}


def _border(region: RegionProgram) -> tuple[Port, ...]:
    return (*region.inputs, *region.outputs)


def _info(port: Port, kind: int) -> onnx.ValueInfoProto:
    """A tensor at a region's border. kind: ONNX's number of its type; ONNX Runtime infers no types of compiled nodes."""
    return helper.make_tensor_value_info(port.name, kind, port.shape)


@dataclass(frozen=True)
class _Border:
    """A tensor at a region's border. bytes: of one sample."""

    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class _Region:
    """inputs: how many of the ports, and of the tensors, are inputs; they come first."""

    memory: CMemory
    steps: tuple[CStep, ...]
    tensors: tuple[CTensor, ...]
    ports: tuple[_Border, ...]
    inputs: int


@dataclass(frozen=True)
class Provider:
    """name: its name in ONNX Runtime. files: by name; sources: those to compile, with the one of the regions first."""

    name: str
    files: Mapping[str, bytes]
    sources: tuple[str, ...]


def provider(bundle: Bundle, machines: Mapping[str, Machine], place: str = "") -> Provider:
    """The same bytes for the same bundle. place: for messages.

    Raises UserError E1114 for a region that no program in C can run: a graph, one of several images a run, or no bytes with a sign at its border.
    """
    if not bundle.manifest.regions:
        raise ProgramWriter(bundle, machines, place, HINT).refused("nothing of the model runs on a machine")
    regions = [_region(bundle, machines, region, place) for region in bundle.manifest.regions]
    used = (HEADER, BUNDLE_SOURCE, *SOURCES, *((DEVICE_SOURCE,) if any(region.memory.machine for region in regions) else ()))
    files = {name: (RUNTIME / name).read_bytes() for name in used} | region_sources(bundle)
    sources = (MAIN, *sorted(name for name in files if name.endswith(".c")))
    manifest = digest(manifest_text(bundle).encode())
    name = f"tilewright_{manifest[:12]}"
    text = render(
        "c99", "provider.c.j2", model=in_comment(bundle.manifest.model), name=name, version=__version__, manifest=manifest, regions=regions,
        sources=" ".join(sources), rounded=ROUNDED["half_up"],
    )  # fmt: skip
    return Provider(name, files | {MAIN: text.encode()}, sources)


def _region(bundle: Bundle, machines: Mapping[str, Machine], run: RegionProgram, place: str) -> _Region:
    """The region's steps between its border, given as arrays, and its memory."""
    writer = ProgramWriter(bundle, machines, place, HINT)
    writer.check_bytes(run)
    real = machines[run.target].calls_operators
    for port in run.inputs:
        writer.tensor(port.name, "float" if real else "int8_t", _elements(writer, run, port))
    writer.region(run)
    ports = (*run.inputs, *run.outputs)
    tensors = tuple(writer.tensors[port.name] for port in ports)
    wide = 4 if real else 1
    borders = tuple(_Border(port.shape, wide * _elements(writer, run, port)) for port in ports)
    return _Region(writer.memory(run), tuple(writer.steps), tensors, borders, len(run.inputs))


def _elements(writer: ProgramWriter, run: RegionProgram, port: Port) -> int:
    """Elements of one sample."""
    if len(port.shape) > MOST_AXES or min(port.shape, default=1) < 1:
        raise writer.refused(f"'{port.name}' of region '{run.name}' has more than {MOST_AXES} axes, or one without a size")
    return math.prod(port.shape)
