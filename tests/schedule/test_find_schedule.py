"""The search for a schedule: by estimates alone, by policy, for copies."""

import pytest

from tests.schedule.search.test_contest import space_on
from toolchain.schedule import planner
from toolchain.schedule.compile_schedule import compile_schedule
from toolchain.schedule.find_schedule import find_schedule, plan_region, search_schedule
from toolchain.schedule.options import Options


def test_no_effort_times_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    space, timed = space_on("dpuv3"), planner.Planner.timed
    monkeypatch.setattr(planner.Planner, "timed", lambda *_: pytest.fail("a program was timed"))
    schedule, trials = search_schedule(space.machine, space.kernels, space.region, Options(effort=0))
    assert trials == ()
    monkeypatch.setattr(planner.Planner, "timed", timed)
    known = compile_schedule(space.machine, space.kernels, space.region, find_schedule(space.machine, space.kernels, space.region), Options())
    assert compile_schedule(space.machine, space.kernels, space.region, schedule, Options()).cycles >= known.cycles


@pytest.mark.parametrize("policy", ["greedy", "climb", "cover", "optimal"])
def test_no_policy_is_slower_than_the_greedy_one(policy: str) -> None:
    space = space_on("vta")
    cycles = [
        compile_schedule(
            space.machine, space.kernels, space.region, find_schedule(space.machine, space.kernels, space.region, Options(search=name)), Options()
        ).cycles
        for name in ("greedy", policy)
    ]
    assert cycles[1] <= cycles[0]


def test_a_plan_has_every_operation_once() -> None:
    space = space_on("dpuv3")
    assert sorted(plan_region(space.machine, space.kernels, space.region).order) == list(range(8))
