"""Whom the interlock holds, against a plain walk over every cell."""

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.cells import UNITS, Op, cells, copies, memory, program
from toolchain.analysis.footprints import footprints
from toolchain.analysis.interlock import held_instructions
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Program
from toolchain.spec.model import Machine


def held(made: Program) -> list[list[int]]:
    state, order = memory(made.machine), np.arange(len(made))
    provenance = Provenance(made, state, order)
    found: list[list[int]] = held_instructions(made, footprints(made, state, order, provenance).runs, provenance).latest.tolist()
    return found


def machine(interlock: str) -> Machine:
    return cells({}, nops="", interlock=interlock)


@dataclass(frozen=True)
class Rule:
    """An interlock as text, and as the plain walk needs it. pairs: (earlier, later) units."""

    text: str
    pairs: frozenset[tuple[int, int]]
    block: int = 1
    back: int = 1000


ALL = frozenset((a, b) for a in range(3) for b in range(3))
RULES = [
    Rule("{memories: [ram]}", ALL),
    Rule("{fences: [IDLE]}", ALL),
    Rule("{granularity: {ram: 2}}", ALL, 2),
    Rule("{granularity: {ram: 0}, looks_back: 3}", ALL, 16, 3),
    Rule("{pairs: [{from: a, to: b}, {from: b, to: b}], looks_back: 2}", frozenset({(0, 1), (1, 1)}), 1, 2),
]


def meet(op: Op, other: Op, block: int) -> bool:
    source, to = op.source // block, op.to // block
    return other.to // block in (source, to) or other.source // block == to


@given(ops=copies(most=30), rule=st.sampled_from(RULES))
@settings(max_examples=30, deadline=None)
def test_those_whose_cells_meet_are_held(ops: list[Op], rule: Rule) -> None:
    found = held(program(machine(rule.text), ops))
    for index, op in enumerate(ops):
        before = [(i, other) for i, other in enumerate(ops[:index]) if i >= index - rule.back and (other.unit, op.unit) in rule.pairs]
        assert found[index] == [max((i for i, other in before if other.unit == u and meet(op, other, rule.block)), default=-1) for u in range(3)]


@given(ops=st.lists(st.builds(Op, st.integers(0, 2), st.integers(0, 15), st.integers(0, 15), event=st.sampled_from(["", "posts"])), max_size=20))
@settings(max_examples=25, deadline=None)
def test_a_fence_holds_and_is_held(ops: list[Op]) -> None:
    found = held(program(machine("{pairs: [{from: a, to: a}], fences: [IDLE]}"), ops))
    for index, op in enumerate(ops):
        before = list(enumerate(ops[:index]))
        for unit in range(len(UNITS)):
            of_unit = [(i, other) for i, other in before if other.unit == unit]
            fences = max((i for i, other in of_unit if other.event), default=-1)
            expected = max((i for i, _ in of_unit), default=-1) if op.event else fences
            assert found[index][unit] == expected or (not op.event and op.unit == unit == 0 and found[index][unit] > expected)


def test_a_window_of_one_runs_one_after_the_other() -> None:
    ops = [Op(0, 1, 2), Op(1, 3, 4), Op(2, 5, 6), Op(1, 7, 8)]
    assert held(program(machine("{window: 1}"), ops)) == [[-1, -1, -1], [0, -1, -1], [0, 1, -1], [0, 1, 2], [0, 3, 2]]


def test_without_an_interlock_nothing_is_held() -> None:
    assert held(program(cells({}), [Op(0, 1, 2), Op(1, 2, 3)])) == [[-1, -1, -1]] * 3
