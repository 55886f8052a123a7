"""A study in words, as a sheet and as data. The page of a study."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

from tests.explore.studies import STUDY, found
from toolchain.explore.measure import Outcome
from toolchain.explore.results import Result, better_text, reasons_for, result_data, result_sheet, result_text, study_page

RESULT = Result(STUDY, found())
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
    result = Result(STUDY, found() | {("2", "16"): better})
    assert result.beaten == [("2", "16")]
    assert list(reasons_for(result, ("2", "16"))) == [
        "SIZE=2 BUS=16: BUS 8 to 16", "ms 0.5 ms to 0.25 ms (-50.0 %)", "bytes 100 B to 50 B (-50.0 %)", "limited by load, no longer by compute",
    ]  # fmt: skip
    assert better_text(result).startswith("better than as shipped: SIZE=2 BUS=16: BUS 8 to 16; ")
    assert Result(replace(STUDY, start=None), found()).beaten == []


def test_a_shipped_machine_that_is_not_on_the_front_has_its_row() -> None:
    result = Result(STUDY, found() | {("2", "8"): Outcome({"ms": 9.0, "area": 99.0})})
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
    page = study_page(Result(STUDY, found()), Path("/w/build/explore/vta"), Path("/w/build"))
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>\n")
    assert len(re.findall("<circle ", page)) == 5
    assert "<title>SIZE=4 BUS=16: ms 0.125 ms, area 20 mm2</title>" in page
    assert '<a href="../../vta+SIZE-4+BUS-16/digits/summary.txt"><circle' in page
    assert page.count('class="front shipped"') == 1
    assert "E0106 too small" in page
    assert not re.search(r"https?://|<script src|<link", page)


def test_of_three_objectives_the_picture_has_the_first_two() -> None:
    page = study_page(Result(replace(STUDY, objectives=("ms", "area", "bytes")), found()), Path("/w/s"), Path("/w"))
    assert 'aria-label="points by area, mm2 and ms"' in page


def test_points_of_other_processes_are_counted() -> None:
    some = dict(list(found().items())[:4])
    assert [Result(replace(STUDY, budget=budget), some).left for budget in (200, 5, 4, 3)] == [2, 1, 0, 0]
    assert Result(replace(STUDY, search="bayes"), some).left == 0


def test_a_change_that_rounds_to_nothing_is_no_reason() -> None:
    base, point = found()[("2", "8")], ("4", "16")
    near = replace(base, figures={**base.figures, "ms": base.figures["ms"] * 0.9999, "area": base.figures["area"] / 2})
    assert list(reasons_for(Result(STUDY, {**found(), point: near}), point))[1:] == ["area 10 mm2 to 5 mm2 (-50.0 %)"]


def test_a_machine_that_leaves_work_to_the_host_is_told_as_such() -> None:
    points = found()
    for point, total in ((("2", "8"), 1.0), (("2", "16"), 1.5), (("4", "8"), 0.9)):
        points[point] = replace(points[point], figures={**points[point].figures, "total_ms": total})
    told = "the host has more to do, and with its part it takes longer: ask for total_ms"
    assert [told in reasons_for(Result(STUDY, points), point) for point in (("2", "16"), ("4", "8"))] == [True, False]


def test_a_study_without_any_result_is_a_page_too() -> None:
    page = study_page(Result(STUDY, {}), Path("/w/s"), Path("/w"))
    assert "<svg" not in page
