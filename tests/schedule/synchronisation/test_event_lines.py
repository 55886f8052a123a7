"""Signals to many streams at once."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from toolchain.schedule.synchronisation.event_lines import boxes


@given(goals=st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 1)), min_size=1))
def test_boxes_cover_each_goal_once(goals: set[tuple[int, ...]]) -> None:
    covered = [goal for box in boxes(goals) for goal in itertools.product(*box)]
    assert sorted(covered) == sorted(goals)
    assert len(list(boxes({(a, b) for a in (0, 2) for b in (1, 3)}))) == 1
