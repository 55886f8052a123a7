"""Counters that hold little: tokens are merged where that costs no time, and where the program could not go on otherwise."""

import pytest

from tests.schedule.cells import EVERY, Op, cells, memory, program
from tests.schedule.laws import derive, pairs_of
from toolchain.schedule.synchronisation import synchronise
from toolchain.spec.model import Machine

A, B = range(2)
AHEAD = [Op(A, 0, k) for k in (1, 2, 3, 4)] + [Op(B, k, 10 + k) for k in (1, 2, 3, 4)]
"""Four producers, then four consumers: a runs ahead as far as the counter allows."""
CROSSED = [Op(A, 0, 1), Op(A, 0, 2), Op(A, 0, 3), Op(B, 9, 8), Op(A, 8, 7), Op(B, 1, 4), Op(B, 2, 5), Op(B, 3, 6)]
"""b's first instruction comes before all it takes, and a waits for it after all it posts."""
STUCK = [Op(A, 0, 1), Op(A, 0, 2), Op(B, 9, 11), Op(B, 9, 12), Op(B, 1, 5), Op(B, 2, 6), Op(A, 11, 7), Op(A, 12, 8)]
"""Each posts twice before either takes: with room for one token, both are held up."""


def of(pair: str, depth: int, ops: list[Op]) -> list[tuple[int, int]]:
    machine = cells(EVERY | {pair: f", depth: {depth}"} if depth else EVERY)
    found = derive(program(machine, ops), memory(machine), (None, 1, 2))
    return [(poster, taker) for counter, poster, taker in pairs_of(found) if counter == pair and taker < len(ops)]


@pytest.fixture
def timeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No token is merged to save time."""

    def never(_machine: Machine) -> bool:
        return False

    monkeypatch.setattr(synchronise, "is_limited", never)


@pytest.mark.usefixtures("timeless")
@pytest.mark.parametrize("depth", [0, 1, 2, 4])
def test_a_poster_that_only_has_to_wait_is_left_alone(depth: int) -> None:
    assert of("ab", depth, AHEAD) == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert of("ab", depth, CROSSED) == [(0, 5), (1, 6), (2, 7)]


@pytest.mark.usefixtures("timeless")
def test_tokens_are_merged_where_nobody_could_make_room() -> None:
    assert of("ab", 1, STUCK) == [(0, 4), (1, 5)]
    machine = cells(EVERY | {"ab": ", depth: 1", "ba": ", depth: 1"})
    made = program(machine, STUCK)
    found = [pair for pair in pairs_of(derive(made, memory(machine), (None, 1, 2))) if pair[2] < len(STUCK)]
    assert found == [("ab", 1, 4), ("ba", 2, 6), ("ba", 3, 7)]


@pytest.mark.usefixtures("timeless")
def test_a_queue_that_holds_little_may_hold_up_the_taker() -> None:
    machine = cells(EVERY | {"ab": ", depth: 1"}, depth=1)
    made = program(machine, AHEAD)
    found = [pair for pair in pairs_of(derive(made, memory(machine), (None, 1, 2))) if pair[2] < len(AHEAD)]
    assert 0 < len(found) < 4


@pytest.mark.parametrize(
    ("depth", "ops", "expected"),
    [
        (1, AHEAD, [(0, 4), (1, 5), (3, 6)]),  # the last but one starts so late that the last post is there
        (2, AHEAD, [(0, 4), (1, 5), (2, 6), (3, 7)]),
        (2, CROSSED, [(0, 5), (2, 6)]),
        (4, CROSSED, [(0, 5), (1, 6), (2, 7)]),
        (1, STUCK, [(1, 4)]),
    ],
)
def test_tokens_are_merged_where_that_costs_no_time(depth: int, ops: list[Op], expected: list[tuple[int, int]]) -> None:
    assert of("ab", depth, ops) == expected
