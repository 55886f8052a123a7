"""A model as its file declares it: where the graph comes from, its inputs, and the data that belong to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toolchain.graph.preparation import Preparation
from toolchain.models.expand import Network
from toolchain.models.operators import Shape
from toolchain.models.task import Task
from toolchain.spec.errors import Span

LOSS = 0.05
"""The share that integers may lose where a model's file does not say."""


@dataclass(frozen=True)
class Layered:
    """Declared layer by layer, with made-up weights."""

    network: Network


@dataclass(frozen=True)
class Stored:
    """An ONNX file with weights of its own."""

    file: Path


@dataclass(frozen=True)
class Light:
    """A graph that the onnx package brings without weights, with made-up ones."""

    name: str
    span: Span


@dataclass(frozen=True)
class Seeded:
    """`count` made-up samples for every input."""

    count: int


@dataclass(frozen=True)
class Recorded:
    """Samples in an .npz file. arrays: by input the array that holds its samples; stored numbers times `scale` are a float input.

    span: of the model's file that names them, None where somebody else did. raw: they are yet to be prepared.
    """

    file: Path
    arrays: Mapping[str, str]
    scale: float
    span: Span | None
    raw: bool = True


@dataclass(frozen=True)
class Input:
    """shape: of one sample, the batch first; empty for a scalar and for what is no tensor. dtype: of numpy, or ONNX's name where numpy has none."""

    shape: Shape
    dtype: str = "float32"
    preparation: Preparation | None = None


@dataclass(frozen=True)
class Test:
    """Samples with the right class of each; accuracy: the share that floating point gets right, as declared."""

    __test__ = False  # not a test case of pytest's

    samples: Recorded
    labels: str
    accuracy: float | None


@dataclass(frozen=True)
class Model:
    """path: the file that says all this. gops: published, 2 x MAC / 10**9. host: patterns of nodes that stay on the host.
    loss: the share of the float network's work that integers may lose, of its task or of its outputs' energy.
    targets: by machine, patterns of nodes that are for it alone where it is among the machines of a build.

    quantisation: options of the pass `quantize` by name. task: what the outputs mean, for measures that a user knows.
    place: `pays` for regions that save time, `all` for whatever the machine takes. stand_in: why it is not the network of that name, or empty.
    """

    name: str
    path: Path
    summary: str
    sources: tuple[str, ...]
    gops: float | None
    origin: Layered | Stored | Light
    inputs: Mapping[str, Input]
    seed: int
    calibration: Seeded | Recorded
    test: Test | None
    host: tuple[str, ...] = ()
    quantisation: Mapping[str, str | int | float | bool] = field(default_factory=dict[str, "str | int | float | bool"])
    task: Task | None = None
    place: str = "pays"
    stand_in: str = ""
    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    loss: float = LOSS

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """The shapes of the inputs, by name."""
        return {name: entry.shape for name, entry in self.inputs.items()}
