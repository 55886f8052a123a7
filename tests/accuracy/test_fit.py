"""A task that the outputs cannot fulfil is told in one line; one that they can is then measured without a traceback."""

import numpy as np
import pytest

from toolchain.accuracy.fit import check_task
from toolchain.accuracy.measure import measure_task
from toolchain.models.task import Classification, Detection, Embedding, Segmentation, Task, Text
from toolchain.spec.errors import UserError

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
