"""Groups over rows: turns that read only finished rows, ends of rings by hand, and rings that are too short."""

from functools import cache

import pytest

from tests.schedule.groups.tall_regions import short_machine
from tests.schedule.groups.test_search import CHAINS, schedule_of
from toolchain.schedule.form.plan import Plan
from toolchain.schedule.form.realise import realise
from toolchain.schedule.rows.lives import RingBuffer
from toolchain.schedule.rows.row_group import RowGroup, made_over, ring_buffers

NAMES = ("conv -> conv", "residual", "branches")


@cache
def plan_of(name: str) -> Plan:
    return realise(*short_machine(), CHAINS[name], schedule_of(name))


def group_of(name: str) -> RowGroup:
    group = plan_of(name).groups[0]
    assert isinstance(group, RowGroup)
    return group


@pytest.mark.parametrize("name", NAMES)
def test_every_slab_runs_once_after_the_rows_that_it_reads(name: str) -> None:
    group = group_of(name)
    done: dict[str, int] = {}
    runs = [0] * len(group.makers)
    for turn in group.turns:
        maker = group.makers[turn.member]
        for place, rows in maker.read(turn.slab).items():
            if (tensor := group.names[turn.member][place]) in group.made:
                assert done.get(tensor, 0) >= rows.stop
        assert turn.slab == runs[turn.member]
        runs[turn.member] += 1
        done[group.made[turn.member]] = maker.made(turn.slab).stop
    assert runs == [maker.count for maker in group.makers]


@pytest.mark.parametrize(("name", "passes", "chained"), [("conv -> conv", True, True), ("residual", True, True), ("branches", True, False)])
def test_operations_that_hand_rows_on(name: str, passes: bool, chained: bool) -> None:
    assert (group_of(name).passes, group_of(name).chained) == (passes, chained)


@pytest.mark.parametrize("name", NAMES)
def test_rings_of_a_plan_are_long_enough_and_shorter_ones_are_not(name: str) -> None:
    group, residents = group_of(name), plan_of(name).residents
    rings = ring_buffers(residents, 0)
    assert set(rings) == set(residents.rings)
    over = made_over(residents, rings)
    assert group.crossing(rings) is None
    assert group.clash(rings, over) is None
    most = {tensor: group.most_rows(tensor) for tensor in rings}
    assert all(rows > 0 for rows in most.values())
    assert group.most_rows("nothing") == 0
    tensor, ring = next(iter(rings.items()))
    short = RingBuffer(ring.memory, ring.bank, ring.address, ring.pitch, ring.line, ring.together, ring.address + ring.pitch, 1)
    assert group.crossing({tensor: short}) is not None or group.clash({tensor: short}, frozenset()) is not None


def test_rows_on_both_sides_of_the_end_of_a_ring() -> None:
    """Three lines of eight rows: rows 20 to 27 lie across row 24, rows 24 to 31 do not."""
    ring = RingBuffer("fm", 0, 0, 6, 6, 8, 18, 3)
    assert [ring.crosses(range(first, first + 8)) for first in (16, 20, 24)] == [False, True, False]
