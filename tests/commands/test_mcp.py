"""`tilewright mcp` before it serves: its arguments, and the package that it needs."""

import sys
from pathlib import Path

import pytest

from toolchain.cli import main


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--folder", "nowhere"], "nowhere: E0001 there is no such folder\n"),
        (["--deadline", "0"], "E0002 --deadline is 0, it must be from 1 to 86400 seconds\n"),
    ],
)
def test_arguments_are_checked(
    words: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["mcp", *words]) == 1
    assert capsys.readouterr().err == told


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delitem(sys.modules, "toolchain.commands.mcp_tools", raising=False)
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    assert main(["mcp"]) == 1
    assert capsys.readouterr().err == "E0009 the server needs the package 'mcp' of version 2, which is not installed; pip install 'tilewright[mcp]'\n"
