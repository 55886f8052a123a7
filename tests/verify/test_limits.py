"""Conditions that no program of a check brought about both ways.

Numbers at the limits that a kernel's conditions name.
"""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.cli import main
from toolchain.operations.library import kinds_of
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.problem import Problem
from toolchain.spec.load import load_machine
from toolchain.verify.kernel_check import check_kernel, operations_for
from toolchain.verify.limits import aimed, crossing, free_numbers, unmet_conditions
from toolchain.verify.situations import Seen


def test_without_a_program_all_are_left() -> None:
    kernel = load_kernels(load_machine("vta"))["add"]
    found = unmet_conditions(kernel, Seen())
    assert {each.never for each in found} == {"looked at"}
    assert any(each.text == "shift > 15" for each in found)


def test_more_shapes_leave_fewer() -> None:
    machine = load_machine("vta")
    kernel, kinds = load_kernels(machine)["add"], kinds_of(machine)
    few, many = (check_kernel(machine, kernel, kinds, count) for count in (1, 3))
    whole = unmet_conditions(kernel, Seen())
    assert len(many.unmet) < len(few.unmet) < len(whole)
    assert {(each.text, each.span) for each in many.unmet} <= {(each.text, each.span) for each in whole}


def test_conditions_of_requires_are_not_among_them() -> None:
    """They hold for every operation that a kernel takes."""
    found = unmet_conditions(load_kernels(load_machine("dnnvm"))["many_channels"], Seen())
    assert not any(each.text in ("groups > 256", "kw == 1") for each in found)


def test_the_command_counts_them_and_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", "check", "vta", "add", "--shapes", "1", "--gaps"]) == 0
    first, *listed = capsys.readouterr().out.splitlines()
    assert first.endswith(f"; {len(listed)} conditions came out one way only")
    assert any(line.startswith("  ") and ": never held: " in line for line in listed)


def drawn(target: str, name: str) -> Problem:
    machine = load_machine(target)
    kernel = load_kernels(machine)[name]
    found = operations_for(machine, kernel, kinds_of(machine)[kernel.computes], np.random.default_rng(0))
    return next(problem for problem in found if problem is not None)


@given(st.integers(2, 1000), st.sampled_from([1, 3, -1, -7]))
def test_the_first_number_on_the_other_side(limit: int, step: int) -> None:
    def gap(value: int) -> int:
        return step * (value - limit)

    met = crossing(gap, 1, 2000)
    assert met is not None
    assert (gap(met) < 0) != (gap(met - 1) < 0)


def test_no_number_where_a_side_stays_or_has_no_value() -> None:
    assert crossing(lambda _: 1, 1, 10) is None
    assert crossing(lambda _: None, 1, 10) is None
    assert crossing(lambda value: value - 5 if value in (1, 10) else None, 1, 10) is None


def test_a_shift_at_the_limit_of_a_sequence() -> None:
    """vta's `narrow` shifts by 15 at most, and by the rest once more."""
    problem = drawn("vta", "add")
    shifts = {numbers["shift"] for numbers in islice(aimed(problem, Seen(), np.random.default_rng(0)), 2000) if "shift" in numbers}
    assert {15, 16} <= shifts


def test_limits_that_were_seen_are_not_aimed_at() -> None:
    problem = drawn("vta", "add")
    every = list(islice(aimed(problem, Seen(), np.random.default_rng(0)), 5000))

    class All(Seen):
        def __contains__(self, key: object) -> bool:
            return True

    assert every
    assert not list(aimed(problem, All(), np.random.default_rng(0)))


def test_only_numbers_that_are_free_are_said() -> None:
    problem = drawn("dnnvm", "many_channels")
    free = free_numbers(problem.operation.kind)
    found = list(islice(aimed(problem, Seen(), np.random.default_rng(0)), 100))
    assert found
    assert all(numbers.keys() <= free.keys() for numbers in found)
    assert "batch" not in free
