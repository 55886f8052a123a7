"""An interrupt is one line and the exit code 130, whatever is being imported or done when it comes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tasks.builds import environment
from toolchain.start import few_threads

INTERRUPTED = """
import builtins, os, signal, sys
real, left = builtins.__import__, [int(sys.argv.pop(1))]
def counted(*given, **named):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGINT)
    return real(*given, **named)
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests in the background ignores interrupts
from toolchain.start import main
builtins.__import__ = counted
sys.exit(main())
"""


LOST = """
import builtins, os, signal, sys
real, how = builtins.__import__, sys.argv.pop(1)
def losing(name, *given, **named):
    if name == "onnxruntime" and "onnxruntime" not in sys.modules:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            if how == "another":
                raise ImportError("a module of C did not load") from None
    return real(name, *given, **named)
signal.signal(signal.SIGINT, signal.default_int_handler)
from toolchain.start import main
builtins.__import__ = losing
sys.exit(main())
"""
"""An interrupt while the module of C is imported becomes an ImportError, or nothing at all."""


@pytest.mark.parametrize(
    ("words", "given", "threads"),
    [(["emulate", "vta"], None, "1"), (["check"], None, "1"), (["build"], None, None), ([], None, None), (["emulate"], "4", "4")],
)
def test_short_commands_start_one_thread_for_products(
    words: list[str], given: str | None, threads: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if given:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", given)
    few_threads(words)
    assert os.environ.get("OPENBLAS_NUM_THREADS") == threads
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "")  # so that it is taken away again


@pytest.mark.parametrize("how", ["another", "none"])
def test_an_interrupt_that_an_import_turns_into_something_else_is_one_line(how: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOST, how, "build", "target=vta", "model=digits"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if not line.endswith((" ...", " s"))]) == (130, ["interrupted"])


IGNORED = """
import os, signal, sys
from toolchain.process import watch_interrupts
watch_interrupts()
class Lost:
    def __del__(self): os.kill(os.getpid(), signal.SIGINT)
import time
try:
    Lost()
    start = time.monotonic()
    time.sleep(20)
except KeyboardInterrupt:
    print("heard while it waits" if time.monotonic() - start < 15 else "heard too late")
"""


def test_an_interrupt_in_a_finalizer_comes_again() -> None:
    done = subprocess.run([sys.executable, "-c", IGNORED], env=environment(), capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("heard while it waits\n", "")


@pytest.mark.parametrize("number", [1, 2, 10, 40, 100, 200, 400, 700, 1000, 1500, 2000, 2800])
def test_an_interrupt_at_any_import_is_one_line(number: int, tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(number), "build", "target=vta", "model=digits"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if not line.endswith((" ...", " s"))]) == (130, ["interrupted"])
