"""Readings: axes of steps and classes wherever they are, repeats and blanks left out, and the distance of two of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from toolchain.accuracy.text import edit_distance, readings
from toolchain.models.task import Text

STEPS = [0, 3, 3, 0, 3, 5, 5, 0]
READ = (3, 3, 5)
WORDS = st.lists(st.integers(0, 3), max_size=6).map(tuple)


def scores() -> np.ndarray:
    """[steps, classes]"""
    return np.eye(7, dtype=np.float32)[STEPS]


def test_steps_and_classes_are_the_last_axes_unless_said_otherwise() -> None:
    assert readings({"y": np.stack([scores(), scores()])}, Text()) == [READ, READ]
    assert readings({"y": scores()[:, None]}, Text(steps=0)) == [READ]
    assert readings({"y": scores().T[None]}, Text(axis=1, steps=2)) == [READ]


def test_whole_numbers_are_classes_already() -> None:
    assert readings({"y": np.array([STEPS])}, Text()) == [READ]


def test_another_blank() -> None:
    assert readings({"y": scores()}, Text(blank=5)) == [(0, 3, 0, 3, 0)]


def test_a_distance_that_everybody_knows() -> None:
    assert edit_distance(tuple(map(ord, "kitten")), tuple(map(ord, "sitting"))) == 3


@given(WORDS, WORDS, WORDS)
def test_the_distance_is_a_metric(one: tuple[int, ...], other: tuple[int, ...], third: tuple[int, ...]) -> None:
    assert (edit_distance(one, other) == 0) == (one == other)
    assert edit_distance(one, other) == edit_distance(other, one) <= edit_distance(one, third) + edit_distance(third, other)
