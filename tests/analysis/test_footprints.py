"""The quickest way to footprints: C where there is a compiler, numpy where there is none, and one result."""

import numpy as np
import pytest

from tests.footprint_oracle import assert_native_equal
from tests.random_programs import random_state
from tests.tiny_machine import streams, tiny, word
from toolchain.analysis.footprint_source import large_kinds
from toolchain.analysis.footprints import footprints, native_footprints, program_source
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State
from toolchain.isa.assembly import assemble
from toolchain.isa.decode import decode
from toolchain.isa.footprint import vector
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Ints, Program
from toolchain.spec.errors import Source
from toolchain.spec.load import load_machine

TEXT = "for i in range(n):\n    if i != b % 3:\n        acc[(i + b) % 4][o] += feat[i % 2, a + i][o] * cfg[i % 2].m\n"


@pytest.fixture
def case() -> tuple[Program, State, Ints]:
    program = decode(tiny(TEXT), streams([word(1, m=3), word(1, b=1), word(0, a=-3, b=2, n=9), word(0, a=7, n=2)]))
    return program, random_state(program.machine, 1), issue_order(program)


def test_a_compiler_makes_no_difference(case: tuple[Program, State, Ints], monkeypatch: pytest.MonkeyPatch) -> None:
    program, state, order = case
    found = footprints(program, state, order)
    assert_native_equal(found, state, order)
    monkeypatch.setenv("TILEWRIGHT_CC", "none")
    assert native_footprints(program, order, Provenance(program, state, order)) is None
    plain = footprints(program, state, order)
    for name in ("instruction", "memory", "write", "start", "stop"):
        assert np.array_equal(getattr(plain.runs, name), getattr(found.runs, name)), name


def test_numpy_takes_over_only_where_c_gives_nothing(case: tuple[Program, State, Ints], monkeypatch: pytest.MonkeyPatch) -> None:
    program, state, order = case
    if native_footprints(program, order, Provenance(program, state, order)) is None:
        pytest.skip("no C compiler")
    monkeypatch.setattr(vector, "footprints", None)
    assert len(footprints(program, state, order).runs.start)


def test_the_text_of_a_machine_is_written_once() -> None:
    first, again, other = (decode(machine, streams([word(1, m=3)])) for machine in (*[tiny(TEXT)] * 2, tiny("pass\n")))
    assert program_source(first) is program_source(again)
    assert program_source(first) is not program_source(other)


def test_kinds_that_stand_for_whole_loops_are_left_out_for_programs_without_them() -> None:
    machine = load_machine("gemmini")
    (loop,) = large_kinds(machine)
    assert machine.instructions[loop].name == "LOOP_WS"
    plain, whole = (assemble(machine, Source("p", text)) for text in ("FLUSH\n", "LOOP_WS\n"))
    assert 10 * len(program_source(plain).source) < 6 * len(program_source(whole).source)
    assert not program_source(plain).columns[loop]
    assert program_source(whole).columns[loop]
