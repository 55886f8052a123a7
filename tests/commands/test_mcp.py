"""`tilewright mcp` before it serves: its arguments, and the package that it needs."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toolchain.cli import USAGE, main

ROOT = Path(__file__).resolve().parents[2]
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}

SLOW_DEATH = """
import os, runpy, threading
kill = os.killpg
os.killpg = lambda *given: threading.Timer(0.6, kill, given).start()
runpy.run_module("toolchain", run_name="__main__")
"""


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
    assert main(["mcp", *words]) == (2 if told.startswith(USAGE) else 1)
    assert capsys.readouterr().err == told


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delitem(sys.modules, "toolchain.commands.mcp_tools", raising=False)
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    assert main(["mcp"]) == 1
    assert capsys.readouterr().err == "E0009 the server needs the package 'mcp' of version 2, which is not installed; pip install 'tilewright[mcp]'\n"


@pytest.mark.parametrize("start", [["-m", "toolchain", "mcp"], ["-c", SLOW_DEATH, "mcp"]], ids=["plain", "slow"])
def test_a_client_that_ends_the_server_ends_its_commands(start: list[str], tmp_path: Path) -> None:
    """They have a session of their own, so a signal to the server alone would leave them behind, and the scratch folder too."""
    pytest.importorskip("mcp")
    variables = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    calls = [("initialize", HELLO, 1), ("notifications/initialized", {}, None), ("tools/call", {"name": "check", "arguments": {"machine": "vta"}}, 2)]
    lines = [{"jsonrpc": "2.0", "method": method, "params": given} | ({"id": number} if number else {}) for method, given, number in calls]
    with subprocess.Popen([sys.executable, *start], stdin=-1, stdout=-1, stderr=-1, cwd=ROOT, env=variables) as server:
        assert server.stdin
        server.stdin.write("".join(f"{json.dumps(line)}\n" for line in lines).encode())
        server.stdin.flush()
        commands = _children(server.pid)
        assert list(tmp_path.glob("tilewright-*"))
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=20) == 130
    assert not [number for number in commands if Path(f"/proc/{number}").exists()]
    assert list(tmp_path.glob("tilewright-*")) == []  # ONNX Runtime leaves a file of its own there, where the command comes so far


def _children(parent: int) -> list[int]:
    """Waits until the process has some."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        if found:
            return [int(number) for number in found]
        time.sleep(0.05)
    raise AssertionError("the server starts no command")
