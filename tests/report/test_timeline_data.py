"""The data of a timeline: columns of the program's own numbers in few bytes. The timeline page: whole in itself, safe with any name, the same
every time; in a browser it says what the summary says."""

import base64
import re
import subprocess
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.browser import browser, unpacked
from tests.report.networks import cases
from tests.timing.test_trace import small
from toolchain.graph.regions import region_calls
from toolchain.report.timeline_data import GraphNode, Legend, Packed, packed, page_data, region_legend, timeline_page, write_timeline_page
from toolchain.timing.simulate import Timeline
from toolchain.timing.usage import summarise
from toolchain.verify.built import program_of_build

BROWSER = browser()
HOSTILE = "</script><script>document.title = 'taken'</script>{{ 1 + 1 }}"
browsed = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")


def starts(data: Mapping[str, Any]) -> NDArray[np.float64]:
    """Cycles, from the steps between those of each lane."""
    lane, step = unpacked(data["columns"]["lane"]), unpacked(data["columns"]["step"]).astype(np.int64)
    found = np.zeros(len(lane))
    for number in range(len(data["lanes"])):
        found[lane == number] = np.cumsum(step[lane == number]) / 1000
    return found


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> tuple[Timeline, Legend]:
    built = cases(tmp_path_factory.mktemp("cases"))["split on dpuv3"].built
    tested = program_of_build(built, region_calls(built.partitioned)[0])
    return tested.timeline, region_legend(tested)


@given(st.lists(st.integers(-(1 << 52), 1 << 52)))
def test_integers_come_back_from_the_least_room(values: list[int]) -> None:
    column = packed(np.array(values, np.int64))
    assert unpacked(column).tolist() == values
    least = next((size for size in (1, 2, 4) if all(-(1 << (8 * size - 1)) <= value < 1 << (8 * size - 1) for value in values)), 8)
    assert room(column) <= least * len(values)


@given(st.lists(st.sampled_from([0.0, 0.5, 1e9]), min_size=40))
def test_few_distinct_numbers_take_a_byte_each(values: list[float]) -> None:
    column = packed(np.array(values))
    assert unpacked(column).tolist() == values
    assert room(column) == len(values) + 8 * len(set(values))


def room(column: Packed) -> int:
    """Bytes."""
    return len(base64.b64decode(column["data"])) + (room(column["of"]) if "of" in column else 0)


def test_columns_have_an_entry_an_instruction(region: tuple[Timeline, Legend]) -> None:
    timeline, legend = region
    data = page_data("t", timeline, legend)
    columns = {name: unpacked(column) for name, column in data["columns"].items()}
    assert {len(column) for column in [*columns.values(), data["text"], data["footprint"]]} == {len(timeline.program)}
    start = starts(data)
    assert start.tolist() == timeline.result.start.tolist()
    assert (start + columns["length"]).tolist() == timeline.result.end.tolist()
    back = columns["back"].astype(np.int64)
    assert np.where(back == 0, -1, np.arange(len(back)) - back).tolist() == timeline.result.producer.tolist()
    assert columns["waited"].tolist() == timeline.waited.tolist()
    assert [node["name"] for node in data["operations"]] == [node.name for node in legend.nodes] != []
    late = {i for i in range(len(timeline.program)) if timeline.waited[i] > 0 or timeline.contended[i] > 0 or timeline.held[i] > 0}
    assert set(data["causes"]) == late != set()


def test_a_long_program_leaves_its_listing_out(region: tuple[Timeline, Legend]) -> None:
    data = page_data("t", *region, most_listed=len(region[0].program) - 1)
    assert "text" not in data
    assert "footprint" not in data
    assert data["causes"] == {}


def test_operations_are_joined_by_what_they_read(region: tuple[Timeline, Legend]) -> None:
    for number, node in enumerate(region[1].nodes):
        assert all(0 <= other < number for other in node.reads)


class Tags(HTMLParser):
    """Keeps the names of elements."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)


def shown(path: Path, hash_part: str = "") -> str:
    """The page's elements after its script has run."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={path.parent / 'profile'}", "--virtual-time-budget=4000", "--dump-dom"]
    run = subprocess.run([str(BROWSER), *flags, f"file://{path}{hash_part}"], capture_output=True, text=True, timeout=120, check=True)
    return run.stdout


def test_it_needs_nothing_else_and_is_the_same_again(region: tuple[Timeline, Legend]) -> None:
    text = timeline_page("a region", *region)
    assert text == timeline_page("a region", *region)
    assert not re.search(r"src=|href=|https?://(?!www.w3.org/2000/svg)|@import|url\(", text)
    assert text.endswith("</html>\n")


def test_names_stay_text() -> None:
    timeline = small()
    count = len(timeline.program)
    text = timeline_page(HOSTILE, timeline, Legend((GraphNode(HOSTILE, "add", ()),), [0] * count, [HOSTILE] * count))
    parser = Tags()
    parser.feed(text)
    assert parser.tags.count("script") == 2
    assert text.count("<script") == 2
    assert "{{ 1 + 1 }}" in text


