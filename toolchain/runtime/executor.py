"""Runs a bundle: `load(path).run(inputs)`. Any number of bundles in a process, any number of threads in a bundle.

Host segments run in ONNX Runtime: opened once, from memory alone, weights handed over by name.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from toolchain.graph.quantisation.table import sample_at, sample_count
from toolchain.graph.session import Session, open_session, run_session
from toolchain.runtime.bundle import Given, bundle_machines, read_bundle, target_of
from toolchain.runtime.bundle_checks import trusted_keys
from toolchain.runtime.contents import Bundle, HostSegment, Interface, Manifest, PlanStep, RegionProgram, step_names, step_of
from toolchain.runtime.device import Device
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.open_region import RegionEngine, Stored, open_region
from toolchain.runtime.timing import Modelled, Shares, modelled, samples_of
from toolchain.runtime.transfers import HandedOver, Value, array_of, check_numbers, handed_over, integer_inputs
from toolchain.spec.arrays import Array
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine


def open_segment(model: bytes, members: Mapping[str, bytes], place: str, optimise: bool = True) -> Session:
    """A session of a segment. optimise: with ONNX Runtime's own rewriting, which rounds a part of a model otherwise than the whole.

    Raises UserError E1107 for a model that is none or points outside the bundle, E0910 where ONNX Runtime refuses.
    """
    return open_session(model, optimise, files={name: members[name] for name in segment_members(model, members, place)})


def segment_members(model: bytes, members: Mapping[str, bytes], place: str) -> list[str]:
    """The members that a segment reads. Raises UserError E1107 as `open_segment`."""
    return [*dict.fromkeys(_location(tensor, members, place) for tensor in _external(_parsed(model, place)))]


def host_proto(bundle: Bundle, segment: HostSegment, place: str) -> onnx.ModelProto:
    """A segment as it stands in the bundle. Raises UserError E1107 for one that is no model, or lacks a tensor that the plan says it has."""
    proto = _parsed(bundle.members[segment.model], place)
    ends = {entry.name for entry in (*proto.graph.input, *proto.graph.output)}
    for name in (name for name in (*segment.inputs, *segment.outputs) if name not in ends):
        raise fail("E1107", f"a host segment of the bundle has no tensor '{name[:80]}', which the plan names", place=place)
    return proto


def host_protos(bundle: Bundle, place: str) -> list[onnx.ModelProto]:
    """The segments in the order of the plan. Raises UserError as `host_proto`."""
    hosts = bundle.manifest.hosts
    return [host_proto(bundle, hosts[step.index], place) for step in bundle.manifest.plan if step.kind == "host"]


def with_constants(proto: onnx.ModelProto, members: Mapping[str, bytes], place: str) -> onnx.ModelProto:
    """The segment, with all its constants put inside. Raises UserError E1107 as `open_segment` does."""
    for tensor in _external(proto):
        data = members[_location(tensor, members, place)]
        del tensor.external_data[:]
        tensor.ClearField("data_location")
        tensor.raw_data = data
    return proto


def _parsed(model: bytes, place: str) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(model)
    except DecodeError:
        raise fail("E1107", "a host segment of the bundle is no ONNX model", place=place) from None
    return proto


def _location(tensor: onnx.TensorProto, members: Mapping[str, bytes], place: str) -> str:
    """The member that has an external constant's bytes."""
    found = [entry.value for entry in tensor.external_data if entry.key == "location"]
    if len(found) != 1:
        raise fail("E1107", f"the constant '{tensor.name[:80]}' of a host segment names no single place", place=place)
    if found[0] not in members:
        raise fail("E1107", f"a host segment reads '{found[0][:80]}', which is not in the bundle", place=place)
    return found[0]


