"""Dependences against a plain walk over every cell."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule import many_cores
from tests.schedule.cells import EVERY, Op, cells, copies, memory, program
from toolchain.analysis.dependences import Dependences, accesses_by_memory, find_conflicts, find_dependences, find_dependences_across
from toolchain.analysis.footprints import footprints
from toolchain.isa.footprint.footprints import Runs
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Program

MACHINE = cells(EVERY)


def dependences(made: Program) -> Dependences:
    state, order = memory(made.machine), np.arange(len(made))
    provenance = Provenance(made, state, order)
    return find_dependences(made, accesses_by_memory(made, footprints(made, state, order, provenance).runs, provenance))


@given(ops=copies(quiet=True, most=30))
@settings(max_examples=25, deadline=None)
def test_needs_are_the_latest_writers_and_readers_of_each_unit(ops: list[Op]) -> None:
    needs = dependences(program(MACHINE, ops)).needs.tolist()
    for index, op in enumerate(ops):
        before = list(enumerate(ops[:index]))
        expected = [
            max((i for i, other in before if other.unit == unit and (other.to in (op.source, op.to) or other.source == op.to)), default=-1)
            for unit in range(3)
        ]
        assert needs[index] == expected
    assert needs[-1] == [-1, -1, -1]


@given(ops=copies(quiet=True, most=20))
@settings(max_examples=25, deadline=None)
def test_conflicts_are_true_and_imply_all_others(ops: list[Op]) -> None:
    made = program(MACHINE, ops)
    state, order = memory(made.machine), np.arange(len(made))
    provenance = Provenance(made, state, order)
    accesses = [own for _, own in accesses_by_memory(made, footprints(made, state, order, provenance).runs, provenance)]
    first, second = find_conflicts(accesses, made.unit, {0, 1, 2})
    found, true = set(zip(first.tolist(), second.tolist(), strict=True)), _conflicts(ops)
    assert found <= true
    implied: list[set[int]] = [{index} for index in range(len(ops))]
    for later in range(len(ops)):
        for earlier, at in sorted(found):
            implied[later] |= implied[earlier] if at == later else set()
    assert true <= {(earlier, later) for later, before in enumerate(implied) for earlier in before}
    alone = find_conflicts(accesses, made.unit, {1})
    assert set(zip(*(column.tolist() for column in alone), strict=True)) == {(a, b) for a, b in found if ops[a].unit == 1}


def _conflicts(ops: list[Op]) -> set[tuple[int, int]]:
    return {
        (earlier, later)
        for later, op in enumerate(ops)
        for earlier, other in enumerate(ops[:later])
        if other.to in (op.source, op.to) or other.source == op.to
    }


@given(lines=many_cores.programs(many_cores.chip(2, 2), 16))
@settings(max_examples=25, deadline=None)
def test_across_streams_they_are_the_latest_of_each_queue_that_touch_the_same(lines: list[many_cores.Line]) -> None:
    machine = many_cores.chip(2, 2)
    made, order = many_cores.program(machine, lines)
    state = many_cores.memory(machine)
    provenance = Provenance(made, state, order)
    prints = footprints(made, state, order, provenance)
    touched = [prints.runs.take(np.arange(prints.first[i], prints.first[i + 1])) for i in range(len(made))]
    found = find_dependences_across(made, order, prints.runs, provenance)
    queues, indices = np.unique(made.queue).tolist(), order.tolist()
    for place, index in enumerate(indices):
        before = [other for other in indices[:place] if _meet(touched[index], touched[other])]
        assert found.needs[index].tolist() == [max((other for other in before if made.queue[other] == queue), default=-1) for queue in queues]


def _meet(one: Runs, other: Runs) -> bool:
    """Whether both touch something that at least one of them writes."""
    shared = (one.start[:, None] < other.stop) & (other.start < one.stop[:, None])
    return bool((shared & (one.memory[:, None] == other.memory) & (one.write[:, None] | other.write)).any())


@given(ops=copies(quiet=True, most=30))
@settings(max_examples=20, deadline=None)
def test_without_a_compiler_they_are_the_same(ops: list[Op]) -> None:
    made = program(MACHINE, ops)
    quick = dependences(made)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("toolchain.analysis.dependences.load_checker", lambda *_: None)
        assert np.array_equal(dependences(made).needs, quick.needs)


@st.composite
def accesses(draw: st.DrawFn) -> Runs:
    """Of one memory, by instruction: several runs of each, which may overlap."""
    random, count = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), draw(st.integers(1, 40))
    start = random.integers(0, 12, count)
    return Runs(
        np.sort(random.integers(0, 16, count)), np.zeros(count, np.int64), random.random(count) < 0.4, start, start + random.integers(1, 9, count)
    )


@given(runs=accesses(), free=st.sets(st.integers(0, 2)))
@settings(max_examples=200, deadline=None)
def test_without_a_compiler_conflicts_are_the_same(runs: Runs, free: set[int]) -> None:
    unit = np.arange(16) % 3
    quick = find_conflicts([runs], unit, free)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("toolchain.analysis.dependences.load_checker", lambda *_: None)
        assert all(np.array_equal(one, other) for one, other in zip(find_conflicts([runs], unit, free), quick, strict=True))


def test_conflicts_beyond_the_first_room_are_found() -> None:
    """One write after many reads of its whole width, each by another instruction."""
    count = 200
    who, write = np.arange(count + 1), np.arange(count + 1) == count
    runs = Runs(who, np.zeros_like(who), write, np.zeros_like(who), np.ones_like(who))
    wide = Runs(
        np.repeat(who, 20),
        np.zeros(20 * len(who), np.int64),
        np.repeat(write, 20),
        np.tile(np.arange(20), len(who)),
        np.tile(np.arange(20), len(who)) + 1,
    )
    for each in (runs, wide):
        first, second = find_conflicts([each], np.zeros(count + 1, np.int64), {0})
        assert first.tolist() == list(range(count))
        assert set(second.tolist()) == {count}


def test_what_stores_is_known() -> None:
    assert dependences(program(MACHINE, [Op(0, 1, 2), Op(1, 2, 3)])).stores.tolist() == [True, True, False]
