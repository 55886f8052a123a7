"""A command in a process of its own: what it answers and tells, its deadline, and modules of the folder that it works in."""

import asyncio
from pathlib import Path

import pytest

from toolchain.commands.child import Finished, run_command
from toolchain.spec.errors import UserError


def _run(folder: Path, *words: str, seconds: float = 60) -> tuple[Finished, list[str]]:
    lines: list[str] = []

    async def say(line: str) -> None:
        lines.append(line)

    return asyncio.run(run_command(words, folder, seconds, say, {"TILEWRIGHT_PATH": ""})), lines


def test_answer_and_messages_are_apart(tmp_path: Path) -> None:
    (tmp_path / "toolchain.py").write_text("raise SystemExit('not this one')")
    (tmp_path / "bad.yaml").write_text("target: {name: x}\nbogus: 1\n")
    done, lines = _run(tmp_path, "target", "list")
    assert (done.code, done.told, lines) == (0, "", [])
    assert "\nvta [" in done.answer
    done, lines = _run(tmp_path, "target", "check", "bad.yaml")
    assert (done.code, done.answer) == (1, "")
    assert "bad.yaml:2:1: E0108 unknown key 'bogus'\nbogus: 1\n^\n" in done.told
    assert set(lines) == {"^"}  # the newest line of each part that the pipe brings, in however many it comes


def test_a_command_beyond_its_deadline_is_ended(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"E0011 'target list' was ended after 0.01 seconds; a longer --deadline gives it more"):
        _run(tmp_path, "target", "list", seconds=0.01)
