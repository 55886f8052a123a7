"""`tilewright studio --serve`: a change makes a new page, a mistake stands over the last good one, an interrupt ends it.

`tilewright studio`: one page of a build; in a browser it opens without errors, and a link to an operation shows its listing.
"""

import html
import http.client
import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bench.browser import browser
from toolchain.cli import USAGE, main
from toolchain.commands.live_page import Live, LiveServer
from toolchain.commands.studio import Watched, _built, changed
from toolchain.spec.errors import Source, Span, UserError, fail
from toolchain.tasks.plan import Plan, make_plan

pytest.importorskip("watchfiles")
ROOT = Path(__file__).resolve().parents[2]
BROWSER = browser()


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Of a copy of VTA in the present folder."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "targets" / "vta.yaml", "own.yaml")
    shutil.copytree(ROOT / "targets" / "vta", "vta")
    return make_plan({"target": "own.yaml", "model": "digits"}, Path("build").absolute())


def touched(path: Path, text: str) -> None:
    """As editors write: a new file in the place of the old one."""
    other = path.with_name(f"{path.name}.new")
    other.write_text(text)
    other.replace(path)


def test_it_watches_the_machine_its_folder_and_the_model(plan: Plan, tmp_path: Path) -> None:
    watched = Watched()
    watched.plan(plan)
    names = {path.resolve() for path in watched.stamps()}
    assert {tmp_path / "own.yaml", tmp_path / "vta" / "kernels.yaml", ROOT / "models" / "digits.yaml"} <= names
    assert {tmp_path, tmp_path / "vta"} <= {path.resolve() for path in watched.places()}


@pytest.mark.parametrize("name", ["own.yaml", "vta/kernels.yaml", "vta/further/new.yaml"])
def test_a_changed_file_and_a_new_one_end_the_wait(name: str, plan: Plan) -> None:
    watched = Watched()
    watched.plan(plan)
    before = watched.stamps()
    done = threading.Thread(target=changed, args=(watched, before), daemon=True)
    done.start()
    time.sleep(0.2)
    Path("unrelated.yaml").write_text("")
    done.join(1.5)
    assert done.is_alive()
    Path(name).parent.mkdir(exist_ok=True)
    touched(Path(name), "changed")
    done.join(20)
    assert not done.is_alive()


@dataclass
class Builds:
    """Stands for the build: a page with the machine's text, which may be a mistake. during: what happens meanwhile, once."""

    plan: Plan
    during: list[str] = field(default_factory=list[str])

    def page(self, plan: Plan) -> str:
        text = plan.jobs[0].target.path.read_text()
        if self.during:
            touched(Path("own.yaml"), self.during.pop())
        if text == "wrong":
            raise fail("E0107", "a mistake", Span(Source("own.yaml", text), 1, 3))
        return text


def built(live: Live, watched: Watched, builds: Builds) -> dict[Path, tuple[int, int, int]]:
    return _built(live, watched, builds.page, lambda: builds.plan)


