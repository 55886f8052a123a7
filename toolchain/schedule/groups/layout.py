"""Layout of rings of rows in one pool: side by side, all going round it at one speed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from toolchain.schedule.kernels.pools import Pool, Slot
from toolchain.schedule.placement.on_chip_allocation import Lines, RowRing


class Stream(NamedTuple):
    """A tensor that goes by in rows. rows: all that it has. late: rows of the group's tallest ring that are made before its first one."""

    name: str
    lines: Lines
    rows: int
    late: int


@dataclass
class _Track:
    """Room for one line in every period. width: elements of it. taken: turns of `every` periods that streams have."""

    start: int
    width: int
    every: int
    taken: int


def lay_rings(streams: Sequence[Stream], pool: Pool, tallest: int) -> dict[str, tuple[Slot, RowRing]] | None:
    """Slots and rings, or None where lines are farther apart than the machine takes. tallest: rows of the tensor that `late` counts.

    A stream with half as many rows has a line in every second period. A stream that begins later starts further on, so that lines that are made at
    the same time stand beside each other. Whether rows are written over too early is not looked at.
    """
    most = max(stream.rows for stream in streams)
    tracks: list[_Track] = []
    places: list[tuple[_Track, int]] = []
    for stream in streams:
        every = max(most // stream.rows, 1)
        track = next((t for t in tracks if t.width >= stream.lines.line and t.every == every and t.taken < every), None)
        if track is None:
            track = _Track(sum(t.width for t in tracks), stream.lines.line, every, 0)
            tracks.append(track)
        places.append((track, track.taken))
        track.taken += 1
    period = sum(track.width for track in tracks)
    found: dict[str, tuple[Slot, RowRing]] = {}
    for stream, (track, turn) in zip(streams, places, strict=True):
        pitch = period * most // stream.rows
        if not stream.lines.line <= pitch <= stream.lines.most or period > pool.depth:
            return None
        begin = track.start + (turn + stream.late * most // tallest // stream.lines.together) * period
        found[stream.name] = Slot(pool.bank, begin % pool.depth), RowRing(pitch, pool.depth)
    return found
