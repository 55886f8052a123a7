"""The figure that a user knows a model by: held against the file as the user gave it, and against labels where there are any."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolchain.accuracy.classification import agreement, answers
from toolchain.accuracy.detection import boxes_of, match_boxes
from toolchain.accuracy.segmentation import mask_iou
from toolchain.accuracy.text import edit_distance, readings
from toolchain.models.task import Classification, Detection, Segmentation, Task

Array = np.typing.NDArray[Any]
Results = Sequence[Mapping[str, Array]]
"""Outputs by name, sample by sample."""
GOOD = 0.9
"""Share from which a network counts as doing its task as the float one does."""


@dataclass(frozen=True)
class Measured:
    """share: how far the network does the float network's work, 0 to 1. text: the same in the words of the task."""

    task: str
    share: float
    text: str


def measure_task(task: Task, given: Results, found: Results) -> Measured:
    """found: the same samples through another form of the network."""
    pairs = list(zip(given, found, strict=True))
    match task:
        case Classification():
            counts = [agreement(one, other, task) for one, other in pairs]
            share = _ratio(sum(same for same, _ in counts), sum(total for _, total in counts))
            return Measured("classification", share, f"{100 * share:.2f} % of first answers as in floating point")
        case Detection():
            return _detection(task, given, found)
        case Segmentation():
            values = [mask_iou(one, other, task) for one, other in pairs]
            share = float(np.mean(values)) if values else 1.0
            return Measured("segmentation", share, f"masks overlap by {share:.3f} IoU, the worst by {min(values, default=1.0):.3f}")
        case _:
            read = [(a, b) for one, other in pairs for a, b in zip(readings(one, task), readings(other, task), strict=True)]
            equal, edits = sum(a == b for a, b in read), sum(edit_distance(a, b) for a, b in read)
            length = sum(len(a) for a, _ in read)
            return Measured("text", _ratio(equal, len(read)), f"{equal} of {len(read)} texts equal, {edits} edits in {length} characters")


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 1.0


def _detection(task: Detection, given: Results, found: Results) -> Measured:
    matches = [match_boxes(boxes_of(one, task), boxes_of(other, task), task.iou) for one, other in zip(given, found, strict=True)]
    wanted, matched, boxes = (sum(getattr(match, name) for match in matches) for name in ("wanted", "matched", "found"))
    mean = _ratio(sum(match.overlap for match in matches), matched)
    share = _ratio(2 * matched, wanted + boxes)
    told = f"{matched} of {wanted} boxes found at IoU {task.iou:g} (mean {mean:.3f}), {boxes - matched} further ones"
    return Measured("detection", share, told)


def right_share(task: Task | None, results: Results, labels: Sequence[int] | None) -> float | None:
    """Samples whose first answer is the label; None without labels, or for another task."""
    if labels is None or not isinstance(task, Classification | None):
        return None
    first = [answers(result, task or Classification()).reshape(-1)[0] for result in results]
    return float(np.mean([answer == label for answer, label in zip(first, labels, strict=True)]))
