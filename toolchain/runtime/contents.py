"""The contents of a bundle: the plan of a model, its programs and constants."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolchain.abi.dram_map import DramMap
from toolchain.graph.preparation import Preparation
from toolchain.graph.work import Work
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
        shape = self.outputs[0].shape if self.outputs and not self.whole else ()
        return shape[0] if shape else 1

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

    @property
    def step_inputs(self) -> tuple[Interface, ...]:
        """The inputs, states left out."""
        states = {state.input for state in self.states}
        return tuple(entry for entry in self.inputs if entry.name not in states)

    @property
    def step_outputs(self) -> tuple[Interface, ...]:
        """The outputs, states left out."""
        states = {state.output for state in self.states}
        return tuple(entry for entry in self.outputs if entry.name not in states)


@dataclass(frozen=True)
class Bundle:
    """A model, ready to run. members: bytes by name, equal constants once."""

    manifest: Manifest
    members: Mapping[str, bytes]

    def held(self, named: Mapping[str, str]) -> dict[str, bytes]:
        """The bytes of members, by the names that a region has for them."""
        return {name: self.members[member] for name, member in named.items()}


def description_name(number: int) -> str:
    """The member with the text of a machine's file, which a bundle has or has not; machines are counted from 0."""
    return f"machine{number}.yaml"


def step_of(manifest: Manifest, step: PlanStep) -> HostSegment | RegionProgram:
    """The host segment or the region that a step of the plan runs."""
    return manifest.hosts[step.index] if step.kind == "host" else manifest.regions[step.index]


def step_names(run: HostSegment | RegionProgram) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The graph's tensors that a step reads, and those that it makes."""
    if isinstance(run, HostSegment):
        return run.inputs, run.outputs
    return tuple(port.name for port in run.inputs), tuple(port.name for port in run.outputs)
