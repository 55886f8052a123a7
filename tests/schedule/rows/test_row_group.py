"""The order of slabs: each once, in turn, after all that it reads, and no earlier than its readers want. Groups over rows: turns that read
only finished rows, ends of rings by hand, and rings that are too short."""

from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schedule.groups.tall_regions import short_machine
from tests.schedule.groups.test_search import CHAINS, schedule_of
from toolchain.schedule.form.plan import Plan
from toolchain.schedule.form.realise import realise
from toolchain.schedule.rows.lives import RingBuffer
from toolchain.schedule.rows.row_group import Feed, RowGroup, interleave, made_over, ring_buffers
from toolchain.schedule.rows.row_loop import RowLoop

NAMES = ("conv -> conv", "residual", "branches")


@dataclass(frozen=True)
class Rows:
    """Slabs of `size` rows, each of which reads its own rows and `halo` more on both sides of all operands."""

    height: int
    size: int
    halo: int
    places: tuple[str, ...]

    @property
    def count(self) -> int:
        return -(-self.height // self.size)

    def made(self, slab: int) -> range:
        return range(slab * self.size, min((slab + 1) * self.size, self.height))

    def read(self, slab: int) -> dict[str, range]:
        rows = self.made(slab)
        return dict.fromkeys(self.places, range(max(rows.start - self.halo, 0), min(rows.stop + self.halo, self.height)))

    def slab_of(self, row: int) -> int:
        return row // self.size


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[Rows], list[list[Feed]], int]:
    count, height = draw(st.integers(2, 5)), draw(st.integers(1, 40))
    feeds: list[list[Feed]] = [[]]
    for member in range(1, count):
        makers = draw(st.lists(st.integers(0, member - 1), min_size=1, max_size=2))
        feeds.append([Feed(place, maker) for place, maker in zip("xz", makers, strict=False)])
    loops = [Rows(height, draw(st.sampled_from([2, 4, 8])), draw(st.integers(0, 2)), tuple(f.place for f in own)) for own in feeds]
    return loops, feeds, draw(st.integers(0, 2))


@given(groups())
def test_every_slab_once_and_after_what_it_reads(group: tuple[list[Rows], list[list[Feed]], int]) -> None:
    loops, feeds, ahead = group
    turns = interleave(cast("list[RowLoop]", cast("Any", loops)), feeds, ahead)
    made = [0] * len(loops)
    for turn in turns:
        loop = loops[turn.member]
        assert turn.slab * loop.size == min(made[turn.member], turn.slab * loop.size)
        for feed in feeds[turn.member]:
            assert made[feed.maker] >= loop.read(turn.slab)[feed.place].stop
            (slab,) = [slab for maker, slab in turn.after[feed.place] if maker == feed.maker][:1]
            assert loops[feed.maker].made(slab).stop >= loop.read(turn.slab)[feed.place].stop
        made[turn.member] = loop.made(turn.slab).stop
    assert sorted((t.member, t.slab) for t in turns) == [(m, k) for m, loop in enumerate(loops) for k in range(loop.count)]


@given(height=st.integers(9, 80), halo=st.integers(0, 2), ahead=st.integers(0, 2))
def test_a_maker_is_no_further_ahead_than_it_should_be(height: int, halo: int, ahead: int) -> None:
    maker, reader = Rows(height, 4, 0, ()), Rows(height, 4, halo, ("x",))
    done = 0
    for turn in interleave(cast("list[RowLoop]", cast("Any", [maker, reader])), [[], [Feed("x", 0)]], ahead):
        if turn.member == 0:
            done = maker.made(turn.slab).stop
        else:
            last = reader.read(min(turn.slab + ahead, reader.count - 1))["x"].stop
            assert done < last + maker.size


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
