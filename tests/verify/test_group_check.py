"""Kernels that take tiles from others: checked in groups of random operations, and told apart from those that cannot be checked so."""

from itertools import islice

import numpy as np
import pytest

from toolchain.operations.library import kinds_of
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.problem import Problem
from toolchain.spec.load import load_machine
from toolchain.verify import group_check
from toolchain.verify.group_check import check_in_group
from toolchain.verify.kernel_check import operations_for

MACHINE = load_machine("vta")
KINDS = kinds_of(MACHINE)
PASSED = [name for name, kernel in load_kernels(MACHINE).items() if kernel.passed]


def problems(name: str) -> list[Problem]:
    kernel = load_kernels(MACHINE)[name]
    drawn = operations_for(MACHINE, kernel, KINDS[kernel.computes], np.random.default_rng(0))
    return [problem for problem in islice(drawn, 60) if problem is not None]


def test_there_are_such_kernels() -> None:
    assert PASSED


@pytest.mark.parametrize("name", PASSED)
def test_programs_of_several_tilings_are_run(name: str) -> None:
    found = (check_in_group(problem, KINDS, np.random.default_rng(1)) for problem in problems(name))
    assert next((count for count in found if count), 0) > 1


def test_none_is_run_where_no_operation_makes_its_operand(monkeypatch: pytest.MonkeyPatch) -> None:
    (problem, *_) = problems(PASSED[0])
    monkeypatch.setattr(group_check, "load_kernels", lambda _: {problem.kernel.name: problem.kernel})
    assert check_in_group(problem, KINDS, np.random.default_rng(1)) == 0
