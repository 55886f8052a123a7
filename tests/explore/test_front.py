"""Fronts against the definition, and steps counted by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.explore.studies import STUDY, found
from toolchain.explore.front import dominates, front, measured, shipped, steps
from toolchain.explore.measure import Outcome
from toolchain.explore.study import Axis, Study

pairs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=20)


@given(pairs)
def test_every_other_point_is_dominated_by_one_of_the_front_and_none_of_those_is(figures: list[tuple[int, int]]) -> None:
    known = {(str(number),): Outcome({"ms": float(a), "accuracy": float(b)}) for number, (a, b) in enumerate(figures)}
    names = ("ms", "accuracy")
    best = front(known, names)
    for point, each in known.items():
        beaten = [other for other in best if dominates(known[other], each, names)]
        assert bool(beaten) != (point in best)


def test_more_accuracy_is_better() -> None:
    one, other = Outcome({"accuracy": 99.0}), Outcome({"accuracy": 98.0})
    assert dominates(one, other, ["accuracy"])
    assert not dominates(other, one, ["accuracy"])
    assert not dominates(one, one, ["accuracy"])


def test_refused_points_are_on_no_front() -> None:
    known = found()
    assert ("1", "16") not in measured(known, STUDY.objectives)
    assert front(known, STUDY.objectives) == [("4", "16"), ("4", "8"), ("2", "8"), ("1", "8")]  # 2, 16 is as quick as 4, 8 and larger
    assert front({}, STUDY.objectives) == []


def test_steps_are_means_over_pairs_that_differ_in_one_value() -> None:
    got = {(step.axis, step.first, step.then): (step.pairs, step.percent) for step in steps(STUDY, found())}
    assert set(got) == {("SIZE", "1", "2"), ("SIZE", "2", "4"), ("BUS", "8", "16")}
    assert got["SIZE", "1", "2"][0] == 1
    assert got["SIZE", "2", "4"][0] == 2
    assert got["SIZE", "2", "4"][1]["ms"] == pytest.approx(-50)
    assert got["BUS", "8", "16"][1]["area"] == pytest.approx(100 * (((18 / 10) * (20 / 12)) ** 0.5 - 1))


def of(*axes: Axis) -> Study:
    return Study("m", ("digits",), axes)


AXES = (Axis("SIZE", ("1", "2")), Axis("config", ("a", "b")), Axis("streams", ("1", "2")))


def test_the_machine_as_shipped_is_a_point_or_none() -> None:
    assert shipped(of(*AXES), {"SIZE": 2, "OTHER": 7}, "b") == ("2", "b", "1")
    assert shipped(of(*AXES), {"SIZE": 3}, "b") is None
    assert shipped(of(*AXES, Axis("place", ("all", "least"))), {"SIZE": 2}, "b") is None
    assert shipped(of(*AXES, Axis("effort", ("1", "2"))), {"SIZE": 2}, "b") == ("2", "b", "1", "2")


def test_a_variable_with_one_value_is_the_same_for_the_shipped_machine() -> None:
    assert shipped(of(Axis("SIZE", ("1", "2")), Axis("effort", ("0",))), {"SIZE": 2}, "") == ("2", "0")
    assert shipped(of(Axis("SIZE", ("1",)), Axis("effort", ("0",))), {"SIZE": 2}, "") is None


def test_among_machines_the_shipped_one_is_the_study_s_own_with_all_of_its_kernels() -> None:
    assert shipped(of(Axis("machine", ("n", "m")), Axis("without", ("a+b", "none"))), {}, "") == ("m", "none")
    assert shipped(of(Axis("machine", ("n", "o"))), {}, "") is None
    assert shipped(of(Axis("machine", ("n",))), {}, "") is None
