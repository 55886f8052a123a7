"""Constraints on latched and host registers: the fields that the last latching instruction had, in the order of execution."""

import numpy as np
import pytest

from tests.coded_machine import coded_machine
from toolchain.analysis.checks import check_program
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import new_state
from toolchain.isa.assembly.assembler import assemble
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.latched_checks import latched_violations, register_leaf
from toolchain.spec.errors import Source, UserError
from toolchain.spec.expr import Const, Index, Member, Name

CODED = coded_machine()
TEXT = """
SET kernel=4 shift=0
MIRROR side=left where=1 count=4
SET kernel=2 shift=9
MIRROR side=left where=1 count=2
MIRROR side=left where=1 count=3
END
"""


def provenance(text: str) -> Provenance:
    program = assemble(CODED, Source("asm", text))
    return Provenance(program, new_state(CODED), issue_order(program))


def test_the_latest_latch_counts() -> None:
    found = [d.headline() for d in latched_violations(provenance(TEXT))]
    assert found == ["E0404 #4 MIRROR at 0x14: the kernel is smaller (count = 3, ci.kernel = 2)"]


def test_the_checks_before_a_run_hold_them() -> None:
    program = assemble(CODED, Source("asm", TEXT))
    with pytest.raises(UserError, match="the kernel is smaller"):
        check_program(program, new_state(CODED))


def test_registers_as_leaves_of_some_rows() -> None:
    held = provenance(TEXT)
    mirror = 1
    leaf = register_leaf(held, mirror, np.flatnonzero(held.program.kind == mirror))
    assert np.asarray(leaf(Member(Name("ci"), "kernel"), None)).tolist() == [4, 2, 2]
    assert np.asarray(leaf(Member(Index(Name("ci"), (Const(0),)), "shift"), np.array([0, 2]))).tolist() == [0, 9]
    assert np.asarray(leaf(Name("count"), np.array([1]))).tolist() == [2]
