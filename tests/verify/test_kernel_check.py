"""Every kernel of the shipped machines is exact on random shapes; a wrong one is found out."""

import shutil
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from toolchain.cli import main
from toolchain.operations.library import builtin_kinds, kinds_of
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.problem import state_problem
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.verify.kernel_check import check_kernel, closed_reason, operations_for, whole_blocks
from toolchain.verify.random_operation import draw_operation

TARGETS = Path(__file__).resolve().parents[2] / "targets"


def open_kernels(target: str) -> list[tuple[str, str]]:
    machine = load_machine(target)
    return [(target, name) for name, kernel in load_kernels(machine).items() if not closed_reason(machine, kernel, kinds_of(machine))]


CASES = [case for name in ("vta", "dpuv3", "dnnvm", "stcp920") for case in open_kernels(name)]
HALVES = [
    pytest.param(target, name, marks=pytest.mark.nightly if ("stcp920", name) in CASES else ())  # the same text of a kernel, in another format
    for target, name in open_kernels("stcp920:f16")
]


SEEDS = {("stcp920:f16", "squares"): 4, ("stcp920:f16", "strided"): 7}
"""Of operations that are small; other kernels draw a small one with the third."""


@pytest.mark.drawn(24)
@pytest.mark.parametrize(("target", "kernel"), [*CASES, *HALVES])
def test_every_kernel_is_exact(target: str, kernel: str) -> None:
    machine = load_machine(target)
    found = check_kernel(machine, load_kernels(machine)[kernel], kinds_of(machine), 1, seed=SEEDS.get((target, kernel), 3))
    assert (found.kernel, found.computed) == (kernel, 1)
    assert found.tilings > 0


def test_kernels_of_another_format_are_closed() -> None:
    machine = load_machine("stcp920:f16")
    told = {name: closed_reason(machine, kernel, kinds_of(machine)) for name, kernel in load_kernels(machine).items()}
    assert told["strips"] == "columns in the channels would change the order of a sum"
    assert told["gelu"] == "a table has 256 bytes"
    assert not told["gelu_halves"]
    assert not told["conv2d"]
    assert closed_reason(machine, load_kernels(machine)["gelu_halves"], builtin_kinds()) == "the machine's floating format says nothing of gelu"
    plain = load_machine("stcp920")
    shut = {name for name, kernel in load_kernels(plain).items() if closed_reason(plain, kernel, kinds_of(plain))}
    assert shut == {name for name in load_kernels(plain) if "_halves" in name} | {"place_row", "rms_norm", "rotary", "softmax", "squares"}


def test_numbers_of_which_a_kernel_wants_whole_blocks_are_drawn_so() -> None:
    machine = load_machine("stcp920:f16")
    kernel, kind = load_kernels(machine)["spaced_attention_values"], kinds_of(machine)["spaced_attention_values"]
    found = {(each.names, each.size) for require in kernel.requires for each in whole_blocks(require.that)}
    assert found == {(("keys", "spare"), 32), (("key_channels",), 32), (("inner",), 32)}
    drawn = [each for each in islice(operations_for(machine, kernel, kind, np.random.default_rng(1)), 120) if each is not None]
    assert {(each.numbers["keys"] + each.numbers["spare"]) % 32 for each in drawn} == {0}
    assert {0} < {each.numbers["spare"] for each in drawn}
    assert len({each.numbers["heads"] for each in drawn}) > 1


def test_a_transposed_kernel_that_reaches_further_than_a_field_says_is_refused() -> None:
    """A tile behind the first has results before its picture: 32 columns with 17 taps two apart, where the field holds 31."""
    machine = load_machine("dnnvm")
    kind, kernel = kinds_of(machine)["conv_transpose"], load_kernels(machine)["conv_transpose"]
    size = {"batch": 1, "in_channels": 1, "out_channels": 1, "height": 5, "width": 40, "kh": 1, "dw": 2}
    drawn = (
        (draw_operation(machine, kind, np.random.default_rng(seed), {**kind.defaults, **size, "kw": kw}) for seed in range(50)) for kw in (16, 17)
    )
    taken, refused = (next(operation for operation in each if operation is not None) for each in drawn)
    assert state_problem(machine, kernel, taken)
    with pytest.raises(
        UserError, match="E1003 kernel 'conv_transpose' cannot do this: the kernel reaches further before a tile than an instruction says"
    ):
        state_problem(machine, kernel, refused)


