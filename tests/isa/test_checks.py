"""Levels as columns, and how many errors one message holds."""

import numpy as np
import pytest

from tests.coded_machine import coded_machine
from toolchain.isa.checks import MOST, level_columns, limited, reads_registers
from toolchain.spec.errors import Diagnostic
from toolchain.spec.load import load_machine


def test_levels_count_in_mixed_radix() -> None:
    machine = load_machine("stcp920")
    shape = [(level.name, level.count) for level in machine.levels]
    columns = level_columns(machine, np.arange(machine.streams))
    assert list(zip(*(columns[name].tolist() for name, _ in shape), strict=True)) == list(np.ndindex(*[count for _, count in shape]))


def test_levels_in_lockstep_are_no_columns() -> None:
    assert level_columns(load_machine("dpuv3"), np.zeros(3, np.int64)) == {}


def test_constraints_that_need_latched_fields_are_told_apart() -> None:
    own, latched = (c.that for c in coded_machine().instruction["MIRROR"].constraints)
    assert (reads_registers(own), reads_registers(latched)) == (False, True)


@pytest.mark.parametrize("count", [1, MOST, MOST + 1])
def test_errors_are_limited(count: int) -> None:
    error = limited([Diagnostic("E0404", f"number {n}", place="p") for n in range(count)])
    assert [d.message for d in error.diagnostics[:MOST]] == [f"number {n}" for n in range(min(count, MOST))]
    assert [d.headline() for d in error.diagnostics[MOST:]] == ["p: E0404 there are more errors after this one"] * (count > MOST)
