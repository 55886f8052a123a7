"""Plans are tuned by exact time, and never get slower by it."""

from tests.schedule.search.made_graphs import space_on


def test_tuning_never_makes_a_plan_slower() -> None:
    space = space_on("dpuv3")
    own = space.planner(space.first)
    found = own.first()
    rough = own.timed(found.plan)
    apart, now = own.banks_apart(found, rough)
    assert now.cycles <= rough.cycles
    assert own.rows_in_turn(apart, now).cycles <= now.cycles


def test_a_timed_plan_is_the_one_that_was_asked_about() -> None:
    space = space_on("vta")
    own = space.planner(space.first)
    found = own.first()
    assert own.timed(found.plan).plan is found.plan
