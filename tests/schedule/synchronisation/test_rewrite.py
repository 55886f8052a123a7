"""Bits set, cleared, and instructions put in between: what comes out decodes to itself. Signals to many streams at once."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.schedule.cells import EVERY, Op, cells, memory, program
from toolchain.isa.decode import decode
from toolchain.isa.encode import encode_program
from toolchain.isa.sync_tokens import sync_encoding
from toolchain.schedule.synchronisation.rewrite import boxes, without_tokens
from toolchain.schedule.synchronisation.synchronise import synchronise

STAR = cells(dict.fromkeys(("ab", "ba", "bc", "cb"), ""))


def test_programs_decode_to_themselves() -> None:
    found = synchronise(program(STAR, [Op(0, 0, 1), Op(2, 1, 2), Op(0, 2, 3)]), memory(STAR)).program
    again = decode(STAR, found.streams)
    assert encode_program(found) == found.streams
    for name in ("kind", "unit", "offset", "row", "stream"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))


def test_tokens_are_forgotten_and_nothing_else() -> None:
    machine = cells(EVERY)
    plain = program(machine, [Op(0, 0, 1), Op(1, 1, 2), Op(2, 2, 3)])
    found = synchronise(plain, memory(machine)).program
    assert found.streams != plain.streams
    assert without_tokens(found, sync_encoding(machine)).streams == plain.streams


def test_it_is_a_fixed_point() -> None:
    machine = cells(EVERY)
    once = synchronise(program(machine, [Op(0, 0, 1), Op(1, 1, 2), Op(0, 2, 0), Op(2, 0, 3)]), memory(machine)).program
    assert synchronise(once, memory(machine)).program.streams == once.streams


@given(goals=st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 1)), min_size=1))
def test_boxes_cover_each_goal_once(goals: set[tuple[int, ...]]) -> None:
    covered = [goal for box in boxes(goals) for goal in itertools.product(*box)]
    assert sorted(covered) == sorted(goals)
    assert len(list(boxes({(a, b) for a in (0, 2) for b in (1, 3)}))) == 1
