"""Boxes: decoding, suppression and matching against plain loops, and on layouts that detectors have."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.accuracy.detection import Boxes, boxes_of, match_boxes, overlaps
from toolchain.models.task import Detection

Array = np.ndarray


def iou(one: Array, other: Array) -> float:
    """Of two boxes x0, y0, x1, y1, by counting."""
    width = max(min(one[2], other[2]) - max(one[0], other[0]), 0)
    height = max(min(one[3], other[3]) - max(one[1], other[1]), 0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    union = sum(areas) - width * height
    return width * height / union if union > 0 else 0.0


def random_boxes(seed: int, count: int) -> Array:
    rng = np.random.default_rng(seed)
    corner = rng.integers(0, 20, (count, 2))
    return np.concatenate([corner, corner + rng.integers(0, 15, (count, 2))], 1).astype(np.float64)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**20), st.integers(0, 6), st.integers(0, 6))
def test_overlaps_are_those_of_every_two(seed: int, one: int, other: int) -> None:
    a, b = random_boxes(seed, one), random_boxes(seed + 1, other)
    found = overlaps(a, b)
    assert found.shape == (one, other)
    np.testing.assert_allclose(found, np.array([[iou(x, y) for y in b] for x in a]).reshape(one, other))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**20), st.integers(1, 25), st.floats(0.1, 0.9))
def test_suppression(seed: int, count: int, limit: float) -> None:
    """Best first, within each class: what stays overlaps nothing better by more than the limit, what goes overlaps something that stayed."""
    rng = np.random.default_rng(seed)
    rows = np.concatenate([random_boxes(seed, count), rng.random((count, 3))], 1)
    task = Detection(classes=(4, 7), least=0.3, overlap=limit)
    found = boxes_of({"y": rows[None]}, task)
    scores, classes = rows[:, 4:].max(1), rows[:, 4:].argmax(1)
    wanted: list[int] = []
    for k in np.argsort(-scores, kind="stable"):
        if scores[k] >= 0.3 and all(classes[k] != classes[j] or iou(rows[k, :4], rows[j, :4]) <= limit for j in wanted):
            wanted.append(int(k))
    np.testing.assert_array_equal(found.corners, rows[wanted, :4])
    np.testing.assert_array_equal(found.scores, scores[wanted])
    np.testing.assert_array_equal(found.classes, classes[wanted])


def test_centres_and_an_objectness() -> None:
    rows = np.array([[10, 20, 4, 6, 0.5, 0.2, 0.8]])
    found = boxes_of({"y": rows}, Detection(form="centre", objectness=4, classes=(5, 7)))
    assert found.corners.tolist() == [[8, 17, 12, 23]]
    assert found.scores.tolist() == [0.4]
    assert found.classes.tolist() == [1]


def test_entries_first_and_scores_elsewhere() -> None:
    rows = np.array([[0, 0, 4, 4], [10, 10, 14, 14]], np.float32)
    scores = np.array([[0.9, 0.1], [0.2, 0.7]], np.float32)
    outputs = {"boxes": rows.T[None], "scores": scores.T[None]}
    found = boxes_of(outputs, Detection("boxes", "scores", entries="first", classes=(0, 2)))
    assert found.corners.tolist() == rows.tolist()
    assert found.classes.tolist() == [0, 1]


def test_a_grid_of_cells() -> None:
    """Strides 8 and 16 on a picture of 32: sixteen cells and four; offsets in cells, sizes as logarithms of them."""
    rows = np.zeros((20, 5))
    rows[[5, 18], 4] = 1
    rows[5, :4] = 0.5, 0.25, np.log(2), 0
    rows[18, :4] = 0, 0, 0, 0
    found = boxes_of({"y": rows}, Detection(form="centre", grid=(8, 16)))
    assert found.corners.tolist() == [[4, 6, 20, 14], [-8, 8, 8, 24]]


def test_nothing_found_is_no_box() -> None:
    assert len(boxes_of({"y": np.zeros((4, 5))}, Detection()).scores) == 0


def boxes(*corners: tuple[float, float, float, float], classes: tuple[int, ...] = ()) -> Boxes:
    return Boxes(np.array(corners, np.float64).reshape(-1, 4), np.linspace(1, 0.5, len(corners)), np.array(classes or (0,) * len(corners), np.int64))


@pytest.mark.parametrize(
    ("wanted", "found", "counts"),
    [
        (boxes((0, 0, 4, 4)), boxes((0, 0, 4, 4)), (1, 1, 1, 1.0)),
        (boxes((0, 0, 4, 4)), boxes((0, 0, 4, 3)), (1, 1, 1, 0.75)),
        (boxes((0, 0, 4, 4)), boxes((0, 0, 4, 2)), (1, 0, 1, 0.0)),
        (boxes((0, 0, 4, 4)), boxes((0, 0, 4, 4), classes=(1,)), (1, 0, 1, 0.0)),
        (boxes((0, 0, 4, 4), (0, 0, 4, 4)), boxes((0, 0, 4, 4)), (2, 1, 1, 1.0)),
        (boxes(), boxes((0, 0, 4, 4)), (0, 0, 1, 0.0)),
        (boxes((0, 0, 4, 4)), boxes(), (1, 0, 0, 0.0)),
        (boxes((0, 0, 4, 4), (0, 0, 4, 3)), boxes((0, 0, 4, 3), (0, 0, 4, 4)), (2, 2, 2, 2.0)),
    ],
)
def test_matching(wanted: Boxes, found: Boxes, counts: tuple[int, int, int, float]) -> None:
    matched = match_boxes(wanted, found, 0.7)
    assert (matched.wanted, matched.matched, matched.found, matched.overlap) == counts
