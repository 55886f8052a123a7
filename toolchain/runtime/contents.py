"""What a bundle holds: the plan of a model, its programs and constants."""

from collections.abc import Mapping
from dataclasses import dataclass

from toolchain.schedule.placement.dram_map import DramMap


@dataclass(frozen=True)
class Interface:
    """An input or output of the model. shape: of one sample, as the graph has it. dtype: of numpy. scale: what a stored step is worth, 0 for none."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: float = 0.0


@dataclass(frozen=True)
class Target:
    """The machine that programs are for. params: every parameter and derived name; timing: hash of the section that cycles rest on."""

    name: str
    config: str
    params: Mapping[str, int]
    fingerprint: str
    timing: str


@dataclass(frozen=True)
class Work:
    """What host operators of a kind cost in a segment: nodes, multiply-accumulates, bytes read and written."""

    nodes: int
    macs: int
    bytes: int


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
    """A tensor at a region's border. name: the graph's. tensor: the region's own name of it, in its map. shape: of one sample in the graph."""

    name: str
    tensor: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class RegionProgram:
    """A region as the device runs it. samples: how many one run takes. binary: the member with the machine's own container.

    listing: the member that says what each instruction is for, a line for each. constants: the member with the bytes of each segment that
    has some. cycles: of a run, by the cycle model when the bundle was made.
    """

    name: str
    samples: int
    binary: str
    listing: str
    map: DramMap
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    constants: Mapping[str, str]
    cycles: float


@dataclass(frozen=True)
class Step:
    """One step of the plan: host segment or region number `index`, by kind 'host' or 'region'."""

    kind: str
    index: int


@dataclass(frozen=True)
class Manifest:
    """A model as a plan over host segments and regions; everything it names is a member of the bundle."""

    model: str
    target: Target
    inputs: tuple[Interface, ...]
    outputs: tuple[Interface, ...]
    plan: tuple[Step, ...]
    hosts: tuple[HostSegment, ...]
    regions: tuple[RegionProgram, ...]


@dataclass(frozen=True)
class Bundle:
    """A model, ready to run. members: bytes by name, equal constants once."""

    manifest: Manifest
    members: Mapping[str, bytes]
