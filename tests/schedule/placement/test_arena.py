"""Room that is shared over time: who is needed at one moment stands apart, and nothing is wasted on others."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from toolchain.schedule.placement.arena import Need, share_room

NEEDS = st.lists(st.builds(lambda size, first, length: Need(size, first, first + length), st.integers(1, 40), st.integers(0, 9), st.integers(0, 5)))


@given(NEEDS, st.sampled_from([1, 4]))
def test_who_meets_stands_apart(needs: list[Need], step: int) -> None:
    named = {f"n{k}": need for k, need in enumerate(needs)}
    offsets, size = share_room(named, step)
    assert all(offset % step == 0 and offset + named[name].size <= size for name, offset in offsets.items())
    for (a, need), (b, other) in combinations(named.items(), 2):
        if need.meets(other):
            assert offsets[a] + need.size <= offsets[b] or offsets[b] + other.size <= offsets[a]


@given(NEEDS)
def test_the_whole_is_no_larger_than_all_of_them(needs: list[Need]) -> None:
    assert share_room({f"n{k}": need for k, need in enumerate(needs)}, 1)[1] <= sum(need.size for need in needs)


def test_one_after_the_other_takes_the_room_of_the_largest() -> None:
    needs = {"a": Need(10, 0, 1), "b": Need(30, 2, 3), "c": Need(20, 4, 4)}
    assert share_room(needs, 1) == ({"a": 0, "b": 0, "c": 0}, 30)


def test_a_gap_between_two_is_used() -> None:
    needs = {"a": Need(8, 0, 9), "b": Need(6, 0, 4), "c": Need(5, 0, 9), "d": Need(6, 5, 9)}
    assert share_room(needs, 1)[1] == 19
