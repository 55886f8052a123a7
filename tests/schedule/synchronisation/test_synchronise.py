"""Derived synchronisation as a whole: nothing races, nothing deadlocks, nothing is left over, and no token is for nothing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.cells import EVERY, PAIRS, Op, cells, copies, counter_sets, memory, program
from tests.schedule.laws import assert_every_token_counts, derive, token_pairs

MACHINES = {
    "every pair": cells(EVERY),
    "overlapping units": cells(dict.fromkeys(PAIRS, ""), overlaps="abc"),
    "all meet at b": cells(dict.fromkeys(("ab", "ba", "bc", "cb"), "")),
    "a ring": cells(dict.fromkeys(("ab", "bc", "ca"), "")),
    "all prior": cells(dict.fromkeys(EVERY, ", mode: all_prior") | {"ab": ""}),
    "one overlaps, without a counter of its own": cells(dict(EVERY), overlaps="b"),
}
MINIMAL = [name for name in MACHINES if name != "all prior"]


@pytest.mark.parametrize("name", MACHINES)
@given(ops=copies())
@settings(max_examples=15, deadline=None)
def test_nothing_races_and_the_result_is_that_of_the_programs_own_order(name: str, ops: list[Op]) -> None:
    derive(program(MACHINES[name], ops), memory(MACHINES[name]))


@pytest.mark.parametrize("name", MINIMAL)
@given(ops=copies(most=10))
@settings(max_examples=10, deadline=None)
def test_every_token_is_needed(name: str, ops: list[Op]) -> None:
    machine = MACHINES[name]
    found = derive(program(machine, ops), memory(machine), ()).program
    inside = [pair for pair in token_pairs(found) if pair[0] != "aa" or pair[2] < len(found) - 1]  # the end comes last in its own queue anyway
    assert_every_token_counts(found, memory(machine), inside)


@given(data=st.data(), depth=st.sampled_from([0, 0, 1, 3]))
@settings(max_examples=25, deadline=None)
def test_counters_of_any_depth_neither_overflow_nor_deadlock(data: st.DataObject, depth: int) -> None:
    shapes = data.draw(counter_sets(("", ", depth: 1", ", depth: 2", ", depth: 4")))
    machine = cells(shapes, depth=depth)
    derive(program(machine, data.draw(copies(most=40))), memory(machine), (None, 1, 2))


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_instructions_that_cannot_wait_or_post_leave_it_to_others(data: st.DataObject) -> None:
    machine = cells(data.draw(counter_sets(("", ", depth: 1"))))
    derive(program(machine, data.draw(copies(quiet=True, most=30))), memory(machine))


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_flags_beside_other_counters(data: st.DataObject) -> None:
    shapes = data.draw(st.lists(st.sampled_from(["ab", "ac", "bc"]), unique=True))
    machine = cells(EVERY | dict.fromkeys(shapes, ", mode: flag"))
    derive(program(machine, data.draw(copies(most=30))), memory(machine))


def test_events_are_fences_and_stay() -> None:
    machine = cells(EVERY, event=True)
    ops = [Op(1, 0, 1), Op(2, 2, 3), Op(0, 0, 0, event="posts"), Op(0, 0, 0, event="waits"), Op(1, 4, 5), Op(1, 6, 7), Op(2, 8, 9)]
    found = derive(program(machine, ops), memory(machine)).program
    pairs = [pair for pair in token_pairs(found) if pair[2] < len(ops)]
    assert pairs == [("ab", 3, 4), ("ac", 3, 6), ("ba", 0, 2), ("ca", 1, 2), ("event[0]", 2, 3)]
