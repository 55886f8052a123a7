"""Counters that hold little: tokens are merged only where the program could not go on otherwise."""

import pytest

from tests.schedule.cells import EVERY, Op, cells, memory, program
from tests.schedule.laws import derive, token_pairs

A, B = range(2)
AHEAD = [Op(A, 0, k) for k in (1, 2, 3, 4)] + [Op(B, k, 10 + k) for k in (1, 2, 3, 4)]
"""Four producers, then four consumers: a runs ahead as far as the counter allows."""
CROSSED = [Op(A, 0, 1), Op(A, 0, 2), Op(A, 0, 3), Op(B, 9, 8), Op(A, 8, 7), Op(B, 1, 4), Op(B, 2, 5), Op(B, 3, 6)]
"""b's first instruction comes before all it takes, and a waits for it after all it posts."""
STUCK = [Op(A, 0, 1), Op(A, 0, 2), Op(B, 9, 11), Op(B, 9, 12), Op(B, 1, 5), Op(B, 2, 6), Op(A, 11, 7), Op(A, 12, 8)]
"""Each posts twice before either takes: with room for one token, both are held up."""


def of(pair: str, depth: int, ops: list[Op]) -> list[tuple[int, int]]:
    machine = cells(EVERY | {pair: f", depth: {depth}"} if depth else EVERY)
    found = derive(program(machine, ops), memory(machine), (None, 1, 2)).program
    return [(poster, taker) for counter, poster, taker in token_pairs(found) if counter == pair and taker < len(ops)]


@pytest.mark.parametrize("depth", [0, 1, 2, 4])
def test_a_poster_that_only_has_to_wait_is_left_alone(depth: int) -> None:
    assert of("ab", depth, AHEAD) == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert of("ab", depth, CROSSED) == [(0, 5), (1, 6), (2, 7)]


def test_tokens_are_merged_where_nobody_could_make_room() -> None:
    assert of("ab", 1, STUCK) == [(0, 4), (1, 5)]
    machine = cells(EVERY | {"ab": ", depth: 1", "ba": ", depth: 1"})
    made = program(machine, STUCK)
    found = [pair for pair in token_pairs(derive(made, memory(machine), (None, 1, 2)).program) if pair[2] < len(STUCK)]
    assert found == [("ab", 1, 4), ("ba", 2, 6), ("ba", 3, 7)]


def test_a_queue_that_holds_little_may_hold_up_the_taker() -> None:
    machine = cells(EVERY | {"ab": ", depth: 1"}, depth=1)
    made = program(machine, AHEAD)
    found = [pair for pair in token_pairs(derive(made, memory(machine), (None, 1, 2)).program) if pair[2] < len(AHEAD)]
    assert 0 < len(found) < 4
