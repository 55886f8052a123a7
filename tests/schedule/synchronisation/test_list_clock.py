"""The clock in C and in Python gives the same starts, whatever the bundles, their followers and their ranks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.cells import EVERY, Op, cells, program
from toolchain.isa.program import Ints
from toolchain.schedule.synchronisation.list_clock import Run, Work, followers_of, run_clock, urgency
from toolchain.schedule.synchronisation.plan import Durations

MACHINE = cells(EVERY, depth=8, kind="scratchpad")
UNITS = len(MACHINE.units)
MADE = program(MACHINE, [Op(0, 1, 2)])
SEEDS = st.integers(0, 2**32 - 1)


def drawn(seed: int) -> tuple[Work, Durations, Ints]:
    """Bundles of one instruction or more; in half of them followers may lead back, so that some wait for each other."""
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 30))
    owner = np.concatenate([np.arange(count), random.integers(0, count, 4)])
    bundles = [np.flatnonzero(owner == number).tolist() for number in range(count)]
    one, other = random.integers(0, count, (2, int(random.integers(0, 3 * count))))
    if random.random() < 0.5:
        one, other = np.minimum(one, other), np.maximum(one, other)
    apart = one != other
    free = frozenset(np.flatnonzero(random.random(UNITS) < 0.6).tolist())
    work = Work(MADE, free, bundles, owner, random.integers(0, UNITS, count), followers_of(one[apart], other[apart], count))
    held, latency = random.integers(0, 4, (2, count + 4))
    return work, Durations(held.tolist(), latency.tolist()), random.permutation(count)


def told(run: Run | None) -> tuple[list[int], int] | None:
    return None if run is None else (run.start.tolist(), run.end)


@given(seed=SEEDS, ranked=st.booleans())
@settings(max_examples=200, deadline=None)
def test_without_a_compiler_the_starts_are_the_same(seed: int, ranked: bool) -> None:
    work, taken, rank = drawn(seed)
    chosen = rank if ranked else None
    found = told(run_clock(work, taken, chosen)), urgency(work).tolist()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("toolchain.schedule.synchronisation.list_clock.load_checker", lambda *_: None)
        assert (told(run_clock(work, taken, chosen)), urgency(work).tolist()) == found


@given(seed=SEEDS)
@settings(max_examples=100, deadline=None)
def test_no_bundle_starts_before_those_that_it_follows_have_results(seed: int) -> None:
    work, taken, rank = drawn(seed)
    run = run_clock(work, taken, rank)
    if run is None:
        return
    shown = [run.start[n] + sum(taken.held[i] for i in own) + max(taken.latency[i] for i in own) for n, own in enumerate(work.bundles)]
    assert all(run.start[other] >= shown[number] for number, after in enumerate(work.after.lists()) for other in after)
    assert run.end == max(shown)


def test_followers_are_sorted_each_once() -> None:
    found = followers_of(np.array([2, 0, 2, 2]), np.array([1, 3, 0, 1]), 4)
    assert found.lists() == [[3], [], [0, 1], []]
    more = Work(MADE, frozenset(), [[0], [1], [2], [3]], np.arange(4), np.zeros(4, np.int64), found)
    assert more.behind(followers_of(np.array([0, 1]), np.array([2, 3]), 4)).after.lists() == [[2, 3], [3], [0, 1], []]
