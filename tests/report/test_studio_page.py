"""The roofline: dots by the operations' own numbers, none drawn above the roof where its rate is below, none without a peak.

The page of a build: whole in itself, the same every time, safe with any name; two inside a page stay inside.
"""

import html
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.networks import Case
from tests.report.test_timeline_data import HOSTILE, Tags
from toolchain.accuracy.closeness import Closeness
from toolchain.report.region_use import OperationUse, RegionUse
from toolchain.report.studio_page import group_numbers, pair_page, roofline, studio_page
from toolchain.report.studio_regions import StudioRegion
from toolchain.report.summary import Summary, Told, summarise_model
from toolchain.spec.load import load_machine
from toolchain.verify.built import Built
from toolchain.verify.verdict import Verified

USES = (OperationUse("wide", "conv2d", 4, 900.0, "compute", 1000.0, 200_000, 4000), OperationUse("sum", "add", 2, 10.0, "compute", 9.0, 0, 64))
REGION = RegionUse("region0", "vta", 1, 6, 1010.0, 900.0, "unit compute", USES, (), (), 1, 256)


def test_a_dot_has_its_operations_numbers() -> None:
    found = roofline(load_machine("vta"), [REGION])
    assert found
    assert (found.peak, found.bytes) == (256, 8)
    (dot,) = found.dots
    assert (dot.operation, dot.intensity, dot.rate) == ("wide", 50.0, 200.0)


def test_ticks_double_and_dots_stand_between_them() -> None:
    found = roofline(load_machine("vta"), [REGION])
    assert found
    ticks = {tick.text: tick.at for tick in found.across}
    assert ticks["32"] < found.dots[0].x < ticks["64"]
    up = {tick.text: tick.at for tick in found.up}
    assert up["256"] < found.dots[0].y < up["128"]


@pytest.mark.parametrize("uses", [(), (USES[1],)])
def test_there_is_none_without_multiplications(uses: tuple[OperationUse, ...]) -> None:
    assert roofline(load_machine("vta"), [replace(REGION, operations=uses)]) is None


def test_there_is_none_without_a_peak() -> None:
    machine = load_machine("vta")
    assert roofline(replace(machine, timing=replace(machine.timing, peak_macs=None)), [REGION]) is None


NOISE = Verified(True, 3, Closeness({}, "", None, {}), (("a", 30.0),))
TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40)


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


@pytest.mark.parametrize("programs", [True, False])
def test_each_link_leads_to_a_part_of_the_page(programs: bool, build: tuple[Built, Summary, list[StudioRegion]]) -> None:
    """A machine that runs C or graphs has neither a schedule nor a timeline."""
    built, summary, regions = build
    text = studio_page(built, summary, regions if programs else [], NOISE)
    links = re.findall(r'href="#([^"]*)"', text)
    assert ("time" in links) == programs
    assert not [link for link in links if text.count(f'id="{link}"') != 1]


def test_names_stay_text(build: tuple[Built, Summary, list[StudioRegion]]) -> None:
    built, summary, regions = build
    nodes = tuple(replace(node, reason=HOSTILE, operation=HOSTILE) for node in summary.placement.nodes)
    bad = replace(summary, model=HOSTILE, placement=replace(summary.placement, nodes=nodes))
    text, parser = studio_page(built, bad, regions, NOISE), Tags()
    parser.feed(text)
    assert parser.tags.count("script") == 2
    assert text.count("<script") == 2
    assert "{{ 1 + 1 }}" in text


@given(TEXTS, TEXTS, TEXTS)
def test_pages_come_back_as_they_were(one: str, other: str, comparison: str) -> None:
    page = pair_page(["a", "b"], [one, other], comparison)
    found = [html.unescape(text) for text in re.findall(r'srcdoc="([^"]*)"', page)]
    assert found == [comparison, one, other]
    assert page == pair_page(["a", "b"], [one, other], comparison)


def test_names_are_escaped() -> None:
    page = pair_page(["<i>a", "b"], ["", ""], "")
    assert "<i>" not in page
    assert "&lt;i&gt;a beside b</title>" in page
    assert page.endswith("</html>\n")
