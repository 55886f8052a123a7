"""The comparison in a terminal. The page of a comparison: whole, with nothing from elsewhere, and names as text."""

import pytest

from tests.report.comparison.sides import FIRST, OTHER
from toolchain.report.comparison.compare import Comparison
from toolchain.report.comparison.sides import LESS, MACHINE, NEITHER, Figure, Side
from toolchain.report.comparison.text import SHOWN, coloured, comparison_page, comparison_text, figure_text, part_table

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
