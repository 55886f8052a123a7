"""The contents of a bundle: the plan of a model, its programs and constants, and checks that the plan can be run."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from toolchain.abi.dram_map import DramMap
from toolchain.graph.preparation import LAYOUTS, Preparation, channels_last
from toolchain.graph.work import Work
from toolchain.spec.errors import fail
from toolchain.spec.model import Host
from toolchain.spec.typed_json import PLAIN_DEFAULT


@dataclass(frozen=True)
class Interface:
    """An input or output of the model. shape: of one sample, -1 for a size that depends on the data; None where even the rank does, and for
    a value that is no tensor. dtype: of numpy, or the name that ONNX has for it. scale: of a stored step, 0 for none. preparation: of raw
    numbers, such as a picture's, None where the model's file has none."""

    name: str
    shape: tuple[int, ...] | None
    dtype: str
    scale: float = 0.0
    preparation: Preparation | None = None


@dataclass(frozen=True)
class Target:
    """The machine that programs are for. params: every parameter and derived name; timing: hash of the section that cycles rest on.
    host: the costs of the host and of its link to the machine, None where neither the machine's file nor a deployment says them."""

    name: str
    config: str
    params: Mapping[str, int]
    fingerprint: str
    timing: str
    host: Host | None


@dataclass(frozen=True)
class HostSegment:
    """A sub-model that ONNX Runtime runs. model: its member; large constants are members of their own, which it names as external data.

    work: by kind of operator.
    """

    model: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    work: Mapping[str, Work]


@dataclass(frozen=True)
class Port:
    """A tensor at a region's border. name: the graph's. tensor: the region's own name of it, in its map. shape: of one sample in the graph, whose
    first axis counts images."""

    name: str
    tensor: str
    shape: tuple[int, ...]


