"""The order of slabs: each once, in turn, after all that it reads, and no earlier than its readers want."""

from dataclasses import dataclass
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from toolchain.schedule.rows.interleave import Feed, interleave
from toolchain.schedule.rows.row_loop import RowLoop


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
