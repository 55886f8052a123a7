"""The order of slabs: each once, in turn, after all that it reads, and no earlier than its readers want. Groups over rows: turns that read
only finished rows, and rings that are too short. Rounds that overlap: rows are there wherever a slab reads them."""

from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schedule.groups.tall_regions import short_machine
from tests.schedule.groups.test_search import CHAINS, flat_schedule_of, schedule_of
from toolchain.schedule.form.plan import Plan
from toolchain.schedule.form.realise import realise
from toolchain.schedule.kernels.rounds import RowRing
from toolchain.schedule.rows.ring_check import RingBuffer, made_over, ring_buffers
from toolchain.schedule.rows.row_group import Feed, RowGroup, Slab, Turn, clash_of, interleave, runs
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


@pytest.mark.parametrize(("name", "passes", "connected"), [("conv -> conv", True, True), ("residual", True, True), ("branches", True, False)])
def test_operations_that_hand_rows_on(name: str, passes: bool, connected: bool) -> None:
    assert (group_of(name).passes, group_of(name).connected) == (passes, connected)


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


@st.composite
def overlapping(draw: st.DrawFn) -> tuple[RingBuffer, list[Slab]]:
    """A maker and two readers of one ring whose rounds overlap, each reader after what it reads."""
    together, step = draw(st.integers(1, 2)), draw(st.integers(1, 6))
    overlap = draw(st.integers(0, step))
    lines, line = step + overlap, draw(st.integers(1, 3))
    address, late = draw(st.integers(0, 5)), draw(st.integers(0, step - 1))
    ring = RingBuffer("fm", 0, address, line, line, together, address + lines * line, lines, overlap, late)
    height, size = draw(st.integers(1, 40)), draw(st.integers(1, 2)) * together
    maker = Rows(height, size, 0, ())
    readers = [Rows(height, draw(st.integers(1, 4)), draw(st.integers(0, 2)), ("x",)) for _ in range(draw(st.integers(1, 2)))]
    turns = interleave(cast("list[RowLoop]", cast("Any", [maker, *readers])), [[], *([Feed("x", 0)] for _ in readers)], draw(st.integers(0, 2)))
    loops = [maker, *readers]
    return ring, [Slab(t, "xyz"[t.member], loops[t.member].made(t.slab), tuple(loops[t.member].read(t.slab).items())) for t in turns]


def found_all(ring: RingBuffer, slabs: list[Slab]) -> bool:
    """Whether every slab finds the rows that it reads in one stretch, in a memory that remembers the row of each place."""
    assert ring.rounds
    memory, place = dict[int, int](), RowRing(1, 0, ring.lines, ring.overlap, ring.late)
    for slab, number in runs(slabs, {"x": ring.rounds}):
        for tensor, rows, made in slab.touched:
            if tensor == "x":
                begin = place.begin(number if made else ring.read(rows)) * ring.together
                if any(not 0 <= begin + row < ring.lines * ring.together or not (made or memory.get(begin + row) == row) for row in rows):
                    return False
                memory |= {begin + row: row for row in rows} if made else {}
    return True


@given(overlapping())
def test_rows_of_rounds_that_overlap_are_lost_only_where_lines_clash(program: tuple[RingBuffer, list[Slab]]) -> None:
    ring, slabs = program
    crosses = any(tensor == "x" and ring.crosses(rows, made) for slab in slabs for tensor, rows, made in slab.touched)
    if not crosses:
        assert found_all(ring, slabs) == (clash_of(slabs, {"x": ring}, frozenset()) is None)


def test_the_end_of_a_round_is_made_again_before_the_next_ones_own_rows() -> None:
    """Four lines of one row, the last of which is the first of the next round."""
    ring = RingBuffer("fm", 0, 0, 1, 1, 1, 4, 4, 1)
    slabs = [Slab(Turn(0, row, {}), "x", range(row, row + 1), ()) for row in range(8)]
    assert ring.rounds
    found = [(slab.turn.slab, number, slab.turn.again) for slab, number in runs(slabs, {"x": ring.rounds})]
    assert found[3:6] == [(3, 0, False), (3, 1, True), (4, 1, False)]
    assert [(slab, number) for slab, number, again in found if again] == [(3, 1), (6, 2)]
    assert [slab for slab, _, again in found if not again] == list(range(8))


def test_a_result_stands_over_its_operand_in_each_round() -> None:
    """The end of a round of the operand is made again in the next round, and so is that of the result, over it there."""
    ring = RingBuffer("fm", 0, 0, 1, 1, 1, 4, 4, 1)
    order = [(member, row) for row in range(8) for member in (0, 1)]
    slabs = [Slab(Turn(m, row, {}), "xy"[m], range(row, row + 1), (("x", range(row, row + 1)),) * m) for m, row in order]
    rings = {"x": ring, "y": ring}
    assert clash_of(slabs, rings, frozenset({("y", "x")})) is None
    assert clash_of(slabs, rings, frozenset()) is not None


def test_slabs_that_are_made_again_stand_in_the_next_round() -> None:
    plan = realise(*short_machine(), CHAINS["conv -> conv"], flat_schedule_of("conv -> conv"))
    group, ring = plan.groups[0], plan.residents.rings["t0"]
    assert isinstance(group, RowGroup)
    turns, begin = group.turns_with(plan.problems), plan.residents.slots["t0"].address
    first = {turn.slab: turn.slots["y"].address for turn in turns if turn.member == 0 and not turn.again}
    again = {turn.slab: turn.slots["y"].address for turn in turns if turn.member == 0 and turn.again}
    assert again
    assert all(first[slab] - address == (ring.lines - ring.overlap) * ring.pitch for slab, address in again.items())
    assert first[0] == begin + ring.late * ring.pitch
    counts = [sum(turn.member == maker for turn in turns) for maker in range(len(group.makers))]
    assert group.times_made(plan.problems) == [count / maker.count for count, maker in zip(counts, group.makers, strict=True)]
    assert group.times_made(plan.problems)[1] == 1
