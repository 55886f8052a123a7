"""The page of a build: whole in itself, the same every time, safe with any name."""

import re
from dataclasses import replace

import pytest

from tests.report.networks import Case
from tests.report.test_timeline_page import HOSTILE, Tags
from toolchain.accuracy.closeness import Closeness
from toolchain.report.studio.page import group_numbers, studio_page
from toolchain.report.studio.regions import StudioRegion
from toolchain.report.summary import Summary, Told, summarise_model
from toolchain.verify.built import Built
from toolchain.verify.verdict import Verified

NOISE = Verified(True, 3, Closeness({}, "", None, {}), (("a", 30.0),))


@pytest.fixture(scope="module")
def build(built_case: Case, regions: list[StudioRegion]) -> tuple[Built, Summary, list[StudioRegion]]:
    return built_case.built, summarise_model(built_case.built, built_case.job.folder / "graph", Told({})), regions


def test_it_needs_nothing_else_and_is_the_same_again(build: tuple[Built, Summary, list[StudioRegion]]) -> None:
    text = studio_page(*build, NOISE)
    assert text == studio_page(*build, NOISE)
    assert not re.search(r"src=|href=\"(?!#)|https?://(?!www.w3.org/2000/svg)|@import|url\((?!#)", text)
    assert text.endswith("</html>\n")


def test_all_parts_name_their_operations(build: tuple[Built, Summary, list[StudioRegion]]) -> None:
    text, (_, _, regions) = studio_page(*build, NOISE), build
    for region, operation in group_numbers(regions):
        assert text.count(f'data-operation="{region}/{operation}"') >= 3  # graph, schedule, figures
    assert 'data-operation="/gate"' in text


def test_names_stay_text(build: tuple[Built, Summary, list[StudioRegion]]) -> None:
    built, summary, regions = build
    nodes = tuple(replace(node, reason=HOSTILE, operation=HOSTILE) for node in summary.placement.nodes)
    bad = replace(summary, model=HOSTILE, placement=replace(summary.placement, nodes=nodes))
    text, parser = studio_page(built, bad, regions, NOISE), Tags()
    parser.feed(text)
    assert parser.tags.count("script") == 2
    assert text.count("<script") == 2
    assert "{{ 1 + 1 }}" in text
