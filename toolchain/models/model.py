"""A model as its file declares it: where the graph comes from, its inputs, and the data that belong to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from toolchain.models.expand import Network
from toolchain.models.operators import Shape
from toolchain.spec.errors import Span


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
    """An array of samples in an .npz file; what is stored times `scale` is the input."""

    file: Path
    array: str
    scale: float
    span: Span


@dataclass(frozen=True)
class Test:
    """Samples with the right class of each; accuracy: the share that floating point gets right, as declared."""

    __test__ = False  # not a test case of pytest's

    samples: Recorded
    labels: str
    accuracy: float | None


@dataclass(frozen=True)
class Model:
    """path: the file that says all this. gops: published, 2 x MAC / 10**9. inputs: shapes by name, float32."""

    name: str
    path: Path
    summary: str
    sources: tuple[str, ...]
    gops: float | None
    origin: Layered | Stored | Light
    inputs: Mapping[str, Shape]
    seed: int
    calibration: Seeded | Recorded
    test: Test | None
