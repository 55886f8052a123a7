"""Conditions that no program of a check brought about both ways."""

import pytest

from toolchain.cli import main
from toolchain.operations.library import kinds_of
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.load import load_machine
from toolchain.verify.kernel_check import check_kernel
from toolchain.verify.situations import Seen
from toolchain.verify.unmet import unmet_conditions


def test_without_a_program_all_are_left() -> None:
    kernel = load_kernels(load_machine("vta"))["add"]
    found = unmet_conditions(kernel, Seen())
    assert {each.never for each in found} == {"looked at"}
    assert any(each.text == "shift > 15" for each in found)


def test_more_shapes_leave_fewer() -> None:
    machine = load_machine("vta")
    kernel, kinds = load_kernels(machine)["add"], kinds_of(machine)
    few, many = (check_kernel(machine, kernel, kinds, count) for count in (1, 8))
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
