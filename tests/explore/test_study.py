"""Points and their numbers, and the order in which searches take them."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.explore.studies import STUDY
from toolchain.explore.study import Axis, Study, point_text

sizes = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@given(sizes, st.data())
def test_a_number_names_a_point(counts: list[int], data: st.DataObject) -> None:
    study = Study("m", (), tuple(Axis(f"A{place}", tuple(map(str, range(count)))) for place, count in enumerate(counts)))
    number = data.draw(st.integers(0, study.size - 1))
    assert study.number(study.point(number)) == number
    assert len({study.point(each) for each in range(study.size)}) == study.size


@given(st.integers(1, 10), st.integers(0, 5), st.sampled_from(["grid", "random"]))
def test_a_queue_has_different_points_within_the_budget_and_begins_as_shipped(budget: int, seed: int, search: str) -> None:
    study = replace(STUDY, budget=budget, seed=seed, search=search)
    points = list(study.queue())
    assert len(points) == len(set(points)) == min(budget, study.size)
    assert points[0] == ("2", "8")
    assert points == list(study.queue())


def test_a_small_grid_is_spread() -> None:
    study = replace(STUDY, budget=3, start=None)
    assert list(study.queue()) == [("1", "8"), ("2", "8"), ("4", "8")]


def test_another_budget_is_the_same_study_and_other_values_are_not() -> None:
    assert replace(STUDY, budget=3).digest == STUDY.digest
    assert replace(STUDY, seed=3).digest != STUDY.digest
    assert replace(STUDY, axes=STUDY.axes[:1]).digest != STUDY.digest


def test_a_point_in_words() -> None:
    assert point_text(STUDY, ("4", "16")) == "SIZE=4 BUS=16"
