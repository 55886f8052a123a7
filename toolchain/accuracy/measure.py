"""The figure that a user knows a model by: held against the file as the user gave it, and against labels where there are any."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolchain.accuracy.detection import boxes_of, match_boxes
from toolchain.models.task import Classification, Detection, Embedding, Segmentation, Task, Text

Array = np.typing.NDArray[Any]
Results = Sequence[Mapping[str, Array]]
"""Outputs by name, sample by sample."""
GOOD = 0.9
"""Share from which a network counts as doing its task as the float one does."""
Reading = tuple[int, ...]


@dataclass(frozen=True)
class Measured:
    """share: how far the network does the float network's work, 0 to 1. text: the same in the words of the task."""

    task: str
    share: float
    text: str


def measure_task(task: Task, given: Results, found: Results, inputs: Results = ()) -> Measured:
    """found: the same samples through another form of the network. inputs: the samples, of which the task may name a mask."""
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
        case Embedding():
            values = [value for number, (one, other) in enumerate(pairs) for value in cosines(one, other, task, inputs[number] if inputs else {})]
            share = float(np.mean(values)) if values else 1.0
            return Measured("embedding", max(share, 0.0), f"cosine {share:.4f} with the float network's, the worst {min(values, default=1.0):.4f}")
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


def mask_iou(wanted: Mapping[str, Array], found: Mapping[str, Array], task: Segmentation) -> float:
    """Intersection over union of one sample's masks; 1 where both are empty."""
    name = task.output or next(iter(wanted))
    one, other = (outputs[name] > task.limit for outputs in (wanted, found))
    union = float((one | other).sum())
    return float((one & other).sum()) / union if union else 1.0


def cosines(wanted: Mapping[str, Array], found: Mapping[str, Array], task: Embedding, inputs: Mapping[str, Array]) -> list[float]:
    """Cosines of the two networks' vectors of one sample; 1 for two that are both zero."""
    name = task.output or next(iter(wanted))
    one, other = (np.moveaxis(np.asarray(outputs[name], np.float64), task.axis, -1) for outputs in (wanted, found))
    one, other = (vectors.reshape(-1, one.shape[-1]) for vectors in (one, other))
    counted = np.asarray(inputs[task.mask]).reshape(-1) != 0 if task.mask in inputs else np.ones(len(one), bool)
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    values = np.divide((one * other).sum(1), lengths, out=np.array((one == other).all(1), np.float64), where=lengths > 0)
    return [float(value) for value in values[counted]]


def answers(outputs: Mapping[str, Array], task: Classification) -> Array:
    """The best class, for every place that has its own scores."""
    scores = outputs[task.output or next(iter(outputs))]
    return scores.argmax(task.axis) if scores.ndim else np.zeros(1, np.int64)


def agreement(wanted: Mapping[str, Array], found: Mapping[str, Array], task: Classification) -> tuple[float, float]:
    """Answers that are the same, and answers in all, of one sample."""
    one, other = answers(wanted, task), answers(found, task)
    return float((one == other).sum()), float(one.size)


def readings(outputs: Mapping[str, Array], task: Text) -> list[Reading]:
    """The classes read in each sequence of an output of scores, or of classes [..., steps] where it holds whole numbers."""
    scores = outputs[task.output or next(iter(outputs))]
    best = scores if scores.dtype.kind in "iu" else np.moveaxis(scores, (task.steps, task.axis), (-2, -1)).argmax(-1)
    return [_collapsed(steps, task.blank) for steps in best.reshape(-1, best.shape[-1]).tolist()]


def _collapsed(steps: Sequence[int], blank: int) -> Reading:
    """Repeats are one character, blanks none."""
    changed = [step for number, step in enumerate(steps) if number == 0 or step != steps[number - 1]]
    return tuple(step for step in changed if step != blank)


def edit_distance(one: Reading, other: Reading) -> int:
    """Characters to insert, delete or replace (Levenshtein, 1966)."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]
