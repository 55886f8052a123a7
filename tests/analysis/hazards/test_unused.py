"""A race for a value that is lost is none, and one for a value that is used always is."""

from dataclasses import replace

import numpy as np
import pytest

from tests.analysis.test_checks import FACTORS, INP, UOPS, WGT
from tests.tiny_machine import streams, tiny, word
from toolchain.analysis.checks import check_program
from toolchain.analysis.state import new_state
from toolchain.emulator.engines import engine_named
from toolchain.isa.assembly.assembler import assemble
from toolchain.isa.binary.decode import decode
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import load_machine

HLS = load_machine("vta:hls")
CLEAR = f"GEMM reset=1 uop_bgn=0 uop_end=1 iter_out=1 iter_in=16 {FACTORS}\n"
GEMM = f"GEMM uop_bgn=0 uop_end=1 iter_out=1 iter_in=16 {FACTORS}"
STORE = "STORE memory_type=out sram_base=0 dram_base=8192 y_size=1 x_size=16 x_stride=16"
LOADS = f"{INP}\n{WGT} push_next=1\n"


def codes(text: str) -> set[str]:
    program, state = assemble(HLS, Source("case.asm", text)), new_state(HLS)
    try:
        return {d.code for d in check_program(program, state).warnings}
    except UserError as error:
        return {d.code for d in error.diagnostics}


def test_a_clearing_product_of_what_is_still_being_loaded_is_overwritten_before_it_is_stored() -> None:
    """It races with both loads and reads sums that nothing has written; of that nothing is left."""
    assert codes(f"{UOPS}{LOADS}{CLEAR}{GEMM} pop_prev=1 push_next=1\n{STORE} pop_prev=1 push_prev=1\nFINISH pop_next=1\n") == set()


def test_a_clearing_product_that_is_stored_matters() -> None:
    assert codes(f"{UOPS}{LOADS}{CLEAR.strip()} pop_prev=1 push_next=1\n{STORE} pop_prev=1 push_prev=1\nFINISH pop_next=1\n") == {"E0602"}
    clear = f"{UOPS}{LOADS}{CLEAR}LOAD memory_type=uop sram_base=9 dram_base=1024 y_size=1 x_size=1 x_stride=1 pop_prev=1 push_next=1\n"
    assert codes(f"{clear}{STORE} pop_prev=1 push_prev=1\nFINISH pop_next=1\n") == {"E0601", "E0602"}


def test_one_element_that_is_not_overwritten_matters() -> None:
    short = GEMM.replace("iter_in=16", "iter_in=15")
    assert codes(f"{UOPS}{LOADS}{CLEAR}{short} pop_prev=1 push_next=1\n{STORE} pop_prev=1 push_prev=1\nFINISH pop_next=1\n") == {"E0601", "E0602"}


def test_a_read_that_matters_is_not_hidden_behind_one_that_is_lost() -> None:
    """Both instructions read what the last load writes over, and only the later one is named by a hazard."""
    late = f"{UOPS}{LOADS}{CLEAR}{GEMM} pop_prev=1\n{CLEAR}{GEMM.replace('uop_bgn=0 uop_end=1', 'uop_bgn=0 uop_end=0')} push_next=1\n{INP}\n"
    assert "E0601" in codes(f"{late}FINISH\n")


def test_what_stays_unread_is_lost_in_a_transient_memory_only() -> None:
    """On chip, sums outlive a program, and the buffer for stores does not."""
    assert codes(f"{UOPS}{LOADS}{CLEAR}FINISH pop_prev=1\n") == set()
    loaded = "LOAD memory_type=acc sram_base=0 dram_base=64 y_size=1 x_size=16 x_stride=16\n"
    assert "E0601" in codes(f"{UOPS}{loaded}{LOADS}{GEMM}\nFINISH pop_prev=1\n")


def test_a_transient_memory_is_written_before_it_is_read_even_where_the_host_fills_it() -> None:
    program = assemble(HLS, Source("case.asm", f"{STORE} push_prev=1\nFINISH pop_next=1\n"))
    with pytest.raises(UserError, match="E0602 #0 STORE at 0x0 reads out"):
        check_program(program, new_state(HLS), ["out"])


@pytest.mark.parametrize(
    ("semantics", "unwritten"),
    [
        ("if n == 1:\n    feat[0, 0] = loop[0]\nelse:\n    feat[0, 0] = dram.row[0]", False),
        ("if n == 1:\n    feat[0, 0][c] = loop[0][c]\nelse:\n    feat[0, 0][1] = dram.row[0][1]", True),
        ("if n == 1:\n    feat[0, 0] = loop[0]\nelif n == 2:\n    feat[0, 0] = dram.row[0]\nelse:\n    feat[1, 1] = feat[0, 0]", False),
        ("if n == 1:\n    feat[0, 0][c] = loop[0][c] + feat[0, 0][c] * 0\nelse:\n    feat[0, 0] = dram.row[0]", True),
        ("t[c]: i32 = loop[0][c] * 0\nif n == 1:\n    feat[0, 0][c] = t[c]\nelse:\n    feat[0, 0] = dram.row[0]", False),
    ],
    ids=["overwritten", "one lane overwritten", "overwritten before a reader", "read back by itself", "by a temporary"],
)
def test_what_is_overwritten(semantics: str, unwritten: bool) -> None:
    machine = tiny(semantics)
    memories = tuple(replace(m, transient=m.name == "feat") for m in machine.memories)
    program = decode(replace(machine, memories=memories), streams([word(0, n=1), word(0, n=2), word(0, n=3)]))
    state = new_state(program.machine)
    with pytest.raises(UserError, match="which nothing has written"):  # were the memory another program's too
        check_program(replace(program, machine=machine), state)
    if unwritten:
        with pytest.raises(UserError, match="which nothing has written"):
            check_program(program, state)
        return
    order = check_program(program, state).order
    ends: list[bytes] = []
    for garbage in (0, 85):
        state = new_state(program.machine)
        state.memories["loop"][:] = garbage
        engine_named("fast")(program, state, order)
        ends.append(state.memories["feat"].tobytes())
    assert ends[0] == ends[1]
    assert np.any(np.frombuffer(ends[0], np.uint8) == 0)
