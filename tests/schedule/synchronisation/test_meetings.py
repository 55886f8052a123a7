"""Barriers: one wait takes the tokens of several streams, only where it can take no others."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.laws import complaints
from tests.schedule.many_cores import chip, in_rounds, memory, program, token_pairs, without
from tests.schedule.synchronisation.test_across import derive, spelled
from toolchain.isa.program import Program
from toolchain.schedule.synchronisation.across import synchronise_streams
from toolchain.spec.model import Machine

ALL = 0b1111
ROUNDS = st.lists(st.tuples(st.integers(1, ALL), st.integers(1, ALL)), min_size=1, max_size=3)
SHAPES = {"a cluster": (1, 4), "shallow": (1, 4, 3), "few events": (1, 4, 255, 3)}


def amounts(made: Program) -> list[int]:
    """Of every wait for an event."""
    waits = [i for i, kind in enumerate(made.kind.tolist()) if made.machine.instructions[kind].name == "WAIT"]
    return [made.field(i, "amount") for i in waits]


def rounds(machine: Machine, *found: tuple[int, int]) -> list[int]:
    return amounts(derive(machine, in_rounds(4, found)).program)


def test_each_core_of_a_barrier_signals_once_and_waits_once() -> None:
    found = derive(chip(1, 4), in_rounds(4, [(ALL, ALL)]))
    assert amounts(found.program) == [3] * 4
    signals = [text.split()[-1] for text in spelled(found) if "SIGNAL" in text]
    assert signals == [f"{ALL & ~(1 << core):b}" for core in range(4)]


def test_barriers_follow_each_other_on_one_event() -> None:
    """The second round's stores wait for the loads of the first, so nobody posts for the second before all have posted for the first."""
    made = derive(chip(1, 4), in_rounds(4, [(ALL, ALL)] * 3)).program
    waits = [i for i, kind in enumerate(made.kind.tolist()) if made.machine.instructions[kind].name == "WAIT"]
    for stream in range(4):
        own = [(made.field(i, "event"), made.field(i, "amount")) for i in waits if made.stream[i] == stream]
        several = [event for event, amount in own if amount > 1]
        assert len(several) >= 3
        assert all(one == other for one, other in pairwise(several))


def test_tokens_that_could_be_taken_for_others_keep_events_of_their_own() -> None:
    """Cores 0 and 1 store for core 3, core 1 twice: its second token does not wait for core 0's first, so one wait for both would believe it."""
    store, load = "STORE space=llb local=0 remote={}", "LOAD space=llb local=0 remote={} width=2"
    lines = [(0, store.format(0)), (1, store.format(1)), (3, load.format(0)), (2, store.format(4)), (1, store.format(5)), (3, load.format(4))]
    assert amounts(derive(chip(1, 4), lines).program) == [2, 1, 1]


def test_no_event_takes_more_tokens_than_it_holds() -> None:
    assert rounds(chip(1, 4, 2), (ALL, ALL)) == [1] * 12
    assert rounds(chip(1, 4, 3), (ALL, ALL)) == [3] * 4


def test_without_an_event_for_it_pairs_meet_alone() -> None:
    assert rounds(chip(1, 4, 255, 3), (ALL, ALL)) == [1] * 12


@pytest.mark.parametrize("shape", SHAPES)
@given(found=ROUNDS)
@settings(max_examples=8, deadline=None)
def test_nothing_races_and_the_result_is_that_of_the_order_given(shape: str, found: list[tuple[int, int]]) -> None:
    derive(chip(*SHAPES[shape]), in_rounds(4, found))


@given(found=ROUNDS)
@settings(max_examples=8, deadline=None)
def test_every_token_is_missed(found: list[tuple[int, int]]) -> None:
    machine = chip(1, 4)
    made, order = program(machine, in_rounds(4, found))
    synced = synchronise_streams(made, order, memory(machine)).program
    ends = np.flatnonzero(synced.kind == 0)
    for pair in (pair for pair in token_pairs(synced) if pair[2] not in ends):
        assert complaints(without(synced, pair), memory(machine)), pair
