"""The page of a study."""

import re
from pathlib import Path

from tests.explore.studies import STUDY, found
from toolchain.explore.page import study_page
from toolchain.explore.text import Result


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


def test_a_study_without_any_result_is_a_page_too() -> None:
    page = study_page(Result(STUDY, {}), Path("/w/s"), Path("/w"))
    assert "<svg" not in page
