"""Fronts against the definition, and steps counted by hand.

A study in words, as a sheet and as data. The page of a study.
"""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.explore.studies import STUDY, found
from toolchain.explore.measure import Outcome
from toolchain.explore.results import (
    StudyResult,
    better_text,
    dominates,
    front,
    measured,
    reasons_for,
    result_data,
    result_sheet,
    result_text,
    shipped,
    steps,
    study_page,
)
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


RESULT = StudyResult(STUDY, found())
TEXT = """\
digits on vta: 6 points of 6, 4 on the front, 1 refused

SIZE  BUS        ms    area  limit
4     16   0.125 ms  20 mm2  compute
4     8     0.25 ms  12 mm2  compute
2     8      0.5 ms  10 mm2  compute  as shipped
1     8        1 ms   9 mm2  compute

a step of                ms     area  pairs
SIZE       1 to 2   -50.0 %  +11.1 %      1
SIZE       2 to 4   -50.0 %  +15.5 %      2
BUS        8 to 16  -50.0 %  +73.2 %      2

1 point refused: E0106 too small
"""


def test_the_whole_text() -> None:
    assert "\n".join(line.rstrip() for line in result_text(RESULT).splitlines()) + "\n" == TEXT


def test_what_beats_the_shipped_machine_is_told_with_its_reasons() -> None:
    better = Outcome({"ms": 0.25, "area": 10.0, "bytes": 50.0}, "", ("load",))
    result = StudyResult(STUDY, found() | {("2", "16"): better})
    assert result.beaten == [("2", "16")]
    assert list(reasons_for(result, ("2", "16"))) == [
        "SIZE=2 BUS=16: BUS 8 to 16", "ms 0.5 ms to 0.25 ms (-50.0 %)", "bytes 100 B to 50 B (-50.0 %)", "limited by load, no longer by compute",
    ]  # fmt: skip
    assert better_text(result).startswith("better than as shipped: SIZE=2 BUS=16: BUS 8 to 16; ")
    assert StudyResult(replace(STUDY, start=None), found()).beaten == []


def test_a_shipped_machine_that_is_not_on_the_front_has_its_row() -> None:
    result = StudyResult(STUDY, found() | {("2", "8"): Outcome({"ms": 9.0, "area": 99.0})})
    assert [line.split()[-2:] for line in result_text(result).splitlines() if "as shipped" in line] == [["as", "shipped"]]


def test_the_sheet_has_every_point() -> None:
    rows = list(csv.DictReader(io.StringIO(result_sheet(RESULT))))
    assert len(rows) == 6
    assert (rows[1]["SIZE"], rows[1]["BUS"], rows[1]["refused"], rows[1]["ms"]) == ("1", "16", "E0106 too small", "")
    assert [row["front"] for row in rows] == ["1", "0", "1", "0", "1", "1"]


def test_the_data_is_json() -> None:
    data = json.loads(json.dumps(result_data(RESULT), allow_nan=False))
    assert data["points"][0]["values"] == {"SIZE": "1", "BUS": "8"}
    assert data["steps"][0]["pairs"] == 1
    assert sum(point["front"] for point in data["points"]) == 4


def test_points_have_parameters_on_hover_and_a_link_to_their_report() -> None:
    page = study_page(StudyResult(STUDY, found()), Path("/w/build/explore/vta"), Path("/w/build"))
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>\n")
    assert len(re.findall("<circle ", page)) == 5
    assert "<title>SIZE=4 BUS=16: ms 0.125 ms, area 20 mm2</title>" in page
    assert '<a href="../../vta+SIZE-4+BUS-16/digits/summary.txt"><circle' in page
    assert page.count('class="front shipped"') == 1
    assert "E0106 too small" in page
    assert not re.search(r"https?://|<script src|<link", page)


def test_of_three_objectives_the_picture_has_the_first_two() -> None:
    page = study_page(StudyResult(replace(STUDY, objectives=("ms", "area", "bytes")), found()), Path("/w/s"), Path("/w"))
    assert 'aria-label="points by area, mm2 and ms"' in page


def test_points_of_other_processes_are_counted() -> None:
    some = dict(list(found().items())[:4])
    assert [StudyResult(replace(STUDY, budget=budget), some).left for budget in (200, 5, 4, 3)] == [2, 1, 0, 0]
    assert StudyResult(replace(STUDY, search="bayes"), some).left == 0


def test_a_change_that_rounds_to_nothing_is_no_reason() -> None:
    base, point = found()[("2", "8")], ("4", "16")
    near = replace(base, figures={**base.figures, "ms": base.figures["ms"] * 0.9999, "area": base.figures["area"] / 2})
    assert list(reasons_for(StudyResult(STUDY, {**found(), point: near}), point))[1:] == ["area 10 mm2 to 5 mm2 (-50.0 %)"]


def test_a_machine_that_leaves_work_to_the_host_is_told_as_such() -> None:
    points = found()
    for point, total in ((("2", "8"), 1.0), (("2", "16"), 1.5), (("4", "8"), 0.9)):
        points[point] = replace(points[point], figures={**points[point].figures, "total_ms": total})
    told = "the host has more to do, and with its part it takes longer: ask for total_ms"
    assert [told in reasons_for(StudyResult(STUDY, points), point) for point in (("2", "16"), ("4", "8"))] == [True, False]


def test_a_study_without_any_result_is_a_page_too() -> None:
    page = study_page(StudyResult(STUDY, {}), Path("/w/s"), Path("/w"))
    assert "<svg" not in page
