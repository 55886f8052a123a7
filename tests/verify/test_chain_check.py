"""A kernel runs between other operations as well: slips that show only there are found."""

import shutil
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from toolchain.operations.library import kinds_of
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.problem import Problem
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine
from toolchain.verify.chain_check import check_in_chain
from toolchain.verify.kernel_check import check_kernel, operations_for

TARGETS = Path(__file__).resolve().parents[2] / "targets"


def problems(machine: Machine, name: str, count: int) -> list[Problem]:
    kernel = load_kernels(machine)[name]
    drawn = operations_for(machine, kernel, kinds_of(machine)[kernel.computes], np.random.default_rng(0))
    return list(islice((problem for problem in drawn if problem is not None), count))


@pytest.mark.parametrize(("target", "kernel"), [("vta", "add"), ("dpuv3", "max_pool"), ("dnnvm", "conv2d"), ("stcp920", "depthwise")])
def test_programs_with_and_without_tensors_on_chip_are_run(target: str, kernel: str) -> None:
    machine = load_machine(target)
    found = [check_in_chain(problem, kinds_of(machine), np.random.default_rng(1)) for problem in problems(machine, kernel, 4)]
    assert max(found) == 2


def test_a_layout_that_no_operation_writes_goes_without_one_before_it() -> None:
    """The host writes the picture of a first layer in squares."""
    machine = load_machine("vta")
    assert sum(check_in_chain(problem, kinds_of(machine), np.random.default_rng(1)) for problem in problems(machine, "squares", 4)) > 0


WRONG = [
    ("upsample", "kernels.yaml", "        left: 0\n        top: 0\n        pair: 1", "        left: 0\n        top: 1\n        pair: 1", "whole"),
    (
        "upsample",
        "kernels.yaml",
        "          reg_id: place.segment\n          bank_id: place.bank(kept)",
        "          reg_id: 0\n          bank_id: place.bank(kept)",
        "segment",
    ),
]
"""What stands on chip as a whole, and what an operation before it left in DRAM: neither happens to an operation by itself."""


@pytest.mark.parametrize(("kernel", "file", "old", "new"), [row[:4] for row in WRONG], ids=[row[4] for row in WRONG])
def test_a_slip_that_shows_beside_others_alone_is_found(
    kernel: str, file: str, old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(TARGETS / "dpuv3.yaml", tmp_path)
    shutil.copytree(TARGETS / "dpuv3", tmp_path / "dpuv3")
    text = (tmp_path / "dpuv3" / file).read_text()
    assert old in text
    (tmp_path / "dpuv3" / file).write_text(text.replace(old, new))
    machine = load_machine(str(tmp_path / "dpuv3.yaml"))
    with pytest.raises(UserError, match=r"E1305 kernel '\w+' .*, in a program of |E0\d\d\d|E1307"):
        check_kernel(machine, load_kernels(machine)[kernel], kinds_of(machine), 12)
    monkeypatch.setattr("toolchain.verify.kernel_check.check_in_chain", lambda *_: 0)
    assert check_kernel(machine, load_kernels(machine)[kernel], kinds_of(machine), 4).computed == 4
