"""Stages are timed apart from the compiler, and shown on a terminal only."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolchain.commands.machine import Stopwatch, sign
from toolchain.spec.compile import LISTENER

ROOT = Path(__file__).resolve().parents[2]


def test_the_compiler_has_a_time_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 4.0, 4.5])  # stage begins, compiler begins and ends, stage ends
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    watch = Stopwatch()
    with watch.stage("execution"), LISTENER.get()():
        pass
    assert watch.seconds == {"compiling": 3.0, "execution": 1.5}


def test_a_terminal_sees_what_goes_on() -> None:
    script = "from toolchain.commands.machine import *\nwith Stopwatch().stage('execution'), LISTENER.get()(): time.sleep(0.3)"
    terminal, end = os.openpty()
    done = subprocess.run([sys.executable, "-c", script], stderr=end, cwd=ROOT, env=os.environ | {"TERM": "xterm"}, check=False)
    os.close(end)
    shown = os.read(terminal, 1 << 16).decode()
    os.close(terminal)
    assert done.returncode == 0, shown
    assert "execution: compiling C for this machine" in shown


def test_nothing_is_shown_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    with sign("loading"), Stopwatch().stage("execution"), LISTENER.get()():
        pass
    assert capsys.readouterr() == ("", "")
