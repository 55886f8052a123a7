"""Levels as columns, portable checks that warn once each, and constraints on latched registers in the order of execution."""

import numpy as np
import pytest

from tests.coded_machine import coded_machine
from toolchain.analysis.checks import check_program
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import new_state
from toolchain.isa.assembly import assemble
from toolchain.isa.checks import MOST, latched_violations, level_columns, limited, portability, reads_registers, register_leaf
from toolchain.isa.footprint.provenance import Provenance
from toolchain.spec.errors import Diagnostic, Source, UserError
from toolchain.spec.expr import Const, Index, Member, Name
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


ALU = "ALU uop_bgn=0 uop_end=1 iter_out=1 iter_in=1 dst_factor_out=0 dst_factor_in=0 src_factor_out=0 src_factor_in=0"
LOAD = "LOAD sram_base=0 dram_base=0 x_stride=0"


@pytest.mark.parametrize(
    ("line", "check"),
    [
        (f"{ALU} alu_opcode=shr use_imm=1 imm=16", "shift_range"),
        (f"{ALU} alu_opcode=shr", "shift_by_vector"),
        (f"{ALU} alu_opcode=mul", "multiply"),
        (f"{LOAD} memory_type=acc8 y_size=1 x_size=1", "load_8_bit"),
        (f"{LOAD} memory_type=uop y_size=2 x_size=1", "uop_window"),
        (f"{LOAD} memory_type=uop y_size=1 x_size=1 x_pad_1=1", "uop_window"),
        (f"{LOAD} memory_type=wgt y_size=1 x_size=1 y_pad_0=1", "weight_pads"),
        (f"{LOAD} memory_type=inp y_size=1 x_size=0 x_pad_0=1", "empty_load"),
        (f"{ALU} alu_opcode=shr use_imm=1 imm=-16", ""),
        (f"{LOAD} memory_type=inp y_size=3 x_size=2 x_pad_0=1", ""),
    ],
)
def test_each_known_difference_warns(line: str, check: str) -> None:
    found = portability(assemble(load_machine("vta"), Source("a.asm", f"{line}\nFINISH\n")))
    assert [d.hint for d in found] == ([f"portable check '{check}'"] if check else [])


def test_a_warning_names_the_first_and_counts_the_rest() -> None:
    text = f"FINISH_LATER\n{ALU} alu_opcode=mul\n{ALU} alu_opcode=add\n{ALU} alu_opcode=mul\nFINISH\n".replace(
        "FINISH_LATER", f"{ALU} alu_opcode=min"
    )
    (warning,) = portability(assemble(load_machine("vta"), Source("a.asm", text)))
    assert warning.headline().startswith("E0412 warning: #1 ALU at 0x10, and 1 more: only the functional simulator")
    assert warning.severity == "warning"


def test_a_machine_without_portable_checks_has_nothing_to_say() -> None:
    assert portability(assemble(load_machine("dpuv3"), Source("a.asm", "END 0000 0000\n"))) == ()


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
