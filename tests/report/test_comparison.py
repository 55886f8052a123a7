"""Differences, changes and judgements of sides made by hand.

The comparison in a terminal. The page of a comparison: whole, with nothing from elsewhere, and names as text.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.sides import FIRST, OTHER
from toolchain.report.compared_sides import BUILD, LESS, MACHINE, MORE, NEITHER, ComparedPart, Figure, Side
from toolchain.report.comparison import (
    SHOWN,
    Comparison,
    change_percent,
    coloured,
    comparison_data,
    comparison_page,
    comparison_text,
    figure_text,
    part_table,
    worsened,
)

BOTH = Comparison((FIRST, OTHER))


def test_only_differing_keys_are_told_and_parts_match_by_name() -> None:
    assert BOTH.machine == {"params.SIZE": ("4", "8")}
    assert BOTH.schedule == {"r.conv.tile.oh": ("4", "8")}
    assert list(BOTH.parts) == ["conv", "add", "pool"]
    assert (BOTH.parts["add"][1], BOTH.parts["pool"][0]) == (None, None)
    assert BOTH.letters == ("A", "B")


def test_schedules_differ_only_where_every_side_has_one() -> None:
    assert Comparison((FIRST, Side("c", BUILD, ""))).schedule == {}


def test_a_name_that_stands_twice_matches_by_its_count() -> None:
    twice = Side("c", BUILD, "", parts=(ComparedPart("conv", "conv2d", 1.0), ComparedPart("conv", "conv2d", 2.0)))
    found = Comparison((twice, twice)).parts
    assert {name: [part and part.cycles for part in row] for name, row in found.items()} == {"conv": [1.0, 1.0], "conv (2)": [2.0, 2.0]}


@pytest.mark.parametrize(("percent", "told"), [(49.9, ["'machine' is 50 % worse in B than in A"]), (50.0, [])])
def test_what_got_worse_is_judged_by_its_limit_and_bytes_never(percent: float, told: list[str]) -> None:
    assert list(worsened(BOTH, percent)) == told


def test_accuracy_that_falls_is_worse_and_a_missing_figure_too() -> None:
    back = Comparison((OTHER, FIRST, Side("c", BUILD, "")))
    assert list(worsened(back, 1.0)) == ["C says nothing of 'machine'", "'accuracy' is 1.1 % worse in B than in A", "C says nothing of 'accuracy'"]


def test_a_later_side_that_is_not_exact_is_told_also_where_the_first_was_never_verified() -> None:
    sides = [Side(name, BUILD, "", figures=figures) for name, figures in (("a", {}), ("b", {"exact": Figure(0, "yes", MORE, judged=True)}))]
    assert list(worsened(Comparison(tuple(sides)), 1.0)) == ["B is not exact"]
    right = Side("b", BUILD, "", figures={"exact": Figure(1, "yes", MORE, judged=True)})
    assert not list(worsened(Comparison((sides[0], right)), 1.0))


@given(st.floats(0.001, 1e6), st.floats(0.0, 1e6), st.sampled_from([LESS, MORE]))
def test_a_figure_is_worse_in_one_direction_alone(first: float, other: float, better: int) -> None:
    sides = [Side("s", BUILD, "", figures={"f": Figure(value, "", better, judged=True)}) for value in (first, other)]
    there, back = (list(worsened(Comparison(pair), 0.0)) for pair in ((sides[0], sides[1]), (sides[1], sides[0])))
    assert bool(there) == ((other < first) if better == MORE else (other > first))
    assert not (there and back)


def test_a_change_from_zero_has_no_share() -> None:
    assert change_percent(0.0, 1.0) is None
    assert change_percent(0.0, 0.0) == 0.0
    assert change_percent(4.0, 5.0) == 25.0
    worse = Comparison(tuple(Side("s", BUILD, "", figures={"f": Figure(value, "", LESS, judged=True)}) for value in (0.0, 1.0)))
    assert list(worsened(worse, 99.0)) == ["'f' is worse in B than in A"]


def test_the_data_is_json() -> None:
    data = json.loads(json.dumps(comparison_data(BOTH), allow_nan=False))
    assert data["figures"]["machine"][1] == {"value": 3.0, "unit": "ms", "better": LESS, "judged": True}
    assert data["operations"]["pool"][0] is None
    assert data["sides"][1] == {"name": "b<i>", "kind": "build", "title": "net on toy"}


TEXT = """\
   name  holds
A  a     net on toy
B  b<i>  net on toy

machine      A  B
params.SIZE  4  8

schedule        A  B
r.conv.tile.oh  4  8

                A        B   A to B
machine      2 ms     3 ms  +50.0 %
accuracy  90.00 %  91.00 %   +1.1 %
bytes        1 kB    500 B  -50.0 %

operation  computes  cycles A  cycles B   A to B  bytes A  bytes B  % of peak A  % of peak B  dB A  dB B
conv       conv2d         100       150  +50.0 %      2 k      1 k         50.0         40.0  30.0  31.0
add        add             20         -                 0        -            -            -     -     -
pool       max_pool         -         5                 -        0            -            -     -     -
"""


def test_the_whole_text() -> None:
    assert comparison_text(Comparison((FIRST, OTHER))) == TEXT


def test_the_same_machine_is_told_as_such() -> None:
    assert "machine: no difference\n" in comparison_text(Comparison((FIRST, FIRST)))


def test_many_keys_are_counted_and_long_values_cut() -> None:
    sides = [Side(name, MACHINE, "", {f"k{number}": name * 99 for number in range(SHOWN + 1)}) for name in "xy"]
    lines = comparison_text(Comparison((sides[0], sides[1]))).splitlines()
    assert lines[-1] == "and 1 key more"
    assert lines[5].split() == ["k0", "x" * 37 + "...", "y" * 37 + "..."]


@pytest.mark.parametrize(
    ("figure", "text"),
    [(None, "-"), (Figure(1, "yes"), "yes"), (Figure(0, "yes"), "NO"), (Figure(2048, "B"), "2.05 kB"), (Figure(1234.4), "1,234"),
     (Figure(0.123456, "ms"), "0.1235 ms"), (Figure(12.345, "%"), "12.35 %")],
)  # fmt: skip
def test_figures_have_their_units(figure: Figure | None, text: str) -> None:
    assert figure_text(figure) == text


def test_columns_without_any_value_are_left_out() -> None:
    bare = Side("c", FIRST.kind, "", parts=FIRST.parts[1:])
    assert part_table(Comparison((bare, bare)))[0] == ["operation", "computes", "cycles A", "cycles B", "A to B", "bytes A", "bytes B"]


def test_the_page_stands_alone_and_escapes_names() -> None:
    page = comparison_page(Comparison((FIRST, OTHER)))
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>\n")
    assert "b&lt;i&gt;" in page
    assert "<i>" not in page.replace('<i style="', "")
    assert "http" not in page
    assert '<td class="n worse">+50.0 %</td>' in page
    assert 'title="B: 150 cycles"' in page
    assert '<td class="key">params.SIZE</td>' in page  # long values beside it must not squeeze it


def test_colours_follow_the_better_direction() -> None:
    row = [Figure(10.0, "", LESS), Figure(11.0, "", LESS), Figure(9.0, "", LESS), None, Figure(10.0, "", LESS)]
    assert [word for word, _ in coloured(row)] == ["worse", "better", "", ""]
    assert list(coloured([Figure(1.0, "", NEITHER), Figure(2.0, "", NEITHER)])) == [("", "+100.0 %")]
