"""Masks that two outputs have in common."""

import numpy as np
import pytest

from toolchain.accuracy.segmentation import mask_iou
from toolchain.models.task import Segmentation


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [([0.9, 0.8, 0.1], [0.9, 0.8, 0.1], 1), ([0.9, 0.8, 0.1], [0.9, 0.1, 0.6], 1 / 3), ([0.1], [0.2], 1), ([0.9], [0.1], 0), ([0.5], [0.6], 0)],
)
def test_intersection_over_union(one: list[float], other: list[float], wanted: float) -> None:
    assert mask_iou({"m": np.array(one)}, {"m": np.array(other)}, Segmentation()) == pytest.approx(wanted)


def test_of_a_named_output_above_a_limit() -> None:
    one, other = {"a": np.zeros(2), "m": np.array([1.0, 3.0])}, {"a": np.ones(2), "m": np.array([3.0, 3.0])}
    assert mask_iou(one, other, Segmentation("m", 2)) == 0.5
