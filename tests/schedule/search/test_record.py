"""The record of a search says what was tried and what was taken."""

import json
from math import inf

from toolchain.schedule.search.contest import Trial
from toolchain.schedule.search.draft import Draft
from toolchain.schedule.search.record import write_record


def test_the_gain_is_that_of_the_taken_over_the_first() -> None:
    trials = (
        Trial(Draft((0, 1), origin="greedy"), 120.0, 110.0),
        Trial(Draft((1, 0), origin="level by level"), 105.0, 100.4),
        Trial(Draft((1, 0), ((0, "other"),), "another kernel"), inf, refused="E1004 no tile fits"),
    )
    found = json.loads(write_record("region0", "climb", 5, trials))
    assert (found["taken"], found["gain_cycles"]) == ("level by level", 10)
    assert found["candidates"][2] == {"candidate": "another kernel", "cycles": None, "tuned": None, "refused": "E1004 no tile fits"}


def test_a_first_schedule_without_rivals_was_not_timed() -> None:
    found = json.loads(write_record("region0", "greedy", 2, ()))
    assert (found["candidates"], found["taken"], found["gain_cycles"]) == ([], None, 0)