def test_a_mistake_stands_over_the_last_good_page(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    live, watched, builds = Live(), Watched(), Builds(plan)
    touched(Path("own.yaml"), "good")
    built(live, watched, builds)
    assert (live.state.page, live.state.mistake, live.state.busy) == ("good", "", False)
    touched(Path("own.yaml"), "wrong")
    built(live, watched, builds)
    assert live.state.page == "good"
    assert live.state.mistake == "own.yaml:1:3: E0107 a mistake\nwrong\n  ^"
    assert capsys.readouterr().err == f"{live.state.mistake}\n"
    touched(Path("own.yaml"), "better")
    built(live, watched, builds)
    assert (live.state.page, live.state.mistake) == ("better", "")


def test_what_changes_during_a_build_is_built_again(plan: Plan) -> None:
    watched = Watched()
    before = built(Live(), watched, Builds(plan, ["later"]))
    assert watched.stamps() != before
    changed(watched, before)  # returns at once
    assert watched.stamps() == built(Live(), watched, Builds(plan))


def test_a_mistake_that_no_file_can_mend_ends_it() -> None:
    def make() -> Plan:
        raise fail("E1202", "which machine?")

    with pytest.raises(UserError, match="E1202"):
        _built(Live(), Watched(), lambda _: "", make)


@pytest.mark.parametrize(
    ("words", "code"),
    [(["--serve", "--port", "65536"], "E0002"), (["--serve", "--port", "-1"], "E0002"), (["--port", "8000"], "E0002")],
)
def test_ports_that_cannot_be(words: list[str], code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["studio", "vta", "digits", *words]) == (2 if code.startswith(USAGE) else 1)
    assert code in capsys.readouterr().err


def test_two_models_have_no_one_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["studio", "target=vta", "model=digits,resnet18", "--serve"]) == 2
    assert "E0002 2 builds cannot go into one page" in capsys.readouterr().err


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("toolchain.spec.packages.find_spec", lambda _: None)
    assert main(["studio", "vta", "digits", "--serve"]) == 1
    assert capsys.readouterr().err == "E0009 watching files needs the package 'watchfiles', which is not installed; pip install 'tilewright[serve]'\n"


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Whoever runs the tests in the background ignores interrupts, and so would processes that they start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def serving(tmp_path: Path, interruptible: None) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """The command on a machine's file with a mistake, and its port."""
    del interruptible
    text = (ROOT / "targets" / "vta.yaml").read_text()
    (tmp_path / "own.yaml").write_text(text.replace("\nmemories:", "\nmemoris:", 1))
    words = [sys.executable, "-m", "toolchain", "studio", "own.yaml", "digits", "--serve"]
    run = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert run.stdout
    yield run, int(re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\n", run.stdout.readline())[1])  # type: ignore[index]
    run.kill()
    run.communicate()


def events(port: int) -> Iterator[dict[str, object]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/events")
    for line in connection.getresponse():
        if line.startswith(b"data: "):
            yield json.loads(line.removeprefix(b"data: "))


def test_the_command_tells_a_mistake_follows_the_file_and_ends_with_an_interrupt(
    serving: tuple["subprocess.Popen[str]", int], tmp_path: Path
) -> None:
    run, port = serving
    told = events(port)
    first = next(str(event["mistake"]) for event in told if event["mistake"])
    assert re.match(r"own\.yaml:\d+:1: E0108 unknown key 'memoris'", first)
    assert first.endswith("\nmemoris:\n^") or "\n^" in first
    text = (tmp_path / "own.yaml").read_text()
    touched(tmp_path / "own.yaml", text.replace("memoris:", "memories: 7\nothers:"))
    second = next(str(event["mistake"]) for event in told if event["mistake"] not in ("", first))
    assert second.startswith("own.yaml:")
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=30)
    assert (run.returncode, out) == (130, "")
    assert err == f"{first}\n{second}\ninterrupted\n"


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_a_browser_shows_the_mistake_over_the_good_page(tmp_path: Path) -> None:
    live = Live()
    live.show("<!doctype html><title>t</title><body><p>the good page</p></body>", mistake="own.yaml:1:3: E0107 <b>a mistake</b>")
    with LiveServer(live, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        later = threading.Timer(3, live.close)  # the end of the stream ends the browser's waiting, too
        later.start()
        flags = ("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=1000", f"--user-data-dir={tmp_path}", "--dump-dom")
        words = [str(BROWSER), *flags, server.url]
        dom = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True).stdout
        later.join()
        server.shutdown()
    assert "<p>the good page</p>" in dom
    assert re.search(r'<pre id="live" role="status" class="mistake">own\.yaml:1:3: E0107 &lt;b&gt;a mistake&lt;/b&gt;', dom)


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
    assert main(["studio", "toy", "digits", *words]) == (2 if error.startswith(USAGE) else 1)
    assert error in capsys.readouterr().err


@pytest.mark.parametrize("word", ["html=no", "params=LOG_BUS:3"])
def test_a_build_beside_itself_is_refused(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["studio", "target=vta", "model=digits", "params=LOG_BUS:3", "--beside", word]) == 2
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
