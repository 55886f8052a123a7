"""README and docs: their commands run, their numbers are today's, their links lead somewhere."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench_script import run_script
from toolchain import cli

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder that bench/resnet18_c2 fills, and what it prints."""
    folder = tmp_path_factory.mktemp("layer")
    done = run_script("resnet18_c2", str(folder))
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def tilewright(folder: Path, *words: str) -> str:
    """What a command prints, run outside the repository."""
    command = [sys.executable, "-m", "toolchain.cli", *words]
    done = subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_command_prints_what_the_readme_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (command,) = re.findall(r"&& \.venv/bin/doit (.*)$", README, re.M)
    (shown,) = re.findall(r"^```\n(digits.*?)^```$", README, re.M | re.S)
    assert cli.main(command.split()) == 0
    assert shown in capsys.readouterr().out


@pytest.mark.nightly
def test_resnet50_takes_what_the_readme_says(tmp_path: Path) -> None:
    printed = tilewright(tmp_path, "build", "target=dpuv3", "model=resnet50")
    found = re.search(r"time +([\d.]+) ms on the machine", printed)
    listing = (tmp_path / "build/dpuv3/resnet50/bundle/region0.txt").read_text()
    assert found
    assert f"{found[1]} ms; the vendor's" in README
    assert f"{len(listing.splitlines()):,} instructions" in README


def test_the_layer_of_the_bench_is_proven(layer: tuple[Path, str]) -> None:
    assert "0 of 200704 output bytes differ" in layer[1]


def test_the_other_commands_run(layer: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(layer[0])
    (block,) = re.findall(r"^```console\n(.*?)^```$", README, re.M | re.S)
    lines = [line.removeprefix("$ tilewright ") for line in block.splitlines()]
    assert len(lines) == 6
    for line in lines:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            assert cli.main(shlex.split(line)) == 0, printed.getvalue()
    assert all(Path(name).stat().st_size for name in ("after.bin", "trace.json", "run.json", "vta.html"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target