def test_the_name_of_a_file_need_not_be_utf_8(tmp_path: Path) -> None:
    write_timeline_page(tmp_path / "page.html", "p\udcff.asm on vta", small())
    assert "<title>p?.asm on vta</title>" in (tmp_path / "page.html").read_text()


@browsed
def test_a_browser_shows_utilisation_operations_and_memories(region: tuple[Timeline, Legend], tmp_path: Path) -> None:
    timeline, legend = region
    write_timeline_page(tmp_path / "page.html", "a region", timeline, legend)
    page = shown(tmp_path / "page.html")
    assert f'data-instructions="{len(timeline.program)}"' in page
    for unit in summarise(timeline).units:
        if unit.instructions:
            busy = float(
                np.sum(
                    (timeline.result.end - timeline.result.start)[
                        timeline.program.unit == [u.name for u in timeline.program.machine.units].index(unit.name)
                    ]
                )
            )
            assert re.search(rf"<b>{unit.name}</b><span>{100 * busy / timeline.cycles:.1f} %</span>", page)
    assert page.count("<li") == len(legend.nodes)
    assert page.count("<path") == sum(len(node.reads) for node in legend.nodes)
    assert re.search(r"<b>fm</b><span>[0-9.]+ %</span>", page)
    assert f"{len(timeline.program)} instructions" in page


@browsed
def test_a_browser_finds_and_explains_an_instruction(region: tuple[Timeline, Legend], tmp_path: Path) -> None:
    timeline, legend = region
    write_timeline_page(tmp_path / "page.html", "a region", timeline, legend)
    data = page_data("a region", timeline, legend)
    late = next(iter(data["causes"]))
    page = shown(tmp_path / "page.html", f"#choose={late}")
    detail = re.search(r'<pre id="detail">(.*?)</pre>', page, re.DOTALL)
    assert detail
    assert detail[1].startswith(f"#{late} {data['kinds'][timeline.program.kind[late]]}")
    assert data["causes"][late][0] in detail[1]
    assert data["footprint"][late] in detail[1]
    wanted = sum("CONVINIT" in text for text in data["text"])
    assert re.search(rf'<span id="matches">{wanted} of ', shown(tmp_path / "page.html", "#find=convinit"))


@browsed
def test_a_range_of_time_is_summed_by_kind_and_by_operation(region: tuple[Timeline, Legend], tmp_path: Path) -> None:
    timeline, legend = region
    write_timeline_page(tmp_path / "page.html", "a region", timeline, legend)
    page = shown(tmp_path / "page.html", f"#range=0-{int(timeline.cycles) + 1}")
    kinds = [timeline.program.machine.instructions[int(kind)].name for kind in timeline.program.kind]
    spent = timeline.result.end - timeline.result.start
    for kind in set(kinds):
        cycles = sum(float(length) for name, length in zip(kinds, spent, strict=True) if name == kind)
        if cycles > 0:
            assert f"<tr><td>{kind}</td><td>{cycles:,.10g}</td>" in page


@browsed
def test_a_hostile_name_does_not_run(tmp_path: Path) -> None:
    timeline = small()
    count = len(timeline.program)
    write_timeline_page(tmp_path / "page.html", HOSTILE, timeline, Legend((GraphNode(HOSTILE, "add", ()),), [0] * count, [HOSTILE] * count))
    page = shown(tmp_path / "page.html")
    assert "<title>taken" not in page
    assert f'data-instructions="{count}"' in page


CLICKS = """<script>
const told = () => [...document.querySelectorAll("#lanes > *")].map((row) => row.firstChild.textContent).join("|");
const note = () => document.body.insertAdjacentHTML("beforeend", `<h6>${told()}</h6>`);
window.addEventListener("load", () => { note(); document.querySelector("#lanes .fold").click(); note(); });
</script>
"""


@browsed
def test_cores_fold_and_so_do_clusters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("toolchain.report.timeline_data._lane", lambda _, number: (f"cluster {number // 2} core {number % 2}", "unit"))
    timeline = small()
    count = len({(int(stream), int(unit)) for stream, unit in zip(timeline.program.stream, timeline.program.unit, strict=True)})
    assert count >= 3
    (tmp_path / "page.html").write_text(timeline_page("clusters", timeline, Legend()).replace("</body>", f"{CLICKS}</body>"))
    before, after = (each.split("|") for each in re.findall(r"<h6>([^<$]*)</h6>", shown(tmp_path / "page.html")))
    first = ["▾ cluster 0", "▾ core 0", "unit", "▾ core 1", "unit", "▾ cluster 1", "▾ core 0", "unit"]
    assert before[: len(first)] == first
    assert after == ["▸ cluster 0", *before[5:]]
