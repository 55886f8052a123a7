"""The page of a comparison: whole, with nothing from elsewhere, and names as text."""

from tests.report.comparison.sides import FIRST, OTHER
from toolchain.report.comparison.compare import Comparison
from toolchain.report.comparison.page import coloured, comparison_page
from toolchain.report.comparison.side import LESS, NEITHER, Figure


def test_the_page_stands_alone_and_escapes_names() -> None:
    page = comparison_page(Comparison((FIRST, OTHER)))
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>\n")
    assert "b&lt;i&gt;" in page
    assert "<i>" not in page.replace('<i style="', "")
    assert "http" not in page
    assert '<td class="n worse">+50.0 %</td>' in page
    assert 'title="B: 150 cycles"' in page


def test_colours_follow_the_better_direction() -> None:
    row = [Figure(10.0, "", LESS), Figure(11.0, "", LESS), Figure(9.0, "", LESS), None, Figure(10.0, "", LESS)]
    assert [word for word, _ in coloured(row)] == ["worse", "better", "", ""]
    assert list(coloured([Figure(1.0, "", NEITHER), Figure(2.0, "", NEITHER)])) == [("", "+100.0 %")]
