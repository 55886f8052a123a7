"""What residents leave of a memory: gaps, or a pool without room where they take everything."""

from toolchain.schedule.pools import Pool
from toolchain.schedule.residency import Candidate, place_residents

POOLS = {"fm": (Pool(0, 8), Pool(4, 4))}


def candidate(name: str, size: int, first: int, last: int) -> Candidate:
    return Candidate(name, "fm", size, (), (), first, last, False, ())


def test_gaps_around_what_stays() -> None:
    found = place_residents({"a": candidate("a", 5, 0, 1), "b": candidate("b", 3, 1, 2)}, POOLS, 3)
    assert found.pools[0]["fm"] == (Pool(0, 3, 5), Pool(4, 4))
    assert found.pools[1]["fm"] == (Pool(0, 3, 5), Pool(4, 1, 3))
    assert found.pools[2]["fm"] == (Pool(0, 8), Pool(4, 1, 3))


def test_a_full_memory_has_one_pool_without_room() -> None:
    found = place_residents({"a": candidate("a", 8, 0, 0), "b": candidate("b", 4, 0, 0)}, POOLS, 1)
    assert sum(pool.depth for pool in found.pools[0]["fm"]) == 0
    assert found.pools[0]["fm"]