def samples_a_run(images: int, batch: int) -> int:
    """Samples that fill a run of so many images, 1 where one sample needs several runs. batch: images of one sample."""
    return max(images // batch, 1)


def runs_of(samples: int, images: int, batch: int) -> int:
    """Runs for so many samples, each run of at most so many images. batch: images of one sample."""
    return -(-samples * batch // images)


@dataclass(frozen=True)
class RegionProgram:
    """A region as the device runs it. target: the name of its machine. images: how many one run takes. binary: the member with the machine's own
    container, or with C.

    Members of a program in the machine's own instructions, empty for C: origins, which say for which step of which operation each instruction is, as
    JSON; schedule, how it runs, as YAML. Of C: files, by name the members that it is compiled with; function, the one to
    call. constants: the member with the bytes of each segment that has some. cycles: of a run, by the cycle model when the bundle was made.
    """

    name: str
    target: str
    images: int
    binary: str
    origins: str
    schedule: str
    map: DramMap
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    constants: Mapping[str, str]
    cycles: float
    files: Mapping[str, str]
    function: str

    @property
    def members(self) -> tuple[str, ...]:
        """All that it names."""
        named = (self.binary, self.origins, self.schedule, *self.constants.values(), *self.files.values())
        return tuple(name for name in named if name)

    @property
    def whole(self) -> bool:
        """Whether a run takes one sample as it is, which is no row of images: a graph, whose map has no memory."""
        return not self.map.memory

    @property
    def batch(self) -> int:
        """Images of one sample."""
        return self.outputs[0].shape[0] if self.outputs and not self.whole else 1

    @property
    def samples(self) -> int:
        """Samples that fill a run, 1 where one sample needs several runs."""
        return samples_a_run(self.images, self.batch)

    def runs(self, samples: int) -> int:
        """Runs of the program for so many samples."""
        return runs_of(samples, self.images, self.batch)


@dataclass(frozen=True)
class PlanStep:
    """One step of the plan: host segment or region number `index`, by kind 'host' or 'region'."""

    kind: str
    index: int


@dataclass(frozen=True)
class State:
    """A tensor that one step hands to the next: output of the model, which is the input in the step after.

    taken, made: the tensors of the plan that are handed on in their place: stored integers where conversions to and from floating point would cancel,
    else the input and the output themselves. start: the member with the input's elements before the first step, empty for zeros.
    """

    input: str
    output: str
    taken: str
    made: str
    start: str = ""


@dataclass(frozen=True)
class StartedState:
    """A state of a model that becomes a bundle. start: the bytes of the input before the first step, empty for zeros."""

    input: str
    output: str
    start: bytes = b""


@dataclass(frozen=True)
class Manifest:
    """A model as a plan over host segments and regions; everything it names is a member of the bundle. toolchain: the version that made it. source:
    the SHA-256 of the model's ONNX file in hex, empty where there was none. targets: each machine once, the first choice first, whose file has the
    costs of the host's own operators. states: that one run hands to the next, where the model is a step of a sequence."""

    model: str
    toolchain: str
    source: str
    targets: tuple[Target, ...]
    inputs: tuple[Interface, ...]
    outputs: tuple[Interface, ...]
    plan: tuple[PlanStep, ...]
    hosts: tuple[HostSegment, ...]
    regions: tuple[RegionProgram, ...]
    states: tuple[State, ...] = field(default=(), metadata=PLAIN_DEFAULT)


@dataclass(frozen=True)
class Bundle:
    """A model, ready to run. members: bytes by name, equal constants once."""

    manifest: Manifest
    members: Mapping[str, bytes]


def description_name(number: int) -> str:
    """The member with the text of a machine's file, which a bundle has or has not; machines are counted from 0."""
    return f"machine{number}.yaml"


ORIGIN, HASH = re.compile(r"[0-9A-Za-z.+-]{1,40}\Z"), re.compile(r"([0-9a-f]{64})?\Z")
MAX_ELEMENTS, MAX_IMAGES = 1 << 34, 1 << 16


def plan_faults(bundle: Bundle) -> Iterator[str]:
    """Yields the faults of a bundle's plan, in words; one is enough to refuse the bundle."""
    manifest = bundle.manifest
    if not ORIGIN.match(manifest.toolchain) or not HASH.match(manifest.source):
        yield "it does not say which toolchain and model it was made of"
    yield from _targets(manifest)
    yield from _interfaces(manifest)
    yield from _members(bundle)
    for region in manifest.regions:
        yield from _region(region)
    yield from _order(manifest)
    yield from _states(bundle)


def check_stateless(manifest: Manifest, place: str) -> None:
    """Raises UserError E1133 for a model with states, which a program in C does not keep."""
    if manifest.states:
        hint = "toolchain.load runs it, step by step"
        raise fail("E1133", f"'{manifest.model}' has {len(manifest.states)} states, which a program in C does not keep", hint=hint, place=place)


def step_of(manifest: Manifest, step: PlanStep) -> HostSegment | RegionProgram:
    """The host segment or the region that a step of the plan runs."""
    return manifest.hosts[step.index] if step.kind == "host" else manifest.regions[step.index]


def step_names(run: HostSegment | RegionProgram) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The graph's tensors that a step reads, and those that it makes."""
    if isinstance(run, HostSegment):
        return run.inputs, run.outputs
    return tuple(port.name for port in run.inputs), tuple(port.name for port in run.outputs)


def _targets(manifest: Manifest) -> Iterator[str]:
    names = [target.name for target in manifest.targets]
    if not names or len(set(names)) < len(names):
        yield "it names no machine, or one twice"
    yield from (f"region '{r.name[:80]}' is for '{r.target[:80]}', which is none of its machines" for r in manifest.regions if r.target not in names)


def _interfaces(manifest: Manifest) -> Iterator[str]:
    for side in (manifest.inputs, manifest.outputs):
        names = [entry.name for entry in side]
        if len(set(names)) < len(names):
            yield "two inputs or two outputs have one name"
        for entry in side:
            if not entry.dtype or (entry.shape is not None and not _interface_sizes(entry.shape)):
                yield f"'{entry.name[:80]}' has no proper type and shape"
            if entry.preparation is not None and not _preparation(entry.preparation, entry.shape or ()):
                yield f"'{entry.name[:80]}' is prepared in a way that cannot be"


def _preparation(held: Preparation, shape: tuple[int, ...]) -> bool:
    """Whether every channel has a mean and something to divide by."""
    channels = (1, shape[3] if channels_last(shape) else shape[1] if len(shape) == 4 else 1)
    return held.layout in LAYOUTS and len(held.mean) in channels and len(held.std) in channels and min(held.scale, *held.std) > 0


def _interface_sizes(shape: tuple[int, ...]) -> bool:
    """-1 stands for a size that depends on the data, 0 is one."""
    return all(size >= -1 for size in shape) and math.prod(max(size, 1) for size in shape) <= MAX_ELEMENTS


def _states(bundle: Bundle) -> Iterator[str]:
    """Whether each state is an input and an output alike, and its start has their size."""
    manifest = bundle.manifest
    inputs, outputs = ({entry.name: entry for entry in side} for side in (manifest.inputs, manifest.outputs))
    steps = [step_names(step_of(manifest, step)) for step in manifest.plan if step.kind in ("host", "region")]
    known = inputs.keys() | {name for _, made in steps for name in made}
    for state in manifest.states:
        taken, made = inputs.get(state.input), outputs.get(state.output)
        if (
            taken is None
            or made is None
            or taken.shape is None
            or (taken.shape, taken.dtype) != (made.shape, made.dtype)
            or min(taken.shape, default=1) < 0
        ):
            yield f"the state '{state.input[:80]}' is no input and output of one shape and type"
        elif not {state.taken, state.made} <= known:
            yield f"the state '{state.input[:80]}' is handed on as a tensor that no step makes"
        elif state.start and len(bundle.members.get(state.start, b"")) != _bytes_of(taken):
            yield f"the start of the state '{state.input[:80]}' has another size"
    for side in ("input", "output", "taken", "made"):
        names = [getattr(state, side) for state in manifest.states]
        if len(set(names)) < len(names):
            yield "two states are one tensor"


def _bytes_of(entry: Interface) -> int:
    """0 for a type that numpy has not."""
    return math.prod(entry.shape or ()) * (np.dtype(entry.dtype).itemsize if entry.dtype in np.sctypeDict else 0)


def _sizes(shape: tuple[int, ...]) -> bool:
    return all(size > 0 for size in shape) and math.prod(shape) <= MAX_ELEMENTS


def _members(bundle: Bundle) -> Iterator[str]:
    manifest = bundle.manifest
    described = [name for name in bundle.members if name.startswith("machine")]
    yield from (f"'{name}' describes none of its machines" for name in described if name not in map(description_name, range(len(manifest.targets))))
    wanted = [*(state.start for state in manifest.states if state.start)]
    wanted += [*(segment.model for segment in manifest.hosts), *(name for region in manifest.regions for name in region.members)]
    yield from (f"there is no member '{name[:80]}'" for name in wanted if name not in bundle.members)
    for region in manifest.regions:
        yield from (f"region '{region.name[:80]}' has no segment '{name[:80]}'" for name in region.constants if name not in region.map.segments)


def _region(region: RegionProgram) -> Iterator[str]:
    where, held = f"of region '{region.name[:80]}'", region.map
    if not 1 <= region.images <= MAX_IMAGES or region.cycles < 0 or not region.outputs or min(held.rooms, held.streams) < 1:
        yield f"the images, cycles or outputs {where} are out of range"
    yield from (
        f"the segment '{name[:80]}' {where} has no proper place"
        for name, s in held.segments.items()
        if min(s.address, s.bytes, s.pitch, s.parts - 1) < 0
    )
    for name, stored in held.tensors.items():
        segment = held.segments.get(stored.segment)
        last = stored.offset + stored.bytes + (held.rooms - 1) * (segment.pitch if segment and not segment.memory else 0)
        inside = segment is not None and min(stored.offset, stored.bytes, stored.channel) >= 0 and last <= segment.bytes
        if not inside or not _sizes(stored.shape) or not _sizes(stored.extents):
            yield f"the tensor '{name[:80]}' {where} has no proper place"
    for port in (*region.inputs, *region.outputs):
        stored = held.tensors.get(port.tensor)
        if stored is None or not _sizes(port.shape) or not _holds(stored.shape, port.shape, region):
            yield f"the tensor '{port.name[:80]}' {where} is not in its map, or of another size there"


def _holds(stored: tuple[int, ...], shape: tuple[int, ...], region: RegionProgram) -> bool:
    """Whether a region's tensor is a run's images, each of the shape that the graph has for one, or one whole sample."""
    if region.whole:
        return bool(shape) and math.prod(stored) == math.prod(shape)
    images = stored[0] * region.map.rooms
    return bool(shape) and shape[0] == region.batch and images == region.images and math.prod(stored[1:]) == math.prod(shape[1:])


def _order(manifest: Manifest) -> Iterator[str]:
    known = {entry.name for entry in manifest.inputs}
    for step in manifest.plan:
        count = {"host": len(manifest.hosts), "region": len(manifest.regions)}.get(step.kind, 0)
        if not 0 <= step.index < count:
            yield f"the plan has a step '{step.kind[:20]}' {step.index}"
            return
        inputs, outputs = step_names(step_of(manifest, step))
        yield from (f"the tensor '{name[:80]}' is read before it is made" for name in inputs if name not in known)
        yield from (f"the tensor '{name[:80]}' is made twice" for name in outputs if name in known)
        known.update(outputs)
    yield from (f"the output '{entry.name[:80]}' is never made" for entry in manifest.outputs if entry.name not in known)
