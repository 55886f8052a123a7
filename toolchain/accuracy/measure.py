"""Task metrics against the original model and against labels; boxes are decoded, thinned out and matched.

A task that the model's outputs do not fit is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolchain.graph.nodes import shape_text
from toolchain.models.model import Classification, Detection, Embedding, Segmentation, Task, Text
from toolchain.spec.arrays import Array, Ints, Reals
from toolchain.spec.errors import UserError, fail, nearest


@dataclass(frozen=True)
class Boxes:
    """corners: [boxes, 4] as x0, y0, x1, y1, in pixels of the network's input. scores, classes: [boxes], best first."""

    corners: Reals
    scores: Reals
    classes: Ints


def boxes_of(outputs: Mapping[str, Array], task: Detection) -> Boxes:
    """The boxes of one sample that count."""
    rows = _rows(outputs[task.output or next(iter(outputs))], task)
    scored = _rows(outputs[task.scores_output], task) if task.scores_output else rows
    scores = scored[:, slice(*task.classes)] * (scored[:, task.objectness, None] if task.objectness >= 0 else 1.0)
    corners = _corners(rows[:, task.box : task.box + 4], task)
    best, classes = scores.max(1), scores.argmax(1)
    kept = np.flatnonzero(best >= task.least)
    order = kept[np.argsort(-best[kept], kind="stable")]
    found = Boxes(corners[order], best[order], classes[order].astype(np.int64))
    return _thinned(found, task.overlap)


def _rows(output: Array, task: Detection) -> Reals:
    """[rows, numbers] of one sample."""
    turned = output if task.entries == "last" else np.moveaxis(output, -2, -1)
    return turned.reshape(-1, turned.shape[-1]).astype(np.float64)


def _corners(boxes: Reals, task: Detection) -> Reals:
    placed = _off_grid(boxes, task.grid) if task.grid else boxes
    if task.form == "corners":
        return placed
    centre, half = placed[:, :2], placed[:, 2:] / 2
    return np.concatenate([centre - half, centre + half], 1)


def _off_grid(boxes: Reals, strides: tuple[int, ...]) -> Reals:
    """Centres relative to square grids of cells, sizes as logarithms (YOLOX, Ge et al., 2021); the picture is a square."""
    shares = [1 / stride**2 for stride in strides]
    side = round((len(boxes) / sum(shares)) ** 0.5)
    cells, steps = list[Reals](), list[Reals]()
    for stride in strides:
        count = side // stride
        y, x = np.mgrid[:count, :count]
        cells.append(np.stack([x.ravel(), y.ravel()], 1).astype(np.float64))
        steps.append(np.full((count * count, 1), float(stride)))
    where, step = np.concatenate(cells), np.concatenate(steps)
    with np.errstate(over="ignore"):
        return np.concatenate([(boxes[:, :2] + where) * step, np.exp(boxes[:, 2:]) * step], 1)


def overlaps(one: Reals, other: Reals) -> Reals:
    """Intersection over union [n, m] of boxes [n, 4] and [m, 4]."""
    low = np.maximum(one[:, None, :2], other[None, :, :2])
    high = np.minimum(one[:, None, 2:], other[None, :, 2:])
    inside = np.prod(np.clip(high - low, 0, None), axis=2)
    areas = [np.prod(np.clip(boxes[:, 2:] - boxes[:, :2], 0, None), axis=1) for boxes in (one, other)]
    union = areas[0][:, None] + areas[1][None] - inside
    return np.divide(inside, union, out=np.zeros_like(inside), where=union > 0)


def _thinned(boxes: Boxes, limit: float) -> Boxes:
    """Greedy non-maximum suppression within each class."""
    shared = overlaps(boxes.corners, boxes.corners) * (boxes.classes[:, None] == boxes.classes[None])
    kept: list[int] = []
    for number in range(len(boxes.scores)):
        if not kept or shared[number, kept].max() <= limit:
            kept.append(number)
    return Boxes(boxes.corners[kept], boxes.scores[kept], boxes.classes[kept])


