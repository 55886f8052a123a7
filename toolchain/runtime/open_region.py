"""Engines of a bundle's regions, by each machine's code generator: a device on packed bytes, compiled C on float32, or a graph in ONNX Runtime."""

import ctypes
import json
import math
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from toolchain.abi.dram_map import DramMap
from toolchain.codegen.graphs import tool_path
from toolchain.graph.session import Session, open_session, run_session
from toolchain.isa.decode import decode
from toolchain.isa.program_file import read_container
from toolchain.runtime.contents import Bundle, Port, RegionProgram
from toolchain.runtime.device import ByteRange, Bytes, CodeDevice, Device, Image, LoadedProgram, Ran, check_map, run_in
from toolchain.runtime.process_device import ProcessDevice
from toolchain.runtime.timing import Shares
from toolchain.runtime.transfers import Value, array_of, buffer_of, join_images, pack, split_images, unpack
from toolchain.spec.arrays import Array
from toolchain.spec.compile import load_library
from toolchain.spec.errors import UserError, fail
from toolchain.spec.model import Machine
from toolchain.timing.simulate import time_state

Tensors = dict[str, Value]


class RegionEngine(Protocol):
    """A loaded region: made once, run any number of times, by any number of threads."""

    def run(self, samples: Sequence[Mapping[str, Value]], kept: Collection[str] = ()) -> tuple[list[Tensors], Shares]:
        """The region's results for each sample, by the graph's names, and the seconds that they took.

        samples: tensors by the graph's names, the region's inputs among them. kept: results that may stay as the device stores them.
        Raises UserError E07xx where the region fails.
        """
        ...


