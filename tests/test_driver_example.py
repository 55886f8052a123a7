"""examples/driver: a program in C whose driver reaches the machine by shared memory, a doorbell and an interrupt."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.c_networks import pictures, plain
from toolchain.cli import main
from toolchain.runtime.bundle import write_bundle

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "driver"
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
pytestmark = pytest.mark.skipif(shutil.which("cc") is None or sys.platform != "linux", reason="needs a C compiler on Linux")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of a network on vta, with the driver in place of the one that talks to a process by lines."""
    folder = tmp_path_factory.mktemp("driver")
    write_bundle(folder / "plain.bundle", plain("vta").bundle)
    assert main(["export", "c", str(folder / "plain.bundle"), "-o", str(folder / "c")]) == 0
    (folder / "c" / "tilewright_process.c").unlink()
    shutil.copy(EXAMPLE / "driver.c", folder / "c")
    subprocess.run(["cc", *STRICT, *sorted((folder / "c").glob("*.c")), "-lm", "-o", folder / "model"], check=True)
    return folder / "model"


def _run(program: Path, *command: str) -> subprocess.CompletedProcess[bytes]:
    words = [program, program.with_name("plain.bundle"), *command]
    return subprocess.run(words, input=pictures(3).tobytes(), capture_output=True, check=False, timeout=120)


def test_the_bytes_of_the_runtime(program: Path) -> None:
    done = _run(program, sys.executable, str(EXAMPLE / "hardware.py"))
    assert (done.stderr, done.returncode) == (b"", 0)
    assert done.stdout == plain("vta").executor.run({"x": pictures(3)[:, 0]}).outputs["y"].tobytes()


def test_hardware_that_is_not_there_or_goes_is_an_error(program: Path) -> None:
    for command in (["/nowhere/hardware"], ["true"]):
        done = _run(program, *command)
        assert (done.stderr, done.returncode, done.stdout) == (b"device vta: the hardware is gone\n", 1, b"")
    done = _run(program)
    assert (done.stderr, done.returncode) == (b"device vta: no command was given that starts the hardware\n", 1)


def test_a_command_that_fails_is_an_error(program: Path, tmp_path: Path) -> None:
    """The hardware says no to a program that it does not know."""
    other = tmp_path / "other.py"
    other.write_text((EXAMPLE / "hardware.py").read_text().replace("load_checked_machine(name)", "load_checked_machine('dpuv3')"))
    done = _run(program, sys.executable, str(other))
    assert done.returncode == 1
    assert b"device vta: the hardware says that the command failed\n" in done.stderr
