"""Rings that are too short are found: against a memory in which every element remembers which line was written there last.

The order of slabs: each once, in turn, after all that it reads, and no earlier than its readers want. Groups over rows: turns that read
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
from toolchain.schedule.rows.row_group import Feed, RingBuffer, RowGroup, Touch, find_clash, interleave, made_over, ring_buffers
from toolchain.schedule.rows.row_loop import RowLoop

DEPTH = 24

NAMES = ("conv -> conv", "residual", "branches")


@st.composite
def programs(draw: st.DrawFn) -> tuple[dict[str, RingBuffer], list[Touch], list[Touch]]:
    """Two rings of one memory; lines are written one after the other, each before it is read."""
    rings, writes, reads, moment = dict[str, RingBuffer](), list[Touch](), list[Touch](), 0
    rows = {name: draw(st.integers(1, 9)) for name in ("a", "b")}
    for name in rows:
        line = draw(st.integers(1, 6))
        pitch = draw(st.integers(line, 12))
        rings[name] = RingBuffer("fm", 0, draw(st.integers(0, DEPTH - 1)), pitch, line, draw(st.integers(1, 2)), DEPTH)
    made = dict.fromkeys(rows, 0)
    while any(made[name] < rows[name] for name in rows):
        name = draw(st.sampled_from([n for n in rows if made[n] < rows[n]]))
        together = rings[name].together
        stop = min(made[name] + draw(st.integers(1, 2)) * together, rows[name])
        writes.append(Touch(name, moment, range(made[name], stop)))
        made[name], moment = stop, moment + 1
        for other in rows:
            if made[other] and draw(st.booleans()):
                first = draw(st.integers(0, made[other] - 1))
                reads.append(Touch(other, moment, range(first, draw(st.integers(first + 1, made[other])))))
        moment += 1
    return rings, writes, reads


def lost(rings: dict[str, RingBuffer], writes: list[Touch], reads: list[Touch]) -> bool:
    """Whether a read finds another line than the one it wants."""
    memory: dict[int, tuple[str, int]] = {}
    events = [(t.moment, 1, t) for t in reads] + [(t.moment, 0, t) for t in writes]
    for _, reading, touch in sorted(events, key=lambda e: e[:2]):
        ring = rings[touch.ring]
        for number in sorted({row // ring.together for row in touch.rows}):
            for k in range(ring.line):
                place, want = (ring.address + number * ring.pitch + k) % ring.depth, (touch.ring, number)
                if reading and memory.get(place) != want:
                    return True
                if not reading:
                    memory[place] = want
    return False


@given(programs())
def test_a_line_is_lost_only_where_a_clash_is_found(program: tuple[dict[str, RingBuffer], list[Touch], list[Touch]]) -> None:
    rings, writes, reads = program
    if find_clash(rings, writes, reads, frozenset()) is None:
        assert not lost(rings, writes, reads)


@given(programs())
def test_a_clash_of_a_line_that_is_read_once_more_is_a_loss(program: tuple[dict[str, RingBuffer], list[Touch], list[Touch]]) -> None:
    rings, writes, reads = program
    end = max(t.moment for t in [*writes, *reads]) + 1
    clash = find_clash(rings, writes, reads, frozenset())
    if clash is not None:
        again = [Touch(name, end, range(max(t.rows.stop for t in writes if t.ring == name))) for name in rings]
        assert lost(rings, writes, [*reads, *again])


def test_a_result_may_stand_over_its_operand_where_it_is_made_in_the_same_moment() -> None:
    ring = RingBuffer("fm", 0, 0, 4, 4, 1, DEPTH)
    rings, rows = {"x": ring, "y": ring}, range(1)
    writes, reads = [Touch("x", 0, rows), Touch("y", 1, rows)], [Touch("x", 1, rows)]
    assert find_clash(rings, writes, reads, frozenset()) is not None
    assert find_clash(rings, writes, reads, frozenset({("y", "x")})) is None
    late = [*reads, Touch("x", 2, rows)]
    assert find_clash(rings, writes, late, frozenset({("y", "x")})) is not None


def test_other_pools_do_not_matter() -> None:
    rings = {"x": RingBuffer("fm", 0, 0, 4, 4, 1, DEPTH), "y": RingBuffer("fm", 8, 0, 4, 4, 1, DEPTH)}
    writes = [Touch("x", 0, range(1)), Touch("y", 1, range(1))]
    assert find_clash(rings, writes, [Touch("x", 2, range(1))], frozenset()) is None


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
