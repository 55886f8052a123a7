"""Studio pages in Chromium, as a reader uses them: one of the tutorial's machine, one of a chip for pictures, one of 32 cores."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.browser import Tab, browser, tab
from tests.report.networks import split
from toolchain.cli import main

BROWSER = browser()
PROBE = (Path(__file__).parent / "studio_probe.js").read_text()
SCHEMES = ("light", "dark")
PANELS = {"summary", "machine", "graph", "schedule", "time", "memory-map", "figures"}
FRAMES = "new Promise((tell) => { let left = 4; const next = () => (left-- ? requestAnimationFrame(next) : tell()); next(); })"
"""The next four frames: parts that came into sight are drawn by then."""
PHONE = (390, 844)
DESK = (1280, 900)
PAGES = ("digits on toy", "split on dpuv3", "split on stcp920")

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def pages(studio_page: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By their titles. A network of four nodes stands for larger ones, which bench/studio_page opens."""
    folder = tmp_path_factory.mktemp("pages")
    split(folder / "split.onnx")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for words in (["dpuv3", "split.onnx", "place=all"], ["stcp920", "split.onnx", "place=all", "streams=8", "images=4"]):
            assert main(["studio", *words, "-o", f"{words[0]}.html"]) == 0
    return dict(zip(PAGES, (studio_page, folder / "dpuv3.html", folder / "stcp920.html"), strict=True))


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with tab(str(BROWSER), tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def probe(shown: Tab) -> dict[str, Any]:
    """After the next frame is drawn."""
    shown.value("new Promise((tell) => requestAnimationFrame(() => requestAnimationFrame(tell)))")
    return shown.value(PROBE)


def places(shown: Tab, query: str, across: int = 24, up: int = 12, number: int = 0) -> list[tuple[float, float]]:
    """A grid of points on one of the elements, which is scrolled into the window first."""
    script = f"(() => {{ const found = document.querySelectorAll({json.dumps(query)})[{number}]; found.scrollIntoView({{ block: 'center' }}); \
const box = found.getBoundingClientRect(); return [box.left, box.top, box.width, box.height]; }})()"
    left, top, width, height = shown.value(script)
    return [(left + width * (x + 0.5) / across, top + height * (y + 0.5) / up) for y in range(up) for x in range(across)]


def click(shown: Tab, query: str) -> None:
    ((x, y),) = places(shown, query, 1, 1)
    for kind in ("mousePressed", "mouseReleased"):
        shown.mouse(kind, x, y, button="left", clickCount=1)


def hovered(shown: Tab, query: str, told: str) -> str:
    """The first text that the page's element `told` has while the pointer moves over one of those that the query finds."""
    for number in range(shown.value(f"document.querySelectorAll({json.dumps(query)}).length")):
        for x, y in places(shown, query, number=number):
            shown.mouse("mouseMoved", x, y)
            if text := shown.value(
                f"(() => {{ const at = document.querySelector({json.dumps(told)}); return at.hidden ? '' : at.textContent.trim(); }})()"
            ):
                return text
    return ""


@pytest.mark.parametrize("title", PAGES)
def test_every_panel_has_its_content_and_the_page_asks_nothing_of_the_network(title: str, pages: dict[str, Path], shown: Tab) -> None:
    shown.show(*DESK)
    shown.open(pages[title])
    found = probe(shown)
    assert shown.complaints() == []
    assert shown.value("document.title") == title
    assert found["panels"].keys() >= PANELS
    assert min(found["panels"].values()) > 40
    assert {"overview", "axis", "units", "memory"} < {name for name, _ in found["canvases"]}
    assert all(colours > 1 for _, colours in found["canvases"]), found["canvases"]
    assert {"Operations", "Traffic", "Accuracy by tensor", "Assumptions"} < set(found["headings"])
    assert any(head.startswith("Roofline") for head in found["headings"])
    assert found["roofs"] > 0
    assert found["noise"] > 1


@pytest.mark.parametrize("title", PAGES)
def test_a_click_on_a_node_shows_its_group_instructions_and_bytes(title: str, pages: dict[str, Path], shown: Tab) -> None:
    shown.show(*DESK)
    shown.open(pages[title])
    click(shown, ".box:not(.host)")
    found = probe(shown)
    assert shown.value("document.querySelector('.box.on title').textContent").startswith(f"{found['selected']}: ")
    assert {"group", "kernel", "tile", "time", "DRAM"} <= {*found["facts"]}
    assert found["listing"]
    number, line = found["listing"][-1]
    click(shown, f'[data-instruction="{number}"]')
    after = probe(shown)
    kind = line.removeprefix(f"{number}  ").split()[0]
    assert after["detail"].startswith(f"#{number} {kind}")
    assert shown.complaints() == []


@pytest.mark.parametrize("title", PAGES)
def test_the_pointer_names_tensors_and_instructions_and_a_range_is_summed(title: str, pages: dict[str, Path], shown: Tab) -> None:
    shown.show(*DESK)
    shown.open(pages[title])
    assert ": bytes " in hovered(shown, "#maps canvas", "#map-name")
    assert hovered(shown, "#units", "#tip").startswith("#")
    first, *_, last = places(shown, "#units")
    shown.mouse("mousePressed", *first, button="left", buttons=1, modifiers=8)
    shown.mouse("mouseMoved", last[0], first[1], button="left", buttons=1, modifiers=8)
    shown.mouse("mouseReleased", last[0], first[1], button="left", modifiers=8)
    assert "busy cycles" in probe(shown)["range"]
    assert shown.complaints() == []


@pytest.mark.parametrize("title", PAGES)
def test_maps_and_the_frame_around_the_window_move_with_the_timeline_also_while_the_reader_is_elsewhere(
    title: str, pages: dict[str, Path], shown: Tab
) -> None:
    shown.show(*DESK)
    shown.open(pages[title])
    places(shown, "#maps canvas")
    whole = moving(shown)
    for key in ("+", "+", "ArrowRight"):
        shown.call("Input.dispatchKeyEvent", type="keyDown", key=key)
    zoomed = moving(shown)
    assert [name for name in whole if whole[name] == zoomed[name]] == []
    places(shown, "#summary")
    shown.value(FRAMES)
    shown.call("Input.dispatchKeyEvent", type="keyDown", key="f")
    places(shown, "#maps canvas")
    assert moving(shown) == whole
    assert shown.complaints() == []


def moving(shown: Tab) -> dict[str, str]:
    """All that a movement of the timeline's window changes, once the page is at rest."""
    shown.value(FRAMES)
    return shown.value("""({
      window: document.getElementById("window").textContent,
      place: document.getElementById("place").getAttribute("style"),
      ...Object.fromEntries(["axis", "units"].map((id) => [id, document.getElementById(id).toDataURL()])),
      maps: [...document.querySelectorAll("#maps canvas")].slice(0, 1).map((map) => map.toDataURL()).join(),
    })""")


def test_clusters_and_cores_unfold_and_fold(pages: dict[str, Path], shown: Tab) -> None:
    shown.show(*DESK)
    shown.open(pages["split on stcp920"])
    folded = probe(shown)
    assert (folded["rows"], [text.split("%")[0].split()[0] for text in folded["folds"]]) == (4, ["▸"] * 4)
    click(shown, "#lanes .fold")
    cores = probe(shown)
    assert cores["rows"] == 4 + 6  # of eight cores six share the tiles
    click(shown, "#lanes .fold:nth-child(2)")
    assert probe(shown)["rows"] > cores["rows"]
    click(shown, "#lanes .fold")
    assert probe(shown)["rows"] == folded["rows"]
    assert shown.complaints() == []


@pytest.mark.parametrize("title", PAGES)
def test_dark_and_light_and_a_phone(title: str, pages: dict[str, Path], shown: Tab) -> None:
    """The colours follow while the page is open, and a narrow window needs no scrolling sideways."""
    shown.show(*DESK)
    shown.open(pages[title])
    seen = {}
    for scheme in SCHEMES:
        shown.show(*DESK, scheme)
        found = probe(shown)
        seen[scheme] = (found["paper"], found["ink"])
    assert seen["light"][0] > 0.9 > 0.2 > seen["light"][1]
    assert seen["dark"][0] < 0.2 < 0.8 < seen["dark"][1]
    shown.show(*PHONE, "dark")
    shown.open(pages[title])
    click(shown, ".box:not(.host)")
    phone = probe(shown)
    assert phone["wide"] <= 0
    assert phone["listing"]
    assert shown.complaints() == []
