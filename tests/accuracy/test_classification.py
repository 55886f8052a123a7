"""First answers, and how many of them agree."""

import numpy as np

from toolchain.accuracy.classification import agreement, answers
from toolchain.models.task import Classification

SCORES = np.array([[[1, 5, 2], [7, 0, 1]]], np.float32)


def test_answers_along_an_axis() -> None:
    assert answers({"y": SCORES}, Classification()).tolist() == [[1, 0]]
    assert answers({"y": SCORES}, Classification(axis=1)).tolist() == [[1, 0, 0]]
    assert answers({"a": -SCORES, "y": SCORES}, Classification(output="y")).tolist() == [[1, 0]]
    assert answers({"y": np.float32(3)}, Classification()).tolist() == [0]


def test_agreement_counts_every_place() -> None:
    other = SCORES.copy()
    other[0, 1] = 0, 9, 0
    assert agreement({"y": SCORES}, {"y": other}, Classification()) == (1, 2)
    assert agreement({"y": SCORES}, {"y": SCORES * 2 + 1}, Classification()) == (2, 2)