@dataclass(frozen=True)
class Matched:
    """Boxes of the first network, those that the second has too, the second's in all, and the sum of the overlaps of matched ones."""

    wanted: int
    matched: int
    found: int
    overlap: float


def match_boxes(wanted: Boxes, found: Boxes, iou: float) -> Matched:
    """Each box of the first network, best first, takes the unclaimed box of its class that overlaps it most, from `iou` on."""
    shared = overlaps(wanted.corners, found.corners) * (wanted.classes[:, None] == found.classes[None])
    matched, total, free = 0, 0.0, np.ones(len(found.scores), bool)
    for row in shared:
        best = int(np.argmax(np.where(free, row, -1))) if free.any() else -1
        if best >= 0 and free[best] and row[best] >= iou:
            free[best] = False
            matched, total = matched + 1, total + float(row[best])
    return Matched(len(wanted.scores), matched, len(found.scores), total)


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


def check_task(task: Task, outputs: Mapping[str, Array], place: str, inputs: Mapping[str, Array] | None = None) -> None:
    """outputs, inputs: of one sample. Raises UserError E0812 for an output that is not there, or one without the axes or
    entries that the task names."""
    output = _output(task.output, outputs, place)
    match task:
        case Segmentation():
            pass
        case Classification():
            _check_axes(output, outputs, (task.axis,) if outputs[output].ndim else (), place)
        case Embedding():
            _check_axes(output, outputs, (task.axis,), place)
            _check_mask(task, outputs[output], inputs or {}, place)
        case Detection():
            scores = _output(task.scores_output or output, outputs, place)
            _check_axes(output, outputs, (-1, -2), place)
            _check_axes(scores, outputs, (-1, -2), place)
            _check_entries(task, output, scores, outputs, place)
        case _:
            whole = outputs[output].dtype.kind in "iu"
            _check_axes(output, outputs, (-1,) if whole else (task.axis, task.steps), place)


def _output(name: str, outputs: Mapping[str, Array], place: str) -> str:
    if not name:
        return next(iter(outputs))
    if name not in outputs:
        hint = nearest(name, outputs) or f"it has: {', '.join(outputs)}"
        raise fail("E0812", f"the task names the output '{name}', which the model does not have", hint=hint, place=place)
    return name


def _check_axes(name: str, outputs: Mapping[str, Array], axes: tuple[int, ...], place: str) -> None:
    rank = outputs[name].ndim
    if len({axis % rank for axis in axes if -rank <= axis < rank}) < len(axes):
        raise _unfit(name, outputs, f"the task needs the axes {' and '.join(map(str, axes))}", place)


def _check_mask(task: Embedding, output: Array, inputs: Mapping[str, Array], place: str) -> None:
    """A mask has a number for each vector."""
    vectors = output.size // max(output.shape[task.axis], 1)
    if task.mask and task.mask not in inputs:
        hint = nearest(task.mask, inputs) or f"it has: {', '.join(inputs)}"
        raise fail("E0812", f"the task names the input '{task.mask}', which the model does not have", hint=hint, place=place)
    if task.mask and inputs[task.mask].size != vectors:
        raise fail("E0812", f"the mask '{task.mask}' has {inputs[task.mask].size} numbers, the output has {vectors} vectors", place=place)


def _check_entries(task: Detection, output: str, scores: str, outputs: Mapping[str, Array], place: str) -> None:
    axis = -1 if task.entries == "last" else -2
    needed = ((output, task.box + 4), (scores, max(task.classes[1], task.objectness + 1)))
    for name, entries in needed:
        if outputs[name].shape[axis] < entries:
            raise _unfit(name, outputs, f"the task needs {entries} entries on the {task.entries} axis of a row", place)
    if task.classes[0] >= task.classes[1]:
        raise fail("E0812", f"the task's classes {list(task.classes)} are none: the first entry, and the one after the last", place=place)


def _unfit(name: str, outputs: Mapping[str, Array], text: str, place: str) -> UserError:
    return fail("E0812", f"the output '{name}' is {shape_text(outputs[name].shape)}; {text}", place=place)
