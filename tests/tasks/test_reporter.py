"""Lines of progress."""

import re
from pathlib import Path

import pytest

from toolchain import cli


def test_a_line_names_its_step_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Where standard error is no terminal; every line is shown, however soon it comes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("toolchain.tasks.reporter.QUIET", 0.0)
    Path("soft.yaml").write_text("model: {name: soft, summary: for a test}\ninputs: {row: [1, 10]}\nlayers: [softmax]\n")
    assert cli.main(["build", "target=clib", "model=soft.yaml"]) == 0
    lines = capfd.readouterr().err.splitlines()
    assert "graph soft for clib: pass 1 of" in " ".join(lines)
    titles = [re.findall(r"\w+ soft(?: for clib)?(?=[: ])", line) for line in lines]
    assert max(map(len, titles)) == 1
