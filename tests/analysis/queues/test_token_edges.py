"""Which post a wait takes its token from, by hand."""

import itertools

import numpy as np

from tests.random_tokens import Net, net
from toolchain.analysis.queues.token_edges import Edges, edges, match


def known(case: Net) -> Edges:
    order = np.arange(len(case.queue))
    return edges(match(case.tokens, order, case.queue), np.zeros(len(case.tokens.names), np.bool_), len(order))


def rows(start: np.ndarray, value: np.ndarray) -> list[list[int]]:
    return [value[a:b].tolist() for a, b in itertools.pairwise(start)]


def test_the_first_posted_is_the_first_taken() -> None:
    found = known(net([0, 0, 1, 1], 2, [{}, {}, {0: 1}, {0: 1}], [{0: 1}, {0: 1}, {}, {}], [-1], [0]))
    assert rows(found.start, found.poster) == [[], [], [0], [1]]


def test_initial_tokens_come_from_nobody() -> None:
    found = known(net([0, 1, 1], 2, [{}, {0: 1}, {0: 1}], [{0: 1}, {}, {}], [-1], [1]))
    assert rows(found.start, found.poster) == [[], [], [0]]


def test_the_last_of_several_tokens_of_one_queue_tells_all() -> None:
    found = known(net([0, 0, 1], 2, [{}, {}, {0: 2}], [{0: 1}, {0: 1}, {}], [-1], [0]))
    assert rows(found.start, found.poster) == [[], [], [1]]


def test_every_poster_of_a_barrier_counts() -> None:
    found = known(net([0, 1, 2], 3, [{}, {}, {0: 2}], [{0: 1}, {0: 1}, {}], [-1], [0]))
    assert rows(found.start, found.poster) == [[], [], [0, 1]]


def test_a_taker_makes_room_for_a_later_post() -> None:
    found = known(net([0, 1, 0, 1], 2, [{}, {0: 1}, {}, {0: 1}], [{0: 1}, {}, {0: 1}, {}], [1], [0]))
    assert rows(found.held_start, found.held) == [[], [], [1], []]
    assert rows(found.start, found.room) == [[], [-1], [], [1]]
