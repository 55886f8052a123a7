"""Every function of the library is exact on random shapes; a wrong one is found out.

A function of the library on ONNX's own cases; a wrong one is told with the case.
"""

import importlib
import shutil
from pathlib import Path

import pytest
from onnx.backend.test.case import node

from toolchain.cli import main
from toolchain.operations.library import kinds_of
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.errors import UserError
from toolchain.spec.load import find_target, load_machine
from toolchain.verify.library_check import case_modules, cases_in, cases_of, check_call, check_operator, modules_of

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
    monkeypatch.setattr("toolchain.verify.library_check.plan_calls", lambda *_: {}["min"])
    machine = load_machine("clib")
    with pytest.raises(UserError, match=r"clib/kernels.yaml:\d+:3: E1308 the check of kernel 'upsample' fails: 'min' is not known"):
        check_call(machine, load_kernels(machine)["upsample"], kinds_of(machine), 1)


def test_the_command_says_what_was_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", "check", "clib", "add", "--shapes", "2"]) == 0
    assert capsys.readouterr().out == "add: add of 2 shapes: all equal\n"


needs_c = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")


def copied(folder: Path, old: str, new: str, file: str = "clib32.c") -> Path:
    """The machine with one text of its library changed."""
    path = find_target("clib32")
    shutil.copy(path, folder / "clib32.yaml")
    shutil.copytree(path.parent / "clib32", folder / "clib32")
    text = (folder / "clib32" / file).read_text()
    assert text.count(old) == 1
    (folder / "clib32" / file).write_text(text.replace(old, new))
    return folder / "clib32.yaml"


@needs_c
def test_every_case_within_the_conditions_is_near(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", "check", "clib32", "Softmax", "Concat"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in told] == ["Softmax: 7 of ONNX's 7 cases", "Concat: 12 of ONNX's 12 cases"]
    assert main(["kernel", "check", "clib32", "Sofmax"]) == 1
    assert "E1002 machine 'clib32' has no kernel 'Sofmax'; did you mean 'Softmax'?" in capsys.readouterr().err


@needs_c
def test_a_wrong_function_is_told_with_its_case(tmp_path: Path) -> None:
    wrong = load_machine(str(copied(tmp_path, "BINARY(sub, x - z)", "BINARY(sub, z - x)")))
    with pytest.raises(UserError, match=r"E1305 the function for Sub makes .* in ONNX's case test_sub"):
        check_operator(wrong, "Sub")


@needs_c
def test_conditions_that_refuse_all_cases_are_told(tmp_path: Path) -> None:
    refusing = load_machine(str(copied(tmp_path, "that: mode_DCR", "that: size_0 > 99", "kernels.yaml")))
    with pytest.raises(UserError, match="E1306 none of ONNX's 2 cases of DepthToSpace"):
        check_operator(refusing, "DepthToSpace")


def test_what_fails_on_the_way_is_one_line_at_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolchain.verify.library_check.c99_graph_code", lambda *_: {}["min"])
    with pytest.raises(UserError, match=r"clib32/kernels.yaml:\d+:3: E1308 the check of the function for DepthToSpace fails: 'min' is not known"):
        check_operator(load_machine("clib32"), "DepthToSpace")


def test_all_modules_are_there() -> None:
    assert {"conv", "softmax", "ai_onnx_ml.binarizer"} <= set(case_modules())
    assert len(case_modules()) > 150


@pytest.mark.filterwarnings("ignore")
def test_cases_are_found_after_somebody_else_has_made_them() -> None:
    cases_in.cache_clear()
    importlib.import_module(f"{node.__name__}.relu")
    assert [case.name for case in cases_in("relu") if "expanded" not in case.name] == ["test_relu"]
    assert cases_in("relu") is cases_in("relu")


@pytest.mark.parametrize(("operator", "count"), [("Softmax", 7), ("Concat", 12), ("Floor", 2)])
def test_cases_of_an_operator_come_from_modules_that_name_it(operator: str, count: int) -> None:
    assert operator.lower() in modules_of(operator)
    assert len(modules_of(operator)) < 10
    assert len(cases_of(operator)) == count
