"""What residents leave of a memory: gaps, or a pool without room where they take everything."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from toolchain.schedule.kernels.pools import Pool, Slot
from toolchain.schedule.kernels.rounds import RowRing
from toolchain.schedule.placement.on_chip_allocation import Candidate, Residents, group_numbers, place_residents

POOLS = {"fm": (Pool(0, 8), Pool(4, 4))}


def candidate(name: str, size: int, first: int, last: int) -> Candidate:
    return Candidate(name, "fm", size, (), (), first, last, False, ())


def test_gaps_around_what_stays() -> None:
    found = place_residents({"a": candidate("a", 5, 0, 1), "b": candidate("b", 3, 1, 2)}, POOLS, 3)
    assert found.left(0)["fm"] == (Pool(0, 3, 5), Pool(4, 4))
    assert found.left(1)["fm"] == (Pool(0, 3, 5), Pool(4, 1, 3))
    assert found.left(2)["fm"] == (Pool(0, 8), Pool(4, 1, 3))


def test_a_full_memory_has_one_pool_without_room() -> None:
    found = place_residents({"a": candidate("a", 8, 0, 0), "b": candidate("b", 4, 0, 0)}, POOLS, 1)
    assert sum(pool.depth for pool in found.left(0)["fm"]) == 0
    assert found.left(0)["fm"]


CANDIDATES = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 8), st.integers(0, 4)), max_size=10)


@given(CANDIDATES)
def test_what_lives_at_once_stands_apart_and_tiles_get_what_is_left(given_sizes: list[tuple[int, int, int]]) -> None:
    candidates = {f"n{k}": candidate(f"n{k}", size, first, first + length) for k, (size, first, length) in enumerate(given_sizes)}
    found = place_residents(candidates, POOLS, 13)
    depths = {pool.bank: pool.depth for pool in POOLS["fm"]}
    for operation in range(13):
        cells = [(found.slots[c.name].bank, found.slots[c.name].address + k) for c in found.live(operation) for k in range(c.size)]
        cells += [(pool.bank, pool.start + k) for pool in found.left(operation)["fm"] for k in range(pool.depth)]
        assert sorted(cells) == [(bank, k) for bank, depth in depths.items() for k in range(depth)]


@given(CANDIDATES)
def test_the_room_around_an_operation_is_free_before_and_after_it_too(given_sizes: list[tuple[int, int, int]]) -> None:
    candidates = {f"n{k}": candidate(f"n{k}", size, first, first + length) for k, (size, first, length) in enumerate(given_sizes)}
    found = place_residents(candidates, POOLS, 13)
    for operation in range(13):
        near = {c.name: c for group in range(max(operation - 1, 0), min(operation + 2, 13)) for c in found.live(group)}
        taken = {(found.slots[name].bank, found.slots[name].address + k) for name, c in near.items() for k in range(c.size)}
        free = {(pool.bank, pool.start + k) for pool in found.left(operation, around=1)["fm"] for k in range(pool.depth)}
        assert not taken & free
        assert len(taken) + len(free) == sum(pool.depth for pool in POOLS["fm"])


def test_a_result_lies_over_an_operand_that_nobody_needs_any_more() -> None:
    first, second = candidate("a", 8, 0, 2), replace(candidate("b", 8, 2, 4), over=("a",))
    assert place_residents({"a": first, "b": second}, POOLS, 5).slots == {"a": Slot(0, 0), "b": Slot(0, 0)}
    assert set(place_residents({"a": first, "b": replace(second, over=())}, POOLS, 5).slots) == {"a"}


def test_room_that_is_still_read_is_left_alone_where_there_is_other() -> None:
    found = place_residents({"a": candidate("a", 4, 0, 1), "b": candidate("b", 4, 2, 3), "c": candidate("c", 4, 3, 4)}, POOLS, 5).slots
    assert found["a"] != found["b"] != found["c"]


@given(CANDIDATES)
def test_buffers_that_the_search_places_do_not_collide(given_sizes: list[tuple[int, int, int]]) -> None:
    candidates = {f"n{k}": candidate(f"n{k}", size, first, first + length) for k, (size, first, length) in enumerate(given_sizes)}
    assert not list(place_residents(candidates, POOLS, 13).collisions())


def resident(*rings: str, **slots: Slot) -> Residents:
    kept = {name: candidate(name, 3, 0, 1) for name in slots}
    return Residents(slots, kept, range(2), POOLS, {name: RowRing(2, 8) for name in rings})


def test_buffers_on_one_another_collide_at_the_same_time_only() -> None:
    found = resident(a=Slot(0, 0), b=Slot(0, 2), c=Slot(4, 0), d=Slot(0, 5))
    assert list(found.collisions()) == [("b", "a")]
    later = {**found.candidates, "b": candidate("b", 3, 2, 2)}
    assert not list(replace(found, candidates=later).collisions())


def test_rings_that_go_round_share_a_pool_with_each_other_alone() -> None:
    assert list(resident("a", "b", a=Slot(0, 0), b=Slot(0, 1), c=Slot(0, 5)).collisions()) == [("c", "a"), ("c", "b")]


def test_a_buffer_may_stand_in_the_place_of_its_operand() -> None:
    found = resident(a=Slot(0, 0), b=Slot(0, 0))
    over = {**found.candidates, "b": replace(found.candidates["b"], over=("a",))}
    assert list(found.collisions()) == [("b", "a")]
    assert not list(replace(found, candidates=over).collisions())


def test_operations_of_a_group_share_its_number() -> None:
    assert group_numbers(6, [range(1, 3), range(3, 5)]) == (0, 1, 1, 2, 2, 3)
    assert group_numbers(3, []) == (0, 1, 2)
