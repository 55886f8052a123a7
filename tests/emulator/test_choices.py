"""A choice by data reads both its sides, a choice by scalars one: the same on every engine and in both versions of footprints."""

import pytest

from tests.tiny_machine import streams, tiny, word
from toolchain.analysis.footprints import native_footprints
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import new_state
from toolchain.emulator import Engine, native, numpy_engine, reference
from toolchain.isa.decode import decode
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.footprint.vector import footprints
from toolchain.isa.program import Program
from toolchain.spec.errors import UserError

ENGINES = [reference.run, numpy_engine.run, *([native.run] if native.available() else [])]
BOTH_SIDES = {
    "the side not taken": "acc[0][c] = (feat[0, 0][c] if sat[0][c] >= 0 else par[a][0, c])",
    "a reduced condition": "acc[0][c] = (1 if reduce_max(sat[0][d]) < 4 else par[a][0, c])",
    "inside a sum": "acc[0][c] = (1 if sat[0][c] >= 0 else sum(par[a][d, c]))",
    "a looked-up value": "acc[0][c] = (1 if sat[0][c] >= 0 else lookup(par[a][0, k], sat[1][c] & 3))",
    "a place to look up": "acc[0][c] = (1 if sat[0][c] >= 0 else lookup(sat[0][k], par[a][0, c] & 3))",
    "inside a minimum": "acc[0][c] = min(5, (par[a][0, c] if sat[0][c] > 3 else 1))",
    "a choice in a choice": "acc[0][c] = ((par[a][0, c] if sat[0][c] > 3 else 1) if sat[0][c] >= 5 else 3)",
    "after `or`": "acc[0][c] = (1 if sat[0][c] >= 0 or par[a][0, c] > 3 else 5)",
    "after `and`": "acc[0][c] = (1 if sat[0][c] > 0 and par[a][0, c] > 3 else 5)",
    "a control memory": "acc[0][c] = (1 if sat[0][c] >= 0 else num[a])",
    "an element without lanes": "one[0] = (1 if one[1] == 0 else one[a])",
    "another core": "acc[0][c] = (1 if sat[0][c] >= 0 else par.core(a)[0][0, c])",
    "a temporary": "s[o]: i32 = (1 if sat[0][o] >= 0 else par[a][0, o])\nacc[0][o] = s[o]",
}
ONE_SIDE = {
    "a scalar condition": "acc[0][c] = (par[a][0, c] if a < 4 else 0)",
    "a scalar condition inside": "acc[0][c] = (1 if sat[0][c] >= 0 else (par[a][0, c] if a < 4 else 0))",
    "a scalar before data": "acc[0][c] = (1 if a >= 4 or par[a][0, c] > 3 else 5)",
    "a scalar between data": "acc[0][c] = (1 if sat[0][c] >= 0 or a >= 4 or par[a][0, c] > 3 else 5)",
    "a scalar before `and`": "acc[0][c] = (1 if a < 4 and sat[0][c] >= 0 and par[a][0, c] > 3 else 5)",
    "scalars that differ between iterations": "for i in range(8):\n    acc[0][c] += (1 if i >= 4 or sat[0][c] > 0 or par[i][0, c] > 3 else 5)",
    "a guarded control read in a condition": "acc[0][c] = (par[0][0, c] if a >= 4 or num[a] > 3 else par[1][0, c])",
    "a guarded control read in an address": "for i in range(n):\n    acc[0 if a >= 4 or num[a + i] > 3 else 1][c] = 2",
}


def outcome(engine: Engine, program: Program) -> str:
    """The code of the error, or the memory afterwards."""
    state = new_state(program.machine)
    try:
        engine(program, state, issue_order(program))
    except UserError as error:
        return error.diagnostics[0].code
    return state.memories["acc"].tobytes().hex() + state.memories["one"].tobytes().hex()


def address_faults(program: Program) -> set[int]:
    """How many faults each version of footprints finds."""
    order, state = issue_order(program), new_state(program.machine)
    provenance = Provenance(program, state, order)
    quick = native_footprints(program, order, provenance)
    return {len(found.faults) for found in (footprints(program, state, order, provenance), quick) if found is not None}


def program(text: str, a: int) -> Program:
    """One OP; `a` 9 is outside, 1 is inside."""
    return decode(tiny(text), streams([word(0, a=a)]))


@pytest.mark.drawn(4)
@pytest.mark.parametrize("name", [*BOTH_SIDES])
def test_a_choice_by_data_reads_both_sides(name: str) -> None:
    outside, inside = program(BOTH_SIDES[name], 9), program(BOTH_SIDES[name], 1)
    assert {outcome(engine, outside) for engine in ENGINES} == {"E0701"}
    assert address_faults(outside) == {1}
    assert address_faults(inside) == {0}
    results = {outcome(engine, inside) for engine in ENGINES}
    assert len(results) == 1
    assert not results & {"E0701"}


@pytest.mark.parametrize("name", [*ONE_SIDE])
def test_a_choice_by_scalars_reads_one_side(name: str) -> None:
    for a in (9, 1):
        results = {outcome(engine, program(ONE_SIDE[name], a)) for engine in ENGINES}
        assert len(results) == 1
        assert not results & {"E0701"}
        assert address_faults(program(ONE_SIDE[name], a)) == {0}
