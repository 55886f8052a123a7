"""The meaning of a model's outputs, as its file declares it: the measures that a user knows follow from it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal


@dataclass(frozen=True)
class Classification:
    """The largest value of an output is the answer. axis: of the classes; others are answers of their own."""

    output: str = ""
    axis: int = -1


@dataclass(frozen=True)
class Detection:
    """Rows of boxes and scores. output: where both are; scores_output: where the scores are elsewhere.

    entries: the axis of a row's numbers, last in [..., rows, 4 + classes], first in [..., 4 + classes, rows].
    box: first entry of the four numbers of a box. form: what they are. classes: first and last entry of the classes' scores, the last excluded.
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
    """Vectors whose direction is what counts. axis: of a vector's numbers; others are vectors of their own.

    mask: an input with a number for each vector, 0 for those that stand for padding; empty where all count.
    """

    output: str = ""
    axis: int = -1
    mask: str = ""


Task = Classification | Detection | Segmentation | Text | Embedding
KINDS: Mapping[str, Callable[..., Task]] = MappingProxyType(
    {"classification": Classification, "detection": Detection, "segmentation": Segmentation, "text": Text, "embedding": Embedding}
)
