"""Lives of data on chip: each within its memory, from a write to a read, and never two at one address and time."""

import numpy as np

from tests.timing.test_trace import random_program, timed
from toolchain.spec.load import load_machine
from toolchain.timing.lives import lives_of
from toolchain.timing.simulate import Timeline
from toolchain.timing.trace import occupancy


def small() -> Timeline:
    return timed(random_program(load_machine("vta"), 1, 60, chained=1.0))


def test_lives_do_not_meet_and_stay_in_their_memory() -> None:
    found = list(lives_of(small()))
    assert found
    for _, lives in found:
        assert (lives.begin < lives.stop).all()
        assert (lives.low < lives.high).all()
        assert lives.high.max() <= lives.capacity
        order = np.lexsort((lives.begin, lives.low))
        same = lives.low[order][1:] == lives.low[order][:-1]
        assert (lives.begin[order][1:] >= lives.stop[order][:-1])[same].all()


def test_a_life_begins_with_its_writer() -> None:
    timeline = small()
    for _, lives in lives_of(timeline):
        known = lives.writer >= 0
        assert (timeline.result.start[lives.writer[known]] == lives.begin[known]).all()
        assert (lives.begin[~known] == 0).all()


def test_bytes_alive_are_the_occupancy() -> None:
    timeline = small()
    for (_, lives), found in zip(lives_of(timeline), occupancy(timeline), strict=True):
        for at, size in zip(found.cycles, found.bytes, strict=True):
            alive = (lives.begin <= at) & (at < lives.stop)
            assert (lives.high - lives.low)[alive].sum() == size
