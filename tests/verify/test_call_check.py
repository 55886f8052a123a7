"""Every function of the library is exact on random shapes; a wrong one is found out."""

import shutil
from pathlib import Path

import pytest

from toolchain.cli import main
from toolchain.operations.library import kinds_of
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.verify.call_check import check_call

TARGETS = Path(__file__).resolve().parents[2] / "targets"
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")


TABLES = ("tanh", "silu", "gelu", "mish", "hard_swish")
"""Done by the function that does sigmoid."""


@pytest.mark.parametrize("kernel", [name for name in load_kernels(load_machine("clib")) if name not in TABLES])
def test_every_function_is_exact(kernel: str) -> None:
    machine = load_machine("clib")
    found = check_call(machine, load_kernels(machine)[kernel], kinds_of(machine), 12, seed=3)
    assert (found.kernel, found.computed) == (kernel, 12)


WRONG = [
    ("conv2d", "clib.c", "begin - from, x +", "begin - from, x + 1 +"),
    ("max_pool", "clib.c", "memset(y, INT8_MIN,", "memset(y, 0,"),
    ("upsample", "kernels.yaml", "x_pitch: x_channels, y_pitch: y_channels, factor_h", "x_pitch: channels, y_pitch: y_channels, factor_h"),
]


@pytest.mark.parametrize(("kernel", "file", "old", "new"), WRONG)
def test_a_wrong_one_is_found_out(kernel: str, file: str, old: str, new: str, tmp_path: Path) -> None:
    shutil.copy(TARGETS / "clib.yaml", tmp_path)
    shutil.copytree(TARGETS / "clib", tmp_path / "clib")
    path = tmp_path / "clib" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    machine = load_machine(str(tmp_path / "clib.yaml"))
    with pytest.raises(UserError, match=f"E1305 kernel '{kernel}' makes"):
        check_call(machine, load_kernels(machine)[kernel], kinds_of(machine), 12)


def test_a_kernel_that_takes_no_random_operation(tmp_path: Path) -> None:
    shutil.copy(TARGETS / "clib.yaml", tmp_path)
    shutil.copytree(TARGETS / "clib", tmp_path / "clib")
    path = tmp_path / "clib" / "kernels.yaml"
    path.write_text(path.read_text().replace("that: batch == 1", "that: batch == 77"))
    machine = load_machine(str(tmp_path / "clib.yaml"))
    with pytest.raises(UserError, match="E1306 none of"):
        check_call(machine, load_kernels(machine)["upsample"], kinds_of(machine), 1)


def test_what_fails_on_the_way_is_one_line_at_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolchain.verify.call_check.plan_calls", lambda *_: {}["min"])
    machine = load_machine("clib")
    with pytest.raises(UserError, match=r"clib/kernels.yaml:\d+:3: E1308 the check of kernel 'upsample' fails: 'min' is not known"):
        check_call(machine, load_kernels(machine)["upsample"], kinds_of(machine), 1)


def test_the_command_says_what_was_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", "check", "clib", "add", "--shapes", "2"]) == 0
    assert capsys.readouterr().out == "add: add of 2 shapes: all equal\n"
