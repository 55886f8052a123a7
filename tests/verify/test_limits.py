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
from toolchain.spec.evaluate import constant
from toolchain.spec.load import load_machine
from toolchain.verify.kernel_check import check_kernel, operations_for
from toolchain.verify.limits import aimed, crossing, difference, free_numbers, limits_of, several_together, unmet_conditions
from toolchain.verify.situations import Seen, apart, exchanged, names_in


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


def drawn_problems(target: str, name: str, count: int) -> list[Problem]:
    machine = load_machine(target)
    kernel = load_kernels(machine)[name]
    found = operations_for(machine, kernel, kinds_of(machine)[kernel.computes], np.random.default_rng(0))
    return list(islice((problem for problem in found if problem is not None), count))


def drawn(target: str, name: str) -> Problem:
    return drawn_problems(target, name, 1)[0]


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


def aimed_numbers(target: str, name: str) -> list[dict[str, int]]:
    return list(aimed(drawn(target, name), Seen(), np.random.default_rng(0)))


def test_a_limit_in_names_of_instructions_and_channels_of_tensors() -> None:
    """dpuv3's picture of more than 4,096 channels is loaded pixel by pixel: `apart: max(words, pixel) > 256`, of words that a `let` beside it has."""
    found = aimed_numbers("dpuv3", "whole_picture")
    assert {4080, 4081, 4096, 4097} <= {numbers["in_channels"] for numbers in found}
    assert all(numbers["group_channels"] == numbers["in_channels"] for numbers in found if numbers["in_channels"] > 4000)


def test_the_end_of_a_picture_is_a_limit_of_its_windows() -> None:
    """dnnvm's `columns` counts columns in fours, so that few windows of random pictures reach beyond the last four."""
    problem = drawn("dnnvm", "columns")
    ends = [limit for limit in limits_of(problem.kernel) if any(place == ("beyond", "w") for place, _ in limit.wanted.values())]
    assert len(ends) == 1
    numbers = {**problem.numbers, "ow_all": 3, "kw": 5, "reach_w": 2, "pad_left": 0, "side": 0, "wide": 4}
    assert difference(ends[0], numbers) == (3 - 1) + (5 + 2) // 4 + 1 - 4


def test_two_dimensions_have_several_units_together() -> None:
    """One random convolution of eighty has more than 32 channels on either side."""
    problem = drawn("stcp920", "strided")
    found = list(several_together(problem, Seen(), np.random.default_rng(0)))
    assert any(min(numbers["in_channels"], numbers["out_channels"]) > 32 for numbers in found)
    assert all(numbers["group_channels"] == numbers["in_channels"] for numbers in found)
    seen = Seen(("units", one, True, other, True) for one in problem.extents for other in problem.extents)
    assert not list(several_together(problem, seen, np.random.default_rng(0)))


def test_a_number_is_aimed_at_that_is_smaller_than_the_same_of_the_other_axis() -> None:
    """A square stride tells neither axis from the other."""
    problems = drawn_problems("dnnvm", "conv_transpose", 12)
    side = problems[0].kernel.let["side"]
    other = next(other for expr, other in exchanged(problems[0]) if expr is side and "sh" in names_in(other))

    class AllButSide(Seen):
        def __contains__(self, key: object) -> bool:
            return not (isinstance(key, tuple) and key[0] == apart(other))

    found = [{**each.numbers, **new} for each in problems for new in aimed(each, AllButSide(), np.random.default_rng(0))]
    assert {constant(side, numbers) - constant(other, numbers) for numbers in found} == {-1, 1}
