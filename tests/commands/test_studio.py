"""`tilewright studio`: one page of a build; in a browser it opens without errors, and a link to an operation shows its listing."""

import html
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from bench.browser import browser
from toolchain.cli import main
from toolchain.commands.studio import named
from toolchain.spec.errors import UserError

BROWSER = browser()
ROOT = Path(__file__).resolve().parents[2]
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--virtual-time-budget=4000", "--enable-logging=stderr")


def shown(page: Path, fragment: str) -> tuple[str, str]:
    """The page's elements after its script has run, and the lines of the browser's console."""
    words = [str(BROWSER), *FLAGS, f"--user-data-dir={page.parent / 'profile'}", "--dump-dom", f"file://{page}#{fragment}"]
    run = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    return run.stdout, "\n".join(line for line in run.stderr.splitlines() if ":CONSOLE" in line)


@pytest.fixture(scope="module")
def pair(studio_page: Path) -> Path:
    """The same beside what another search finds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(studio_page.parents[3])
        assert main(["studio", "toy", "digits", "--beside", "search=greedy"]) == 0
    return studio_page.parent / "beside.html"


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_two_builds_stand_beside_each_other_with_one_selection(pair: Path, tmp_path: Path) -> None:
    text = pair.read_text()
    assert text.count("<iframe") == 3
    assert "build/toy/digits@search-greedy" in text
    told = text.replace("</script>\n</body>", "</script>\n" + TELL + "</body>")
    (tmp_path / "pair.html").write_text(told)
    dom, console = shown(tmp_path / "pair.html", "operation=conv2")
    assert console == ""
    assert re.findall(r"<h6>(\w+)</h6>", dom) == ["conv2", "conv2", "conv4", "conv4"]


TELL = """<script>
const told = (frame) => frame.contentDocument.querySelector("#selected h2").textContent;
const note = () => { for (const each of frames) document.body.insertAdjacentHTML("beforeend", `<h6>${told(each)}</h6>`); };
window.addEventListener("load", () => setTimeout(() => {
  note();
  frames[1].contentDocument.querySelector('[data-operation$="/conv4"]').dispatchEvent(new MouseEvent("click", { bubbles: true }));
  setTimeout(note, 500);
}, 500));
</script>
"""
"""Notes the selection of both builds, clicks an operation in the second one, and notes it again."""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_a_profile_stands_in_lanes_of_its_own(studio_page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(studio_page.parents[3])
    Path("p.csv").write_text("operation,start_cycles,end_cycles,misses\nconv2,0,5000,12\nconv3,6000,7000,30\n")
    assert main(["studio", "toy", "digits", "--profile", "p.csv", "-o", "measured.html"]) == 0
    dom, console = shown(studio_page.parents[3] / "measured.html", "operation=conv2")
    assert console == ""
    assert re.search(r"<summary>measured: region0 on toy: 2 of \d+ operations measured; 7,000 cycles", dom)
    assert len(re.findall(r">▾ (modelled|measured)<", dom)) == 2
    listed = re.findall(r'data-instruction="(\d+)"', dom)
    assert len(listed) == len(set(listed)) > 0
    assert re.search(r"<th>measured</th><td>5,000 cycles, [\d,]+ by the model; starts \+0 cycles from it</td>", dom)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--profile", "none.csv"], "none.csv: E0001"),
        (["--profile", "p.csv", "--beside", "search=greedy"], "E0002 --profile is of one build, and --beside shows two"),
    ],
)
def test_a_profile_that_is_none_is_refused(
    words: list[str], error: str, studio_page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(studio_page.parents[3])
    assert main(["studio", "toy", "digits", *words]) == 1
    assert error in capsys.readouterr().err


@pytest.mark.parametrize("word", ["html=no", "params=LOG_BUS:3"])
def test_a_build_beside_itself_is_refused(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["studio", "target=vta", "model=digits", "params=LOG_BUS:3", "--beside", word]) == 1
    assert "E0002 --beside is no other build" in capsys.readouterr().err


def test_the_same_build_gives_the_same_page(studio_page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(studio_page.parents[3])
    assert main(["studio", "target=toy", "model=digits", "-o", "again.html"]) == 0
    assert studio_page.read_bytes() == Path("again.html").read_bytes()


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_a_link_to_an_operation_shows_its_listing(studio_page: Path) -> None:
    dom, console = shown(studio_page, "operation=conv2")
    assert console == ""
    told = dom[dom.index('id="selected"') : dom.index('type="application/json"')]
    assert "<h2>conv2</h2>" in told
    assembly = (studio_page.parent / "bundle" / "region0.asm").read_text()
    listing = (studio_page.parent / "bundle" / "region0.txt").read_text().splitlines()
    own = [line.split()[0] for line in listing if line.split()[2:3] == ["conv2"]]
    assert re.findall(r'data-instruction="(\d+)"', told) == own != []
    lines = re.findall(r'data-instruction="\d+">\d+  (.*?)<small>', told)
    assert all(html.unescape(line) in assembly for line in lines)
    assert re.search(r'class="box on" data-operation="region0/conv2"', dom)
    assert re.search(r'<li [^>]*class="[^"]*on[^"]*"[^>]*>conv2<', dom)


def test_clean_takes_the_page_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "build" / "vta" / "digits" / "studio.html"
    page.parent.mkdir(parents=True)
    page.write_text("")
    page.with_name("beside.html").write_text("")
    assert main(["clean", "target=vta", "model=digits", "-n"]) == 0
    assert page.exists()
    assert main(["clean", "target=vta", "model=digits"]) == 0
    assert not page.parent.exists()


def test_words_without_a_name_are_the_machine_and_the_model() -> None:
    assert named(["vta", "html=no", "digits"]) == ["target=vta", "model=digits", "html=no"]
    with pytest.raises(UserError, match="E0002"):
        named(["a", "b", "c"])


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_the_bench_measures_a_page_and_its_program_repeated(
    studio_page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process: what it imports is there already. Exit 1 is a limit that a busy machine breaks."""
    words = [str(studio_page), "--instructions", "20000", "--frames", "20", "--pictures", str(tmp_path / "pictures")]
    monkeypatch.setattr(sys, "argv", ["studio_page", *words])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "bench" / "studio_page"), run_name="__main__")
    assert ended.value.code in (0, 1)
    head, _, row = capsys.readouterr().out.splitlines()
    cells = dict(zip(head.split(" | "), row.strip("| ").split(" | "), strict=True))
    assert int(cells["instructions"].replace(",", "")) >= 20_000
    assert float(cells["first paint ms"]) > 0
    assert 0 < float(cells["view ms: half"]) <= float(cells["of 20, 19"])
    assert 0 < float(cells["frames/s |"]) < 100
    assert {path.read_bytes()[:4] for path in (tmp_path / "pictures").iterdir()} == {b"\x89PNG"}


@pytest.mark.parametrize(("changes", "within"), [({}, True), ({"late": 17.0}, False), ({"paint": 2001.0}, False)])
def test_the_bench_fails_above_a_limit(changes: dict[str, float], within: bool, studio_page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = dict.fromkeys(("median", "late", "worst", "apart", "gap", "rate", "instructions", "paint", "opened"), 1.0)
    monkeypatch.setattr("bench.browser.measured", lambda *_: good | changes)
    assert runpy.run_path(str(ROOT / "bench" / "studio_page"))["row"]("", studio_page, 1, Path())[1] is within
