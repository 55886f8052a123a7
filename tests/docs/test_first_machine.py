"""docs/your-first-machine.md is the truth: its files are written, its commands are run, and their output must be the page's.

A block ```LANGUAGE FILE is (the next piece of) a file. In a ```console block a line after `$ ` is a command, and what follows is
all that it prints.
"""

import contextlib
import io
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolchain import cli

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "your-first-machine.md"
MACHINE = ROOT / "tests" / "data" / "machines" / "ripple.yaml"
FINGERPRINT = re.compile(r"\b[0-9a-f]{64}$", re.M)
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.M | re.S)


def run_command(line: str) -> str:
    """What a command of the page prints, errors included. Only `tilewright` and `python FILE` are known."""
    words = shlex.split(line)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        if words[0] == "tilewright":
            cli.main(words[1:])
        else:
            assert words[0] == "python"
            runpy.run_path(words[1])
    return printed.getvalue()


def performed(text: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Writes the files of a page and runs its commands, in order; every console block as it stands and as it should."""
    started: set[str] = set()
    for language, name, body in BLOCK.findall(text):
        if language == "console":
            commands = [line[2:] for line in body.splitlines() if line.startswith("$ ")]
            yield body, "".join(f"$ {command}\n{run_command(command)}" for command in commands)
        elif name:
            with (folder / name).open("a" if name in started else "w") as file:
                file.write(body)
            started.add(name)


def test_every_file_and_command_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    pairs = list(performed(text, tmp_path))
    if request.config.getoption("--update-golden"):
        for stands, should in pairs:
            text = text.replace(f"```console\n{stands}```", f"```console\n{should}```", 1)
        PAGE.write_text(text)
        return
    assert len(pairs) >= 8
    for stands, should in pairs:
        assert FINGERPRINT.sub("", stands) == FINGERPRINT.sub("", should)
    assert (tmp_path / "ripple.yaml").read_text() == MACHINE.read_text()


def test_the_page_prints_what_it_promises() -> None:
    """The answers that make the page's point, so that an update of its output cannot quietly lose them."""

    text = PAGE.read_text()
    for promise in ("no errors", "\nequal\n", "E0601 race on out", "E0501 deadlock", "E0603", "did you mean 'count'?", "E0105"):
        assert promise in text, promise
