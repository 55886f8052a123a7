"""`tilewright studio --serve`: a change makes a new page, a mistake stands over the last good one, an interrupt ends it."""

import http.client
import json
import os
import re
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
from toolchain.cli import main
from toolchain.commands.live_page import Live, LiveServer
from toolchain.commands.studio_serve import Watched, _built, changed
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
    assert main(["studio", "vta", "digits", *words]) == 1
    assert code in capsys.readouterr().err


def test_two_models_have_no_one_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["studio", "target=vta", "model=digits,resnet18", "--serve"]) == 1
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
