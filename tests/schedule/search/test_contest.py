"""A longer contest never ends with a slower winner, and the winner's program is exact. The record of a search says what was tried and what was
taken."""

import json
from collections.abc import Generator
from dataclasses import replace
from math import inf

import pytest

from tests.schedule.search.made_graphs import packed, space_on
from tests.schedule.test_compile_region import proven
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.form.plan import make_schedule
from toolchain.schedule.options import Options
from toolchain.schedule.program import turned
from toolchain.schedule.search.contest import Result, Trial, hold, write_record
from toolchain.schedule.search.draft import Draft, Space
from toolchain.schedule.search.policies import climb, greedy


def cycles_of(space: Space, found: Result) -> float:
    schedule = make_schedule(space.machine, turned(found.plan))
    compiled = compile_region(space.machine, space.kernels, space.region, Options(), schedule)
    assert proven(compiled, space.machine)
    return compiled.cycles


@pytest.mark.parametrize("name", ["vta", "dpuv3"])
def test_more_effort_is_never_slower_and_every_winner_is_exact(name: str) -> None:
    space = space_on(name)
    found = [hold(space, climb, effort) for effort in (1, 2, 5)]
    cycles = [cycles_of(space, each) for each in found]
    assert cycles == sorted(cycles, reverse=True)
    assert bool(found[0].trials) == bool(space.copied_rows)
    assert [trial.draft for trial in found[2].trials[: len(found[1].trials)]] == [trial.draft for trial in found[1].trials]
    best = min(trial.cycles for trial in found[2].trials)
    assert best == cycles[2], "the trials state the cycles of the program that is written"


def test_a_policy_without_proposals_times_nothing() -> None:
    assert hold(space_on("vta"), greedy, 8).trials == ()


def test_the_first_draft_is_also_timed_with_its_last_rows_first() -> None:
    """Drafts after it run as the quicker one does. With one draft alone it is tried, too."""
    space = packed()
    assert space.copied_rows == (0, 1)  # the pool makes seven rows, as many as the last layer, in one tile
    found = hold(space, greedy, 1)
    assert [trial.draft.backward for trial in found.trials] == [(), (0, 1)]
    assert found.draft == min(found.trials, key=lambda trial: trial.cycles).draft
    assert cycles_of(space, found) == min(trial.cycles for trial in found.trials)
    quickest, told = found.draft.backward, list[Draft]()

    def again(space: Space) -> Generator[Draft, Trial, None]:
        best = yield space.first
        told.append(best.draft)
        yield best.draft.reordered(space.first.order, "again")

    assert hold(space, again, 2).draft.backward == quickest
    assert told == [found.draft]


def test_a_draft_is_timed_once_and_its_policy_told_again() -> None:
    space, told = space_on("vta"), list[Trial]()

    def twice(space: Space) -> Generator[Draft, Trial, None]:
        for _ in range(3):
            told.append((yield space.first))

    found = hold(space, twice, 8)
    assert len(found.trials) == 1
    assert told == [found.trials[0]] * 3


def test_a_draft_without_a_plan_is_refused_with_its_reason() -> None:
    space = space_on("vta")

    def wrong(space: Space) -> Generator[Draft, Trial, None]:
        best = yield space.first
        yield replace(best.draft, kernels=((6, "conv2d"),), origin="a pool by a convolution's kernel")

    first, second = hold(space, wrong, 8).trials
    assert not first.refused
    assert second.refused
    assert second.cycles == inf


def test_every_draft_is_tuned_not_only_those_that_begin_quicker() -> None:
    space = space_on("dpuv3")
    trials, before, after = hold(space, climb, 4).trials, list[float](), list[float]()
    for trial in trials:
        planner = space.planner(trial.draft)
        found = planner.first()
        before.append(planner.timed(found.plan).cycles)
        after.append(planner.rows_in_turn(*planner.banks_apart(found, planner.timed(found.plan))).cycles)
    assert trials[0].cycles == after[0]
    assert all(trial.cycles < cycles for trial, cycles in zip(trials, before, strict=True)), "each gains by it"


def test_an_order_that_cannot_run_is_refused() -> None:
    space = space_on("vta")

    def backwards(space: Space) -> Generator[Draft, Trial, None]:
        yield space.first
        yield Draft(space.first.order[::-1], origin="backwards")
        yield Draft(space.first.order[1:], origin="one missing")

    found = hold(space, backwards, 8)
    assert [trial.refused[:5] for trial in found.trials] == ["", "E1403", "E1402"]
    assert found.draft == space.first


def test_the_gain_is_that_of_the_taken_over_the_first() -> None:
    trials = (
        Trial(Draft((0, 1), origin="greedy"), 110.0),
        Trial(Draft((1, 0), origin="level by level"), 100.4),
        Trial(Draft((1, 0), ((0, "other"),), "another kernel"), inf, refused="E1004 no tile fits"),
    )
    found = json.loads(write_record("region0", "climb", 5, trials))
    assert (found["taken"], found["gain_cycles"]) == ("level by level", 10)
    assert found["candidates"][2] == {"candidate": "another kernel", "cycles": None, "refused": "E1004 no tile fits"}


def test_a_first_schedule_without_rivals_was_not_timed() -> None:
    found = json.loads(write_record("region0", "greedy", 2, ()))
    assert (found["candidates"], found["taken"], found["gain_cycles"]) == ([], None, 0)
