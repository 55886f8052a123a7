"""Boxes: decoded, thinned out, and matched between two networks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolchain.models.task import Detection

Array = np.typing.NDArray[Any]
Floats = np.typing.NDArray[np.float64]
Ints = np.typing.NDArray[np.int64]


@dataclass(frozen=True)
class Boxes:
    """corners: [boxes, 4] as x0, y0, x1, y1, in pixels of the network's input. scores, classes: [boxes], best first."""

    corners: Floats
    scores: Floats
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


def _rows(output: Array, task: Detection) -> Floats:
    """[rows, numbers] of one sample."""
    turned = output if task.entries == "last" else np.moveaxis(output, -2, -1)
    return turned.reshape(-1, turned.shape[-1]).astype(np.float64)


def _corners(boxes: Floats, task: Detection) -> Floats:
    placed = _off_grid(boxes, task.grid) if task.grid else boxes
    if task.form == "corners":
        return placed
    centre, half = placed[:, :2], placed[:, 2:] / 2
    return np.concatenate([centre - half, centre + half], 1)


def _off_grid(boxes: Floats, strides: tuple[int, ...]) -> Floats:
    """Centres relative to square grids of cells, sizes as logarithms (YOLOX, Ge et al., 2021); the picture is a square."""
    shares = [1 / stride**2 for stride in strides]
    side = round((len(boxes) / sum(shares)) ** 0.5)
    cells, steps = list[Floats](), list[Floats]()
    for stride in strides:
        count = side // stride
        y, x = np.mgrid[:count, :count]
        cells.append(np.stack([x.ravel(), y.ravel()], 1).astype(np.float64))
        steps.append(np.full((count * count, 1), float(stride)))
    where, step = np.concatenate(cells), np.concatenate(steps)
    with np.errstate(over="ignore"):
        return np.concatenate([(boxes[:, :2] + where) * step, np.exp(boxes[:, 2:]) * step], 1)


def overlaps(one: Floats, other: Floats) -> Floats:
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
