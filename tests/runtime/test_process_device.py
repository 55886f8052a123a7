"""A device in another process: the same bytes as in this one, and one clear error for each way in which a process fails."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.operations.made import LEAST
from tests.runtime.small import bundle, images, network
from toolchain.runtime import process_device
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.executor import open_bundle
from toolchain.runtime.process_device import OPEN_FILES, ProcessDevice, _Conversation, sharing
from toolchain.spec.errors import UserError

LOADED = "input(); print('done', flush=True); input(); "
EMULATOR = (sys.executable, "-m", "toolchain", "device")


@pytest.mark.parametrize("target", ["vta", "dpuv3"])
def test_results_are_those_of_the_emulator_here(target: str) -> None:
    here = open_bundle(bundle(target), network(target)[0], EmulatorDevice())
    settings = [word for name, value in LEAST.get(target, {}).items() for word in ("--set", f"{name}={value}")]
    there = open_bundle(bundle(target), network(target)[0], ProcessDevice((*EMULATOR, *settings)))
    given = {"x": images(5)}
    expected, found = here.run(given).outputs, there.run(given).outputs
    assert all(np.array_equal(expected[name], found[name]) for name in expected)
    assert there.run(given).shares.execute > 0


@pytest.mark.parametrize(
    ("program", "seconds", "message"),
    [
        ("input(); print('failed E0601 it stands')", 60, "says: E0601 it stands"),
        ("input(); print('perhaps')", 60, "answers 'perhaps', not 'done' or 'failed'"),
        ("raise SystemExit(3)", 60, "has ended"),
        ("import time; time.sleep(60)", 0.2, "does not answer within 0.2 s"),
        ("import os, time; os.close(1); time.sleep(60)", 60, "has closed its output without an answer"),
        ("print('x' * 10000, end='', flush=True); input(); input()", 60, "answers more than 4096 bytes without the end of a line"),
    ],
)
def test_a_process_that_fails_is_an_error(program: str, seconds: float, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_device, "END_SECONDS", 0.2)
    with pytest.raises(UserError, match=f"E0713 the device's process '{sys.executable}' {message}"):
        open_bundle(bundle(), network()[0], ProcessDevice((sys.executable, "-c", program), seconds))


def test_a_process_that_ends_during_a_run_is_an_error() -> None:
    model = open_bundle(bundle(), network()[0], ProcessDevice((sys.executable, "-c", LOADED + "raise SystemExit(7)")))
    with pytest.raises(UserError, match=r"E0713 .* has ended with code 7"):
        model.run({"x": images(1)})


def test_a_command_that_is_not_there_is_an_error() -> None:
    with pytest.raises(UserError, match="E0713 the device's process '/nowhere' does not start"):
        open_bundle(bundle(), network()[0], ProcessDevice(("/nowhere",)))


SHORTEN = """import os, sys
file = os.open(input().split()[1], os.O_RDWR)
try: os.truncate(file, 0)
except OSError as error: sys.exit(f"{error}")
"""


def test_the_memory_cannot_be_made_shorter() -> None:
    """Where it is sealed; a host that reads beyond the end of a mapped file would be ended by the system, without a word."""
    if not OPEN_FILES.is_dir():
        pytest.skip("this system cannot seal memory")
    with pytest.raises(UserError, match=r"E0713 .* has ended with code 1"):
        open_bundle(bundle(), network()[0], ProcessDevice((sys.executable, "-c", SHORTEN + "print('done', flush=True); input()")))


def test_a_file_that_is_made_shorter_is_an_error_where_none_can_be_sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _without_seals(tmp_path, monkeypatch)
    with pytest.raises(UserError, match=r"E0713 .* has made the file of the shared memory shorter"):
        open_bundle(bundle(), network()[0], ProcessDevice((sys.executable, "-c", SHORTEN + "print('done', flush=True); input()")))


def test_a_process_that_reads_nothing_is_an_error() -> None:
    """A pipe takes some bytes that nobody reads; more must not wait for ever."""
    with sharing(16) as shared, pytest.raises(UserError, match=r"does not answer within 0\.2 s"):
        _Conversation.start((sys.executable, "-c", "import time; time.sleep(60)"), 0.2, shared).ask("x" * (1 << 20))
    shared.close()


@pytest.mark.parametrize("sealed", [True, False])
def test_no_file_stays_behind(sealed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not sealed:
        _without_seals(tmp_path, monkeypatch)
    open_bundle(bundle(), network()[0], ProcessDevice(EMULATOR)).run({"x": images(1)})
    with pytest.raises(UserError):
        open_bundle(bundle(), network()[0], ProcessDevice((sys.executable, "-c", "")))
    assert not [*tmp_path.iterdir()]


def _without_seals(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a system that cannot seal memory; files go into the folder, as other tests use the real one at the same time."""
    monkeypatch.setattr(process_device, "OPEN_FILES", folder / "none")
    monkeypatch.setattr(process_device, "SHARED", folder)