@dataclass(frozen=True)
class PackedEngine:
    """Runs a program that a device has loaded, on stored bytes that the machine's layouts describe."""

    machine: Machine
    region: RegionProgram
    program: LoadedProgram

    def run(self, samples: Sequence[Mapping[str, Value]], kept: Collection[str] = ()) -> tuple[list[Tensors], Shares]:
        """Raises UserError E1104 for a tensor other than the region expects, E07xx where the device fails."""
        images, made, shares = split_images(self.region, samples), list[Tensors](), Shares()
        for first in range(0, len(images), self.region.images):
            found, spent = self._run(images[first : first + self.region.images], kept)
            made += found
            shares += spent
        return join_images(self.region, made), shares

    def _run(self, images: Sequence[Tensors], kept: Collection[str]) -> tuple[list[Tensors], Shares]:
        """One run of the program; its results image by image."""
        start = perf_counter()
        writes = pack(self.machine, self.region, images)
        rooms = range(-(-len(images) * self.region.map.rooms // self.region.images))
        reads = list(dict.fromkeys(buffer_of(self.region.map, port.tensor, room) for port in self.region.outputs for room in rooms))
        packed = perf_counter()
        ran = self.program.run(writes, reads)
        unpacking = perf_counter()
        found = unpack(self.machine, self.region, dict(zip(reads, ran.data, strict=True)), len(images), kept)
        return found, Shares(0.0, packed - start + ran.transfer + perf_counter() - unpacking, ran.launch, ran.execute)


DTYPE = np.dtype("<f4")


@dataclass(frozen=True)
class CodeEngine:
    """Runs code that a device has loaded, one sample a run."""

    region: RegionProgram
    program: LoadedProgram

    def run(self, samples: Sequence[Mapping[str, Value]], kept: Collection[str] = ()) -> tuple[list[Tensors], Shares]:
        """Raises UserError E0713 where the device fails."""
        del kept  # tensors have no other form
        made, shares = list[Tensors](), Shares()
        reads = [_place(self.region, port) for port in self.region.outputs]
        for sample in samples:
            writes = {_place(self.region, port): _bytes(array_of(sample[port.name])) for port in self.region.inputs}
            ran = self.program.run(writes, reads)
            arrays = [data.view(DTYPE).reshape(port.shape) for port, data in zip(self.region.outputs, ran.data, strict=True)]
            made.append({port.name: array for port, array in zip(self.region.outputs, arrays, strict=True)})
            shares += Shares(0.0, ran.transfer, ran.launch, ran.execute)
        return made, shares


def check_places(region: RegionProgram, place: str) -> None:
    """Whether each tensor at the border has room of its own size in its segment. Raises UserError E1104 where a bundle says otherwise."""
    for port in (*region.inputs, *region.outputs):
        stored = region.map.tensors.get(port.tensor)
        segment = region.map.segments.get(stored.segment) if stored else None
        size = math.prod(port.shape) * DTYPE.itemsize
        inside = stored is not None and segment is not None and segment.address >= 0 and 0 <= stored.offset <= segment.bytes - size
        if not inside or stored is None or stored.bytes != size:
            raise fail("E1104", f"the tensor '{port.tensor}' of region '{region.name}' has no place", hint="build the model again", place=place)


def _place(region: RegionProgram, port: Port) -> ByteRange:
    stored = region.map.tensors[port.tensor]
    return ByteRange(stored.segment, stored.offset, stored.bytes)


def _bytes(array: Array) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array, DTYPE).reshape(-1).view(np.uint8)


FORMAT, VERSION = "tilewright-graph", 1
IR_VERSION = 10


@dataclass(frozen=True)
class OnnxEngine:
    """A built engine. Any number of threads may run it."""

    region: RegionProgram
    session: Session

    def run(self, samples: Sequence[Mapping[str, Value]], kept: Collection[str] = ()) -> tuple[list[Tensors], Shares]:
        """Raises UserError E0910 where ONNX Runtime stops."""
        del kept  # tensors have no other form
        start, made = perf_counter(), list[Tensors]()
        for sample in samples:
            given = {port.tensor: array_of(sample[port.name]) for port in self.region.inputs}
            found = run_session(self.session, given, [port.tensor for port in self.region.outputs])
            made.append({port.name: found[port.tensor] for port in self.region.outputs})
        return made, Shares(execute=perf_counter() - start)


def build_engine(region: RegionProgram, text: bytes, constants: bytes, place: str, optimise: bool = True) -> OnnxEngine:
    """text: the graph in JSON. constants: the bytes of its segment. optimise: whether ONNX Runtime may rewrite the graph.

    Raises UserError E1115 for a graph that is damaged, E0910 where ONNX Runtime refuses it.
    """
    try:
        model = graph_model(json.loads(text), constants)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise _damaged(region, str(error), place) from None
    ports = ([entry.name for entry in model.graph.input], [entry.name for entry in model.graph.output])
    if ports != ([port.tensor for port in region.inputs], [port.tensor for port in region.outputs]):
        raise _damaged(region, "its inputs and outputs are not the region's", place)
    return OnnxEngine(region, open_session(model.SerializeToString(), optimise, place=place))


def engine_of(bundle: Bundle, region: RegionProgram, place: str, optimise: bool = True) -> OnnxEngine:
    """The engine of a region in a bundle. Raises UserError as `build_engine` does."""
    constants = bundle.members[region.constants["constants"]] if region.constants else b""
    return build_engine(region, bundle.members[region.binary], constants, place, optimise)


def _damaged(region: RegionProgram, text: str, place: str) -> UserError:
    return fail("E1115", f"the graph of region '{region.name[:80]}' is damaged: {text[:120]}", hint="build the model again", place=place)


def graph_model(held: Any, constants: bytes) -> onnx.ModelProto:
    """The graph as an ONNX model. Raises KeyError, TypeError, ValueError or AttributeError for anything that is no such graph."""
    if held["format"] != FORMAT or held["version"] != VERSION:
        raise ValueError(f"it is not {FORMAT} {VERSION}")
    inputs, outputs = ([_entry(entry) for entry in held[side]] for side in ("inputs", "outputs"))
    weights = [numpy_helper.from_array(_constant(entry, constants), entry["name"]) for entry in held["constants"]]
    nodes = [_node(entry) for entry in held["nodes"]]
    graph = helper.make_graph(nodes, str(held["name"]), inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", int(held["opset"]))], ir_version=IR_VERSION)


def _entry(entry: Any) -> onnx.ValueInfoProto:
    """An input or output."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(entry["dtype"]))
    return helper.make_tensor_value_info(str(entry["name"]), kind, [int(size) for size in entry["shape"]])


def _constant(entry: Any, constants: bytes) -> Array:
    shape, dtype, offset = tuple(int(size) for size in entry["shape"]), np.dtype(entry["dtype"]), int(entry["offset"])
    if dtype.hasobject or offset < 0 or min(shape, default=0) < 0:
        raise ValueError(f"constant '{entry['name']}' cannot be")
    count = int(np.prod(shape, dtype=object))
    if offset + count * dtype.itemsize > len(constants):
        raise ValueError(f"constant '{entry['name']}' goes past its segment")
    return np.frombuffer(constants, dtype, count, offset).reshape(shape)


def _node(entry: Any) -> onnx.NodeProto:
    given = {name: _value(kind) for name, kind in entry["attributes"].items()}
    names = [[str(name) for name in entry[side]] for side in ("inputs", "outputs")]
    return helper.make_node(str(entry["operator"]), *names, name=str(entry["name"]), **given)


def _value(held: Any) -> Any:
    """The one value of `{TYPE: VALUE}`."""
    ((kind, value),) = held.items()
    many, single = kind.endswith("s"), {"int": int, "float": float, "string": str}[kind.removesuffix("s")]
    return [single(each) for each in value] if many else single(value)


def region_image(bundle: Bundle, region: RegionProgram, machine: Machine, place: str = "") -> Image:
    """The program of a region as a device loads it. Raises UserError E032x and E03xx for a program that is damaged or not the machine's."""
    streams = read_container(machine, bundle.members[region.binary], f"{place} {region.binary}")
    return Image(region.name, decode(machine, streams, f"{place} {region.binary}"), region.map, bundle.held(region.constants))


FLAGS = ("-std=c99", "-mtune=generic", "-funroll-loops", "-Wall", "-Wextra", "-Werror", "-pedantic")
ALIGN = 64
"""Bytes; the block of memory starts on a multiple of it."""


@dataclass(frozen=True)
class CompiledCalls:
    """A function and its memory, constants in place."""

    map: DramMap
    function: Callable[[ctypes.c_void_p], None]
    memory: Bytes
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, writes: Mapping[ByteRange, Bytes], reads: Sequence[ByteRange]) -> Ran:
        """As a loaded program's."""
        with self._lock:
            return run_in(self.memory, self.map, writes, reads, lambda: self.function(ctypes.c_void_p(self.memory.ctypes.data)))


def compile_c(
    machine: Machine, name: str, held: DramMap, function: str, source: bytes, files: Mapping[str, bytes], constants: Mapping[str, bytes]
) -> CompiledCalls:
    """name: of the region, `function` the one to call. files: that the source is compiled with, by name. constants: by segment.

    Raises UserError E0711 without a C compiler, E0710 where it refuses the source, E1104 for a map that does not fit the machine, or a function
    that is not there.
    """
    check_map(name, machine, held, constants)
    library = load_library("region", source.decode(), FLAGS, tuple((name, data.decode()) for name, data in sorted(files.items())))
    if library is None:
        raise fail("E0711", "there is no C compiler", hint="install gcc or clang, or set TILEWRIGHT_CC")
    called = getattr(library, function, None)
    if called is None:
        raise fail("E1104", f"the C of region '{name}' has no function '{function[:80]}'", hint="build the model again")
    called.restype = None
    memory = _block(held.bytes)
    for segment, data in constants.items():
        first = held.segments[segment].address
        memory[first : first + len(data)] = np.frombuffer(data, np.uint8)
    return CompiledCalls(held, called, memory)


def _block(size: int) -> Bytes:
    room = np.zeros(size + ALIGN, np.uint8)
    first = -room.ctypes.data % ALIGN
    return room[first : first + size]


@dataclass(frozen=True)
class Stored:
    """A region in a bundle. place: of the bundle, as messages print it. native: whether C that it brings may be compiled and run.

    optimise: whether ONNX Runtime may rewrite a graph."""

    bundle: Bundle
    region: RegionProgram
    machine: Machine
    place: str
    native: bool
    optimise: bool = True


Opened = tuple[RegionProgram, RegionEngine]
"""retimed regions say the cycles that the machine's file gives them now."""


def open_region(stored: Stored, device: Device, retimed: bool) -> Opened:
    """retimed: whether the machine's timing is another than when the bundle was made.

    Raises UserError E03xx and E1104 for a damaged region, E05xx and E06xx for a program that must not run, E1113 and E071x for C,
    E1116 and E0713 for a vendor's code.
    """
    return OPENERS[stored.machine.codegen](stored, device, retimed)


def _open_program(stored: Stored, device: Device, retimed: bool) -> Opened:
    image = region_image(stored.bundle, stored.region, stored.machine, stored.place)
    region = replace(stored.region, cycles=cycles_of(image)) if retimed else stored.region
    return region, PackedEngine(stored.machine, region, device.load(image))


def cycles_of(image: Image) -> float:
    """By the cycle model; for a bundle whose cycles were counted with other timing."""
    return time_state(image.program, image.map.state(image.program.machine, image.constants)).cycles


def _open_c(stored: Stored, device: Device, retimed: bool) -> Opened:
    """C runs on the host's processor, whatever the device; its cycles stay those of the build."""
    del device, retimed
    region = stored.region
    if not stored.native:
        text = f"region '{region.name}' is C code, which would be compiled and run on this computer"
        raise fail("E1113", text, hint="load it with native=True if you trust where it comes from", place=stored.place)
    if stored.machine.calls_operators:
        check_places(region, stored.place)
        return region, CodeEngine(region, c_of(stored.bundle, region, stored.machine))
    return region, PackedEngine(stored.machine, region, c_of(stored.bundle, region, stored.machine))


def c_of(bundle: Bundle, region: RegionProgram, machine: Machine) -> CompiledCalls:
    """The compiled C of a region in a bundle. Raises UserError E071x and E1104 as `compile_c` does."""
    source, files, constants = bundle.members[region.binary], bundle.held(region.files), bundle.held(region.constants)
    return compile_c(machine, region.name, region.map, region.function, source, files, constants)


def _open_graph(stored: Stored, device: Device, retimed: bool) -> Opened:
    """ONNX Runtime stands for the engine, whatever the device; its cycles stay those of the build."""
    del device, retimed
    return stored.region, engine_of(stored.bundle, stored.region, stored.place, stored.optimise)


def _open_code(stored: Stored, device: Device, retimed: bool) -> Opened:
    """A device that does not take a vendor's code has the vendor's own process in its place."""
    del retimed
    machine = stored.machine
    assert machine.tool is not None
    code = stored.bundle.members[stored.region.binary]
    here = device if isinstance(device, CodeDevice) else ProcessDevice((str(tool_path(machine, machine.tool.device)),))
    check_places(stored.region, stored.place)
    return stored.region, CodeEngine(stored.region, here.start(machine.name, code, stored.region.map, {}))


OPENERS: Mapping[str, Callable[[Stored, Device, bool], Opened]] = {"binary": _open_program, "c99": _open_c, "json": _open_graph, "tool": _open_code}
"""By the machine's `codegen`."""
