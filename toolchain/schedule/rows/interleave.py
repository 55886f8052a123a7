"""The slabs of a group's operations in one order: every slab as late as its readers allow, and `ahead` slabs before they need it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from toolchain.schedule.kernels.pools import Slot
from toolchain.schedule.rows.row_load import RowLoad
from toolchain.schedule.rows.row_loop import RowLoop


class Turn(NamedTuple):
    """A slab of a member. after: by place, members and those of their slabs that must be done before its contents are read. slots: by place,
    where a ring that begins again stands for its rows."""

    member: int
    slab: int
    after: Mapping[str, Sequence["tuple[int, int]"]]
    slots: Mapping[str, Slot] = MappingProxyType({})


@dataclass(frozen=True)
class Feed:
    """A place of a member whose tensor another member of the group makes."""

    place: str
    maker: int


@dataclass
class _Interleaver:
    loops: Sequence[RowLoop | RowLoad]
    feeds: Sequence[Sequence[Feed]]
    ahead: int
    done: list[int] = field(default_factory=list[int])

    def turns(self) -> Iterator[Turn]:
        """All slabs. Members that no other one reads take turns, the one that lags behind first; in the end come rows that none of them reads."""
        self.done = [0] * len(self.loops)
        fed = {feed.maker for feeds in self.feeds for feed in feeds}
        ends = [member for member in range(len(self.loops)) if member not in fed]
        while behind := [member for member in ends if self.done[member] < self.loops[member].count]:
            member = min(behind, key=lambda m: (self.done[m] / self.loops[m].count, m))
            yield from self._run(member, self.done[member])
        for member, loop in enumerate(self.loops):
            yield from self._run(member, loop.count - 1)

    def _run(self, member: int, slab: int) -> Iterator[Turn]:
        """The member up to a slab, each after the slabs that it reads."""
        while self.done[member] <= slab:
            now = self.done[member]
            for feed in self.feeds[member]:
                later = min(now + self.ahead, self.loops[member].count - 1)
                yield from self._run(feed.maker, self._maker_slab(member, later, feed))
            yield Turn(member, now, self._after(member, now))
            self.done[member] = now + 1

    def _after(self, member: int, slab: int) -> dict[str, list[tuple[int, int]]]:
        found: dict[str, list[tuple[int, int]]] = {}
        for feed in self.feeds[member]:
            found.setdefault(feed.place, []).append((feed.maker, self._maker_slab(member, slab, feed)))
        return found

    def _maker_slab(self, member: int, slab: int, feed: Feed) -> int:
        """The last slab of the maker that the first slabs of a member read; -1 for none."""
        stop = max(self.loops[member].read(k)[feed.place].stop for k in (slab, max(slab - 1, 0)))
        return self.loops[feed.maker].slab_of(stop - 1) if stop else -1


def interleave(loops: Sequence[RowLoop | RowLoad], feeds: Sequence[Sequence[Feed]], ahead: int) -> list[Turn]:
    """loops, feeds: of each member, operations before their readers, loads last. ahead: slabs of a reader for which its makers work in advance."""
    return list(_Interleaver(loops, feeds, ahead).turns())
