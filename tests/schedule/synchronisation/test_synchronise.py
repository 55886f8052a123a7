"""Turns: whom an instruction waits for at the ports of banks, in the program's order and in another one. Derived synchronisation as a whole:
nothing races, nothing deadlocks, nothing is left over, and no token is for nothing.

Synchronisation that another cluster's program lends is the one that the program would have of its own."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toolchain.schedule.synchronisation.synchronise as elsewhere
from tests.schedule.cells import EVERY, PAIRS, Op, cells, copies, counter_sets, memory, program
from tests.schedule.laws import assert_every_token_counts, derive, token_pairs
from tests.schedule.many_cores import chip
from tests.schedule.synchronisation.banked_programs import turns
from tests.schedule.test_compile_region import three_convolutions
from toolchain.isa.program import Program
from toolchain.schedule.compile_region import compile_region, find_schedule
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.synchronisation.synchronise import placed_turns

MACHINES = {
    "every pair": cells(EVERY),
    "overlapping units": cells(dict.fromkeys(PAIRS, ""), overlaps="abc"),
    "all meet at b": cells(dict.fromkeys(("ab", "ba", "bc", "cb"), "")),
    "a ring": cells(dict.fromkeys(("ab", "bc", "ca"), "")),
    "all prior": cells(dict.fromkeys(EVERY, ", mode: all_prior") | {"ab": ""}),
    "one overlaps, without a counter of its own": cells(dict(EVERY), overlaps="b"),
}
MINIMAL = [name for name in MACHINES if name != "all prior"]


def test_an_instruction_waits_for_the_last_one_at_its_banks_where_one_reads_the_same() -> None:
    """Unit a copies from bank 0 to 1, from 3 to 1, and from 2 to 0; unit b, whose turn it is, from bank 0 to 3."""
    found = turns(("a", 0, 1), ("a", 3, 1), ("a", 2, 0), ("b", 0, 3))
    assert found is not None
    assert found.tolist() == [[-1, -1, -1]] * 3 + [[0, -1, -1]]


def test_others_at_the_same_banks_count_too() -> None:
    """The second copy writes into the bank that `b` writes."""
    found = turns(("a", 0, 1), ("a", 2, 3), ("b", 0, 3))
    assert found is not None
    assert found[2].tolist() == [1, -1, -1]


def test_nobody_waits_where_nothing_is_read_twice_or_ports_are_free() -> None:
    assert turns(("a", 0, 1), ("b", 2, 1)) is None
    assert turns(("b", 0, 1), ("a", 0, 3)) is None
    assert turns(("a", 0, 1), ("b", 0, 3), free=True) is None


def test_turns_follow_the_instructions() -> None:
    given = np.array([[-1, -1], [0, -1], [-1, -1]], np.int32)
    assert placed_turns(given, np.array([2, 0, 1])).tolist() == [[-1, -1], [-1, -1], [1, -1]]


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


@pytest.mark.parametrize(
    ("copies", "streams", "multicast", "lent"),
    [(4, 1, True, 1), (2, 2, False, 1), (2, 1, False, 1), (4, 1, False, 3), (2, 4, True, 1), (2, 4, False, 1)],
)
def test_it_is_the_same_as_ones_own(copies: int, streams: int, multicast: bool, lent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies on four streams have two clusters each."""
    machine, region = chip(copies * streams // 2, 2) if streams > 2 else chip(2, 2), three_convolutions(24)
    kernels = load_kernels(machine)
    options = Options(copies=copies, streams=streams, timed_streams=False, effort=0)
    schedule = replace(find_schedule(machine, kernels, region, options), multicast=multicast)
    asked, serves = list[bool](), elsewhere.Solved.serves

    def seen(self: elsewhere.Solved, other: Program) -> bool:
        asked.append(serves(self, other))
        return asked[-1]

    monkeypatch.setattr(elsewhere.Solved, "serves", seen)
    found = compile_region(machine, kernels, region, None, schedule).program
    assert asked == [True] * lent
    monkeypatch.setattr(elsewhere.Solved, "serves", lambda *_: False)
    own = compile_region(machine, kernels, region, None, schedule).program
    assert found.streams == own.streams
    assert len(set(found.streams)) > 1


def test_streams_that_meet_serve_those_of_other_clusters_only() -> None:
    machine, region = chip(1, 4), three_convolutions(24)
    kernels = load_kernels(machine)
    schedule = find_schedule(machine, kernels, region, Options(copies=2, streams=2, timed_streams=False))
    compiled = compile_region(machine, kernels, region, None, replace(schedule, multicast=False))
    assert compiled.checked.warnings == ()  # masks of cores count from the cluster's first, so the second copy has a synchronisation of its own