WRONG = [
    ("vta", "max_pool", "window_rows: sh // by // row_step", "window_rows: sh // by", "E1305 kernel 'max_pool' makes"),
    (
        "dpuv3",
        "upsample",
        "row: oh_at * factor_h",
        "row: oh_at",
        "E1307 step 'compute y' of 'checked': #",
    ),
    ("dpuv3", "add", "size: present * ceil_div(lines, 8)", "size: present * ceil_div(lines, 16)", "E1307 step 'load x' of 'checked': #"),
    ("vta", "conv2d", "size: oc * tall * wide", "size: tall * wide", "E1307 step '"),
    ("vta", "add_onto_x", "do: {when: own_factor > 1, number", "do: {when: own_factor > 2, number", "E1305 kernel 'add_onto_x' makes"),
    (  # tiles of a part of the input's channels and of several blocks of the output's
        "stcp920",
        "strided",
        "local_row: i * block, local_pixel: block, remote_row: apart",
        "local_row: i * block, local_pixel: block, remote_row: 0",
        "E1305 kernel 'strided' makes",
    ),
    ("vta", "max_pool_passed", "u * dh - h_before + window_rows", "window_rows", "E1305 kernel 'max_pool_passed' makes"),
]


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("target", "kernel", "old", "new", "message"), WRONG)
def test_a_wrong_kernel_is_found_out(target: str, kernel: str, old: str, new: str, message: str, tmp_path: Path) -> None:
    shutil.copy(TARGETS / f"{target}.yaml", tmp_path)
    shutil.copytree(TARGETS / target, tmp_path / target)
    (file,) = [file for file in sorted((tmp_path / target).glob("*.yaml")) if old in file.read_text()]
    file.write_text(file.read_text().replace(old, new))
    machine = load_machine(str(tmp_path / f"{target}.yaml"))
    with pytest.raises(UserError, match=message):
        check_kernel(machine, load_kernels(machine)[kernel], kinds_of(machine), 12)


ROUNDED = [
    ("dnnvm", "average_pool", "dnnvm.yaml", "\n  rounding: half_up", "\n  rounding: half_away"),
    ("stcp920", "add", "stcp920.yaml", "\n  rounding: half_even", "\n  rounding: half_up"),
    ("dnnvm", "add", "dnnvm/kernels.yaml", "nonlinear: act, limit: high", "nonlinear: act, limit: 127"),
]
"""Machines whose file, or a kernel of which, says another rounding than their instructions have, or no upper limit."""


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("target", "kernel", "file", "old", "new"), ROUNDED)
def test_a_wrong_rounding_or_limit_shows_in_a_dozen_shapes(target: str, kernel: str, file: str, old: str, new: str, tmp_path: Path) -> None:
    shutil.copy(TARGETS / f"{target}.yaml", tmp_path)
    shutil.copytree(TARGETS / target, tmp_path / target)
    text = (tmp_path / file).read_text()
    assert old in text
    (tmp_path / file).write_text(text.replace(old, new))
    machine = load_machine(str(tmp_path / f"{target}.yaml"))
    with pytest.raises(UserError, match=f"E1305 kernel '{kernel}' makes"):
        check_kernel(machine, load_kernels(machine)[kernel], kinds_of(machine), 12)


def test_a_kernel_that_takes_no_random_operation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolchain.verify.kernel_check.TRIES", 50)
    shutil.copy(TARGETS / "vta.yaml", tmp_path)
    shutil.copytree(TARGETS / "vta", tmp_path / "vta")
    file = tmp_path / "vta" / "kernels.yaml"
    file.write_text(file.read_text().replace("    requires:\n", "    requires:\n      - {that: batch == 77, message: never}\n"))
    machine = load_machine(str(tmp_path / "vta.yaml"))
    with pytest.raises(UserError, match=r"E1306 none of 51 .* kernel 'add'; most often.*: kernel 'add' cannot do this: never"):
        check_kernel(machine, load_kernels(machine)["add"], kinds_of(machine), 1)


def test_kernels_are_asked_for_what_they_compute_as_it_stands() -> None:
    """Convolutions in groups come to kernels as other operations, so no kernel is held against one."""
    machine = load_machine("dpuv3")
    drawn = operations_for(machine, load_kernels(machine)["squares"], kinds_of(machine)["conv2d"], np.random.default_rng(0))
    found = [problem.operation.numbers["groups"] for problem in islice(drawn, 4000) if problem]
    assert found
    assert set(found) == {1}


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", "check", "vta", "add", "--shapes", "2"]) == 0
    assert capsys.readouterr().out.startswith("add: add of 2 shapes in ")
    assert main(["kernel", "check", "vta", "ad"]) == 1
    assert "E1002 machine 'vta' has no kernel 'ad'; did you mean 'add'" in capsys.readouterr().err
    assert main(["kernel", "check", "vta", "add", "--shapes", "0"]) == 2


def test_numbers_that_conditions_state_are_drawn() -> None:
    """A stride of 2 both ways and no dilation are one draw in 80; with a kernel of at least 5, hardly any."""
    machine = load_machine("dpuv3")
    drawn = list(islice(operations_for(machine, load_kernels(machine)["strips"], kinds_of(machine)["conv2d"], np.random.default_rng(0)), 2000))
    found = [problem.operation.numbers for problem in drawn if problem]
    assert len(found) > 3
    assert {(numbers["sh"], numbers["sw"]) for numbers in found} == {(2, 2)}
