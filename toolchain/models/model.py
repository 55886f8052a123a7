"""A model as its file declares it: the graph's origin, inputs and data, and the task of the outputs, which task metrics follow from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from toolchain.graph.preparation import Preparation
from toolchain.models.expand import Network
from toolchain.models.operators import Shape
from toolchain.spec.errors import Span


@dataclass(frozen=True)
class Classification:
    """The largest value of an output is the answer. axis: of the classes; others are answers of their own."""

    output: str = ""
    axis: int = -1


@dataclass(frozen=True)
class Detection:
    """Rows of boxes and scores. output: where both are; scores_output: where the scores are elsewhere.

    entries: the axis of a row's numbers, last in [..., rows, 4 + classes], first in [..., 4 + classes, rows].
    box: first entry of the four numbers of a box. form: their meaning. classes: first and last entry of the classes' scores, the last excluded.
    objectness: entry of a factor of all scores, -1 where there is none. grid: strides of the cells that boxes are relative to, none where absolute.
    least: score from which a box counts; overlap: IoU above which of two boxes of a class the weaker one goes; iou: from which two boxes are one.
    """

    output: str = ""
    scores_output: str = ""
    entries: Literal["last", "first"] = "last"
    box: int = 0
    form: Literal["centre", "corners"] = "corners"
    classes: tuple[int, int] = (4, 5)
    objectness: int = -1
    grid: tuple[int, ...] = ()
    least: float = 0.25
    overlap: float = 0.45
    iou: float = 0.9


@dataclass(frozen=True)
class Segmentation:
    """A mask where an output exceeds a limit."""

    output: str = ""
    limit: float = 0.5


@dataclass(frozen=True)
class Text:
    """A sequence of characters by connectionist temporal classification: best class of each step, repeats and blanks left out.

    axis: of the classes; steps: the axis of the steps; others are sequences of their own.
    """

    output: str = ""
    axis: int = -1
    blank: int = 0
    steps: int = -2


@dataclass(frozen=True)
class Embedding:
    """Vectors whose direction alone counts. axis: of a vector's numbers; others are vectors of their own.

    mask: an input with a number for each vector, 0 for those that stand for padding; empty where all count.
    """

    output: str = ""
    axis: int = -1
    mask: str = ""


Task = Classification | Detection | Segmentation | Text | Embedding
KINDS: Mapping[str, Callable[..., Task]] = MappingProxyType(
    {"classification": Classification, "detection": Detection, "segmentation": Segmentation, "text": Text, "embedding": Embedding}
)


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
    """`count` made-up samples for every input. steps: of each, where a model has states and its samples are sequences."""

    count: int
    steps: int = 1


@dataclass(frozen=True)
class Recorded:
    """Samples in an .npz file. arrays: by input the array that holds its samples; stored numbers times `scale` are a float input.

    span: of the model's file that names them, None where somebody else did. raw: they are yet to be prepared. finite: all
    of them have to be; the runtime itself judges those that a user runs.
    """

    file: Path
    arrays: Mapping[str, str]
    scale: float
    span: Span | None
    raw: bool = True
    finite: bool = True


@dataclass(frozen=True)
class Pictures:
    """Samples that are the pictures of a folder. span: of the model's file that names it, None where somebody else did."""

    folder: Path
    span: Span | None = None


@dataclass(frozen=True)
class Input:
    """shape: of one sample, the batch first; empty for scalars, sequences and maps. dtype: of numpy, or ONNX's name where numpy has none.
    below: where positive, its whole numbers are from 0 and below this. open: axes along which recorded samples may have any size: they are cut, or
    filled with zeros, to that of the shape."""

    shape: Shape
    dtype: str = "float32"
    preparation: Preparation | None = None
    below: int = 0
    open: tuple[int, ...] = ()


@dataclass(frozen=True)
class State:
    """A tensor that one step hands to the next: an output, which is the input of the next step. start: every element of it before the first step.

    file, array: where the start is an array of an .npz file. span: of the model's file.
    """

    input: str
    output: str
    start: float = 0.0
    file: Path | None = None
    array: str = ""
    span: Span | None = None


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
    beyond: where samples that none of several lengths takes run, `host`, or `error`.
    states: tensors that one step hands to the next; samples are then sequences of steps.
    targets: by machine, patterns of nodes that are for it alone where it is among the machines of a build.

    quantisation: options of the pass `quantize` by name. task: the meaning of the outputs, for task metrics.
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
    calibration: Seeded | Recorded | Pictures
    test: Test | None
    host: tuple[str, ...] = ()
    quantisation: Mapping[str, str | int | float | bool] = field(default_factory=dict[str, "str | int | float | bool"])
    task: Task | None = None
    place: str = "pays"
    stand_in: str = ""
    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    loss: float = LOSS
    beyond: str = "error"
    states: tuple[State, ...] = ()

    @property
    def given(self) -> Mapping[str, Input]:
        """The inputs that samples have: all but states."""
        states = {state.input for state in self.states}
        return {name: entry for name, entry in self.inputs.items() if name not in states}

    @property
    def pairs(self) -> Mapping[str, str]:
        """The output that becomes the input of the next step, by input."""
        return {state.input: state.output for state in self.states}

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """The shapes of the inputs, by name."""
        return {name: entry.shape for name, entry in self.inputs.items()}
