"""Slots in pools: none meets another, none leaves its pool, and what is said to fit does."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from toolchain.schedule.kernels.pools import Pool, Rooms, Slot, Taken, beside, place_slots, pools_of, slots_of
from toolchain.spec.load import load_machine

POOLS = (Pool(0, 20), Pool(8, 20), Pool(16, 9, 5))
ASKED = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 4)), min_size=1, max_size=6)


def test_banks_of_a_pool_share_the_least_depth_and_others_are_one_pool() -> None:
    found = pools_of(load_machine("dpuv3"), {"fm": 8})
    assert found["fm"] == (Pool(0, 8192), Pool(8, 8192), Pool(16, 4096))
    assert found["pm"] == (Pool(0, 8192),)


def test_all_banks_in_one_pool_take_the_least_depth() -> None:
    assert pools_of(load_machine("dpuv3"), {"fm": 24})["fm"] == (Pool(0, 4096),)


def places(taken: list[tuple[Taken, int]], index: int) -> list[tuple[Slot, int]]:
    return [(slot, room) for part, room in taken for slot in slots_of([part], index, room, POOLS)]


def assert_apart(found: list[tuple[Slot, int]]) -> None:
    """No slot leaves its pool or meets another."""
    for bank, depth, start in ((p.bank, p.depth, p.start) for p in POOLS):
        here = sorted((slot.address, slot.address + room) for slot, room in found if slot.bank == bank)
        ends = [start, *(stop for _, stop in here)]
        assert all(first >= end for (first, _), end in zip(here, ends, strict=False))
        assert ends[-1] <= start + depth


@given(ASKED, ASKED)
def test_slots_that_fit_stand_apart(ones: list[tuple[int, int]], many: list[tuple[int, int]]) -> None:
    rooms, taken = Rooms({"m": POOLS}, 1), list[tuple[Taken, int]]()
    for room, count in ones:
        taken += [(rooms.take("m", np.array([room]), np.array([True])), room) for _ in range(count)]
    if not rooms.fit.all():
        return
    for room, count in many:
        more = min(count, int(rooms.holds("m", np.array([room]))[0]))
        filled = [(part, room) for part in rooms.fill("m", np.array([room]), np.array([more]))]
        assert sum(int(part.count[0]) for part, _ in filled) == more
        taken += filled
    assert rooms.fit.all()
    assert_apart(places(taken, 0))


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 6)), min_size=2, max_size=5))
def test_candidates_do_not_see_each_other(columns: list[tuple[int, int]]) -> None:
    sizes, counts = (np.array(part, np.int64) for part in zip(*columns, strict=True))
    together = Rooms({"m": POOLS}, len(columns))
    taken = [together.take("m", sizes, counts > k) for k in range(6)]
    for index, (room, count) in enumerate(columns):
        alone = Rooms({"m": POOLS}, 1)
        own = [alone.take("m", np.array([room]), np.array([count > k])) for k in range(6)]
        assert slots_of(taken, index, room, POOLS) == slots_of(own, 0, room, POOLS)
        assert bool(together.fit[index]) == bool(alone.fit[0])


def test_more_than_there_is_room_for_does_not_fit() -> None:
    rooms = Rooms({"m": POOLS}, 1)
    assert int(rooms.holds("m", np.array([8]))[0]) == 2 + 2 + 1
    for _ in range(5):
        rooms.take("m", np.array([8]), np.array([True]))
    assert rooms.fit.all()
    assert int(rooms.holds("m", np.array([8]))[0]) == 0
    rooms.take("m", np.array([8]), np.array([True]))
    assert not rooms.fit.any()


@st.composite
def slots(draw: st.DrawFn) -> tuple[Slot, int]:
    """A slot inside of one of the pools, and its size."""
    pool = draw(st.sampled_from(POOLS))
    first, last = sorted(draw(st.tuples(*[st.integers(pool.start, pool.start + pool.depth)] * 2)))
    return Slot(pool.bank, first), last - first


@given(st.lists(slots(), max_size=5) | st.just([(Slot(p.bank, p.start), p.depth) for p in POOLS]))
def test_what_stands_beside_is_every_other_element_and_always_a_pool(taken: list[tuple[Slot, int]]) -> None:
    found = beside(POOLS, taken)
    used = {(slot.bank, address) for slot, size in taken for address in range(slot.address, slot.address + size)}
    whole = {(p.bank, address) for p in POOLS for address in range(p.start, p.start + p.depth)}
    assert sorted((p.bank, address) for p in found for address in range(p.start, p.start + p.depth)) == sorted(whole - used)
    rooms = Rooms({"m": found}, 1)
    rooms.take("m", np.array([0]), np.array([True]))
    assert rooms.fit.all()
    rooms.take("m", np.array([99]), np.array([True]))
    assert not rooms.fit.any()


def test_slots_are_placed_until_one_has_no_room() -> None:
    pools = {"m": (Pool(0, 10), Pool(1, 6, start=4))}
    found, full = place_slots(pools, {"a": ("m", 4, 2), "b": ("m", 2, 3)})
    assert (found, full) == ({"a": (Slot(0, 0), Slot(0, 4)), "b": (Slot(1, 4), Slot(1, 6), Slot(0, 8))}, "")
    assert place_slots(pools, {"a": ("m", 4, 3), "b": ("m", 4, 1)}) == ({"a": (Slot(0, 0), Slot(0, 4), Slot(1, 4))}, "b")
    assert place_slots(pools, {"a": ("m", 1, 17)}) == ({}, "a")
