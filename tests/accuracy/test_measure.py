"""The figure of each task: 1 for a network against itself, and what is lost is counted as a user would.

A task that the outputs cannot fulfil is told in one line; one that they can is then measured without a traceback.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.accuracy.measure import (
    Boxes,
    agreement,
    answers,
    boxes_of,
    check_task,
    edit_distance,
    mask_iou,
    match_boxes,
    measure_task,
    overlaps,
    readings,
    right_share,
)
from toolchain.models.model import Classification, Detection, Embedding, Segmentation, Task, Text
from toolchain.spec.errors import UserError

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


RNG = np.random.default_rng(0)
SCORES = [{"y": RNG.normal(size=(1, 10))} for _ in range(5)]
ROWS = [{"y": np.array([[0, 0, 10, 10, 0.9], [50, 50, 60, 60, 0.8]])} for _ in range(3)]
STEPS = [{"y": np.eye(4)[None, [0, 1, 1, 0, 2, 3]]}, {"y": np.eye(4)[None, [1, 0, 1, 2, 2, 2]]}]
Outputs = list[dict[str, np.ndarray]]
TASKS: list[tuple[Task, Outputs]] = [(Classification(), SCORES), (Detection(), ROWS), (Segmentation(limit=0), SCORES), (Text(), STEPS)]
PLACES = np.array([[[1, 5, 2], [7, 0, 1]]], np.float32)
CLASSES = [0, 3, 3, 0, 3, 5, 5, 0]
READ = (3, 3, 5)
WORDS = st.lists(st.integers(0, 3), max_size=6).map(tuple)


@pytest.mark.parametrize(("task", "outputs"), TASKS)
def test_a_network_does_its_own_work(task: Task, outputs: Outputs) -> None:
    assert measure_task(task, outputs, outputs).share == 1
    assert measure_task(task, [], []).share == 1


def test_classification_and_labels() -> None:
    found = [{"y": -sample["y"]} if k < 2 else sample for k, sample in enumerate(SCORES)]
    measured = measure_task(Classification(), SCORES, found)
    assert (measured.share, measured.text) == (0.6, "60.00 % of first answers as in floating point")
    labels = [int(sample["y"].argmax()) for sample in SCORES]
    assert right_share(Classification(), found, labels) == 0.6
    assert right_share(None, SCORES, labels) == 1
    assert right_share(Classification(), SCORES, None) is None
    assert right_share(Detection(), ROWS, [0, 0, 0]) is None


def test_detection_counts_boxes_that_are_missing_and_further_ones() -> None:
    other = np.array([[0, 0, 10, 9.5, 0.9], [80, 80, 90, 90, 0.8], [50, 20, 60, 30, 0.7]])
    measured = measure_task(Detection(), ROWS[:1], [{"y": other}])
    assert measured.share == 2 * 1 / (2 + 3)
    assert measured.text == "1 of 2 boxes found at IoU 0.9 (mean 0.950), 2 further ones"


def test_segmentation_tells_the_worst() -> None:
    one, other = np.array([1.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0])
    measured = measure_task(Segmentation(), [{"m": one}, {"m": one}], [{"m": one}, {"m": other}])
    assert (measured.share, measured.text) == (0.75, "masks overlap by 0.750 IoU, the worst by 0.500")


def test_text_counts_edits() -> None:
    """1 2 3 and 1 1 2 were read; the second comes out as 1 2."""
    found = [STEPS[0], {"y": np.eye(4)[None, [1, 1, 1, 2, 2, 2]]}]
    measured = measure_task(Text(), STEPS, found)
    assert (measured.share, measured.text) == (0.5, "1 of 2 texts equal, 1 edits in 6 characters")


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [([0.9, 0.8, 0.1], [0.9, 0.8, 0.1], 1), ([0.9, 0.8, 0.1], [0.9, 0.1, 0.6], 1 / 3), ([0.1], [0.2], 1), ([0.9], [0.1], 0), ([0.5], [0.6], 0)],
)
def test_intersection_over_union(one: list[float], other: list[float], wanted: float) -> None:
    assert mask_iou({"m": np.array(one)}, {"m": np.array(other)}, Segmentation()) == pytest.approx(wanted)


def test_of_a_named_output_above_a_limit() -> None:
    one, other = {"a": np.zeros(2), "m": np.array([1.0, 3.0])}, {"a": np.ones(2), "m": np.array([3.0, 3.0])}
    assert mask_iou(one, other, Segmentation("m", 2)) == 0.5


def test_answers_along_an_axis() -> None:
    assert answers({"y": PLACES}, Classification()).tolist() == [[1, 0]]
    assert answers({"y": PLACES}, Classification(axis=1)).tolist() == [[1, 0, 0]]
    assert answers({"a": -PLACES, "y": PLACES}, Classification(output="y")).tolist() == [[1, 0]]
    assert answers({"y": np.float32(3)}, Classification()).tolist() == [0]


def test_agreement_counts_every_place() -> None:
    other = PLACES.copy()
    other[0, 1] = 0, 9, 0
    assert agreement({"y": PLACES}, {"y": other}, Classification()) == (1, 2)
    assert agreement({"y": PLACES}, {"y": PLACES * 2 + 1}, Classification()) == (2, 2)


def scores() -> np.ndarray:
    """[steps, classes]"""
    return np.eye(7, dtype=np.float32)[CLASSES]


def test_steps_and_classes_are_the_last_axes_unless_said_otherwise() -> None:
    assert readings({"y": np.stack([scores(), scores()])}, Text()) == [READ, READ]
    assert readings({"y": scores()[:, None]}, Text(steps=0)) == [READ]
    assert readings({"y": scores().T[None]}, Text(axis=1, steps=2)) == [READ]


def test_whole_numbers_are_classes_already() -> None:
    assert readings({"y": np.array([CLASSES])}, Text()) == [READ]


def test_another_blank() -> None:
    assert readings({"y": scores()}, Text(blank=5)) == [(0, 3, 0, 3, 0)]


def test_a_distance_that_everybody_knows() -> None:
    assert edit_distance(tuple(map(ord, "kitten")), tuple(map(ord, "sitting"))) == 3


@given(WORDS, WORDS, WORDS)
def test_the_distance_is_a_metric(one: tuple[int, ...], other: tuple[int, ...], third: tuple[int, ...]) -> None:
    assert (edit_distance(one, other) == 0) == (one == other)
    assert edit_distance(one, other) == edit_distance(other, one) <= edit_distance(one, third) + edit_distance(third, other)


def test_vectors_by_their_direction_without_padding() -> None:
    """Two sentences of two words: of one the second word is padding."""
    one, other = np.array([[[1.0, 0], [0, 1]]]), np.array([[[2.0, 0], [1, 0]]])
    wanted, found = [{"v": one}] * 2, [{"v": other}] * 2
    assert measure_task(Embedding(), wanted, found).share == pytest.approx(0.5)
    masks = [{"mask": np.array([[1, 0]])}, {"mask": np.array([[1, 1]])}]
    measured = measure_task(Embedding(mask="mask"), wanted, found, masks)
    assert measured.share == pytest.approx(2 / 3)
    assert measured.text == "cosine 0.6667 with the float network's, the worst 0.0000"


def test_vectors_that_are_zero() -> None:
    zero, one = np.zeros((1, 3)), np.ones((1, 3))
    assert measure_task(Embedding(), [{"v": zero}], [{"v": zero}]).share == 1
    assert measure_task(Embedding(), [{"v": zero}], [{"v": one}]).share == 0


OUTPUTS = {
    "scores": np.zeros((1, 10), np.float32),
    "rows": np.zeros((1, 8, 6), np.float32),
    "turned": np.zeros((1, 22, 8), np.float32),
    "read": np.zeros((1, 7), np.int64),
    "number": np.zeros((), np.float32),
}
FITTING = [
    Classification(),
    Classification("rows", 1),
    Classification("number"),
    Segmentation("rows"),
    Detection("rows"),
    Detection("rows", classes=(5, 6), objectness=4),
    Detection("turned", entries="first", classes=(4, 22)),
    Text("rows"),
    Text("rows", axis=1, steps=2),
    Text("read"),
]
UNFIT: dict[str, Task] = {
    "the task names the output 'score', which the model does not have; did you mean 'scores'?": Classification("score"),
    "the output 'scores' is 1x10; the task needs the axes 2": Classification("scores", 2),
    "the output 'scores' is 1x10; the task needs the axes -3 and -2": Text("scores", axis=-3),
    "the output 'rows' is 1x8x6; the task needs the axes -1 and 2": Text("rows", axis=-1, steps=2),
    "the output 'rows' is 1x8x6; the task needs 9 entries on the last axis of a row": Detection("rows", box=5),
    "the output 'rows' is 1x8x6; the task needs 7 entries on the last axis of a row": Detection("rows", objectness=6),
    "the output 'turned' is 1x22x8; the task needs 23 entries on the first axis of a row": Detection("turned", entries="first", classes=(4, 23)),
    "the output 'number' is scalar; the task needs the axes -1 and -2": Detection("number"),
    "the task's classes [5, 5] are none": Detection("rows", classes=(5, 5)),
    "the task names the output 'boxes'": Detection("rows", scores_output="boxes"),
}


@pytest.mark.parametrize("task", FITTING, ids=str)
def test_what_fits_is_measured(task: Task) -> None:
    check_task(task, OUTPUTS, "net.yaml")
    assert measure_task(task, [OUTPUTS], [OUTPUTS]).share == 1


@pytest.mark.parametrize("told", UNFIT)
def test_what_does_not_fit_is_told(told: str) -> None:
    with pytest.raises(UserError) as caught:
        check_task(UNFIT[told], OUTPUTS, "net.yaml")
    assert str(caught.value).startswith(f"net.yaml: E0812 {told}")


@pytest.mark.parametrize(
    ("task", "message"),
    [(Embedding("v", mask="mask"), "which the model does not have"), (Embedding("v", mask="ids"), "has 3 numbers, the output has 2 vectors")],
)
def test_a_mask_has_a_number_for_each_vector(task: Embedding, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_task(task, {"v": np.zeros((1, 2, 4))}, "m.yaml", {"ids": np.zeros((1, 3))})
    check_task(Embedding("v", mask="ids"), {"v": np.zeros((1, 3, 4))}, "m.yaml", {"ids": np.zeros((1, 3))})