def _external(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """All constants whose bytes are elsewhere, tensors within attributes and subgraphs included."""
    bodies = [proto.graph.node, *(function.node for function in proto.functions)]
    tensors = [*proto.graph.initializer, *(t for s in proto.graph.sparse_initializer for t in (s.values, s.indices))]
    tensors += [tensor for body in bodies for tensor in _tensors(body)]
    yield from (tensor for tensor in tensors if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data)


def _tensors(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
            for graph in (attribute.g, *attribute.graphs):
                yield from graph.initializer
                yield from (tensor for sparse in graph.sparse_initializer for tensor in (sparse.values, sparse.indices))
                yield from _tensors(graph.node)


Tensors = dict[str, Array]


PLAIN_NAMES = ("bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
"""Types of inputs that are checked; others are ONNX Runtime's business."""


@dataclass(frozen=True)
class Outcome:
    """outputs: by name, samples one behind the other along the first axis. watched: other tensors of the plan that were asked for.

    runs: of each region on the device. cycles: of all of them, by the cycle model. shares: seconds, measured.
    """

    outputs: Mapping[str, Array]
    watched: Mapping[str, Array]
    samples: int
    runs: int
    cycles: float
    shares: Shares


def load(path: Path, machine: Given = None, device: Device | Mapping[str, Device] | None = None, native: bool = False) -> "Executor":
    """A bundle, ready to run on `device`, the emulator if none is given. machine: for those that are not on the search path, or the paths of files;
    "bundle" takes descriptions that the bundle brings, as happens by itself where there is no machine of that name.

    device: one that takes programs of all of the bundle's machines, or one for each by the machine's name. native: whether C that the bundle brings
    may be compiled and run here, which only a bundle from a trusted place should. Where TILEWRIGHT_KEYS names public keys, one of them has to have
    signed the bundle.

    Raises UserError E0001 and E11xx for the bundle, E1105 where it was made for another machine, E1113 where it brings C and `native` is not set,
    E1129 for a signature, E05xx and E06xx for a program that must not run.
    """
    return open_bundle(read_bundle(path, trusted_keys()), machine, device or EmulatorDevice(), str(path), native=native)


def open_bundle(
    bundle: Bundle, given: Given, device: Device | Mapping[str, Device], place: str = "", optimise: bool = True, native: bool = True
) -> "Executor":
    """As `load`, of a bundle in memory. optimise: whether ONNX Runtime may rewrite the host's segments."""
    start, manifest = perf_counter(), bundle.manifest
    machines = bundle_machines(manifest.targets, place, given, bundle.members)
    devices = device if isinstance(device, Mapping) else dict.fromkeys(machines, device)
    hosts = tuple(open_segment(bundle.members[segment.model], bundle.members, place, optimise) for segment in manifest.hosts)
    retimed = {target.name for target in manifest.targets if target.timing != target_of(machines[target.name]).timing}
    opened = [
        open_region(Stored(bundle, region, machines[region.target], place, native, optimise), devices[region.target], region.target in retimed)
        for region in manifest.regions
    ]
    manifest = replace(manifest, regions=tuple(region for region, _ in opened))
    engines, starts = tuple(engine for _, engine in opened), start_arrays(bundle)
    integers, handed = integer_inputs(manifest.inputs, host_protos(bundle, place)), handed_over(machines, manifest)
    return Executor(manifest, machines, perf_counter() - start, hosts, engines, handed, starts, integers)


def start_arrays(bundle: Bundle) -> dict[str, Array]:
    """By input of the model, every state before the first step."""
    entries, found = {entry.name: entry for entry in bundle.manifest.inputs}, dict[str, Array]()
    for state in bundle.manifest.states:
        entry = entries[state.input]
        empty = np.zeros(entry.shape or (), entry.dtype)
        found[state.input] = np.frombuffer(bundle.members[state.start], empty.dtype).reshape(empty.shape) if state.start else empty
    return found


@dataclass(frozen=True)
class Executor:
    """A loaded bundle. machines: by name, the first choice first. engines: of the regions, in their order. starts: by input, states before the first
    step. integers: the inputs that become stored integers, which hold no NaN.

    initialise: seconds, measured, in which host segments were opened, programs checked and loaded, and engines built.
    """

    manifest: Manifest
    machines: Mapping[str, Machine]
    initialise: float
    _hosts: Sequence[Session]
    engines: Sequence[RegionEngine]
    _handed: HandedOver
    starts: Mapping[str, Array] = field(default_factory=dict[str, Array])
    integers: frozenset[str] = frozenset()

    @property
    def machine(self) -> Machine:
        """The first choice."""
        return next(iter(self.machines.values()))

    @property
    def group(self) -> int:
        """Samples that regions take at once."""
        return samples_of(self.manifest.regions)

    def modelled(self) -> Modelled:
        """Milliseconds of one group of samples, by the machine's declared costs."""
        return modelled(self.machines, self.manifest)

    def run(self, inputs: Mapping[str, Array], watch: Sequence[str] = ()) -> Outcome:
        """inputs: [samples * first size, ...] for each input; watch: further tensors of the plan to answer with.

        Raises UserError E1108 for inputs of another name, shape or type, E1134 for NaN in one that becomes integers, E0910 where ONNX Runtime stops,
        E07xx where the device does.
        """
        samples = split_samples(self.manifest.inputs, inputs)
        check_numbers(inputs, self.integers)
        outputs = [entry.name for entry in self.manifest.outputs]
        ran = self._run(samples, (*outputs, *watch))
        empty = {entry.name: _empty(entry) for entry in self.manifest.outputs} if not samples else {}
        return Outcome(empty or join_samples(ran.found, outputs), join_samples(ran.found, watch), len(samples), ran.runs, ran.cycles, ran.shares)

    def run_samples(self, samples: Mapping[str, Array]) -> list[dict[str, Array]]:
        """Outputs of each sample, of samples [samples, *shape] by input; they may differ in shape. Raises as `run`."""
        each = [sample_at(samples, number) for number in range(sample_count(samples))]
        check_numbers(samples, self.integers)
        return self._run([_single(self.manifest.inputs, sample) for sample in each], [entry.name for entry in self.manifest.outputs]).found

    def _run(self, samples: Sequence[Mapping[str, Value]], names: Sequence[str]) -> "_Ran":
        """The named tensors of each sample. No step joins samples but a region's run, whose places for images know nothing of each other."""
        found: list[Tensors] = []
        cycles, runs, shares = 0.0, 0, Shares()
        for first in range(0, len(samples), self.group):
            group = [dict(sample) for sample in samples[first : first + self.group]]
            for step in self.manifest.plan:
                shares += self.advance(step, group)
                run = step_of(self.manifest, step)
                if isinstance(run, RegionProgram):
                    cycles += run.cycles * run.runs(len(group))
                    runs += run.runs(len(group))
            found += [{name: array_of(sample[name]) for name in names if name in sample} for sample in group]
        return _Ran(found, runs, cycles, shares)

    def advance(self, step: PlanStep, group: Sequence[dict[str, Value]], engine: RegionEngine | None = None, kept: Collection[str] = ()) -> Shares:
        """Runs a step of the plan for a group of samples, which it adds its results to. engine: in place of the region's own. kept: further results
        that may stay as the device stores them."""
        if step.kind == "host":
            return self._host(step.index, group)
        region = self.manifest.regions[step.index].name
        results, shares = (engine or self.engines[step.index]).run(group, self._handed.kept[region] | {*kept})
        for sample, result in zip(group, results, strict=True):
            sample.update(result)
        return shares

    def _host(self, index: int, group: Sequence[dict[str, Value]]) -> Shares:
        start = perf_counter()
        inputs, outputs = step_names(self.manifest.hosts[index])
        given = [{name: array_of(sample[name]) for name in inputs} for sample in group]
        unpacked = perf_counter()
        for sample, own in zip(group, given, strict=True):
            sample.update(run_session(self._hosts[index], own, outputs))
        return Shares(host=perf_counter() - unpacked, transfer=unpacked - start)


@dataclass(frozen=True)
class _Ran:
    """found: the tensors of each sample. Others as in an outcome."""

    found: list[Tensors]
    runs: int
    cycles: float
    shares: Shares


def _empty(entry: Interface) -> Array:
    """The results of no sample."""
    shape = [max(size, 0) for size in (entry.shape or ())[1:]]
    return np.zeros((0, *shape), entry.dtype if entry.dtype in PLAIN_NAMES else np.float32)


def split_samples(interfaces: Sequence[Interface], inputs: Mapping[str, Array]) -> list[dict[str, Array]]:
    """The inputs of each sample. Raises UserError E1108."""
    names = [entry.name for entry in interfaces]
    if sorted(inputs) != sorted(names):
        raise fail("E1108", f"the model's inputs are {', '.join(names) or 'none'}; given are {', '.join(inputs) or 'none'}")
    counts = {entry.name: count for entry in interfaces if (count := _count(entry, inputs[entry.name])) is not None}
    if len(set(counts.values())) > 1:
        raise fail("E1108", f"the inputs have different numbers of samples: {', '.join(f'{name} {count}' for name, count in counts.items())}")
    count = next(iter(counts.values()), 1)
    return [{e.name: _sample(e, inputs[e.name], k) for e in interfaces} for k in range(count)]


def _single(interfaces: Sequence[Interface], inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs of a single sample. Raises UserError E1108, also for several."""
    found = split_samples(interfaces, inputs)
    if len(found) != 1:
        raise fail("E1108", f"one sample is expected; given are {len(found)}")
    return found[0]


def joinable(interfaces: Sequence[Interface]) -> bool:
    """Whether one array of each input can hold several samples: those without axes, or with an open first one, are the same for all."""
    return all(entry.shape and entry.shape[0] > 0 for entry in interfaces)


def _count(entry: Interface, given: Array) -> int | None:
    """How many samples an input holds; None for one without axes or with an open first one, which all samples share.

    Raises UserError E1108 for another shape or type.
    """
    shape = entry.shape
    if shape is None:
        return None
    array = np.asarray(given)
    rest = zip(array.shape[1:], shape[1:], strict=False)
    fits = (
        array.ndim == len(shape)
        and all(wanted < 0 or size == wanted for size, wanted in rest)
        and (not shape or shape[0] < 0 or (shape[0] > 0 and array.shape[0] % shape[0] == 0) or array.shape == shape)
    )
    texts = array.dtype.kind in "US" or (array.dtype.kind == "O" and entry.dtype not in PLAIN_NAMES)
    named = "string" if texts else array.dtype.name
    if not fits or (named != entry.dtype and entry.dtype in PLAIN_NAMES):
        raise fail("E1108", f"the input '{entry.name}' is {entry.dtype} [{_shape_text(shape)}]; given is {named} {list(array.shape)}")
    return array.shape[0] // shape[0] if shape and shape[0] > 0 else None


def _shape_text(shape: tuple[int, ...]) -> str:
    sizes = ["?" if size < 0 else str(size) for size in shape]
    first = ["?" if size < 0 else "samples" if size == 1 else f"{size} * samples" for size in shape[:1]]
    return ", ".join([*first, *sizes[1:]])


def _sample(entry: Interface, given: Array, number: int) -> Array:
    if not entry.shape or entry.shape[0] <= 0:
        return given
    return given[number * entry.shape[0] : (number + 1) * entry.shape[0]]


def join_samples(samples: Sequence[Tensors], names: Sequence[str]) -> Tensors:
    """One sample's results as they are, those of several along the first axis. Raises UserError E1108 where theirs have different shapes, or none."""
    held = [name for name in names if samples and name in samples[0]]
    if len(samples) == 1:
        return {name: samples[0][name] for name in held}
    if listed := [name for name in held if not hasattr(samples[0][name], "dtype")]:
        raise fail("E1108", f"'{listed[0]}' is no tensor, so the results of several samples are none", hint="run one sample at a time")
    try:
        return {name: np.concatenate([np.atleast_1d(sample[name]) for sample in samples]) for name in held}
    except ValueError:
        raise fail("E1108", "the results of these samples have different shapes", hint="run one sample at a time") from None
