"""Copies beside that of a single image, whose cores bring a part of its weights: by loads for several copies at once, each core waits for DRAM less
often. Their own results are of images that a run may lack."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from toolchain.schedule.alike import Asked, Searched, search_all
from toolchain.schedule.compile_region import compile_schedule, team_cycles
from toolchain.schedule.form.shares import can_multicast
from toolchain.schedule.kernel_selection import REFUSED
from toolchain.schedule.workers import Workers
from toolchain.spec.errors import UserError
from toolchain.spec.model.structure import neighbours


def quickest_searched(asked: Sequence[Asked], workers: Workers) -> tuple[list[Asked], list[Searched]]:
    """The schedules of all regions of a network for one image, with copies beside it where their programs together take less time, and what was asked
    for so. asked: each with one copy, for one machine.

    Programs that estimates choose say how many copies are tried; never slower than one copy, by the programs of the schedules found. Raises as
    `search_all`."""
    alone = [*asked], [*search_all(asked, workers)]
    if (times := _best_times(asked)) == 1:
        return alone
    helped = with_copies(asked, times)
    together = helped, [*search_all(helped, workers)]
    return min(alone, together, key=_cycles)


def with_copies(asked: Sequence[Asked], times: int) -> list[Asked]:
    """The same regions, so many copies of each."""
    return [replace(each, options=replace(each.options, copies=times)) for each in asked]


def _best_times(asked: Sequence[Asked]) -> int:
    """The number of copies whose programs take the least time, of equals the least."""
    tried = [1, *_possible(asked)]
    return min(tried, key=lambda times: sum(map(_rough_cycles, with_copies(asked, times)))) if len(tried) > 1 else 1


def _possible(asked: Sequence[Asked]) -> Iterator[int]:
    """Two, four, eight ... copies of each region, as long as neighbouring streams of the machine run those of some region."""
    machine = asked[0].machine
    able = all(can_multicast(machine, each.kernels) and each.options.ways.together == 1 for each in asked)
    near, streams = neighbours(machine.levels), [each.options.streams for each in asked]
    for times in itertools.takewhile(lambda times: able and times * min(streams) <= near, map((2).__pow__, itertools.count(1))):
        if times * max(streams) <= machine.streams:
            yield times


def _rough_cycles(asked: Asked) -> float:
    """Cycles by a schedule that estimates choose; infinite where there is none."""
    try:
        return team_cycles(asked.machine, asked.kernels, asked.region, replace(asked.options, effort=0, progress=None))
    except UserError as error:
        if not error.only(REFUSED):
            raise
        return math.inf


def _cycles(found: tuple[Sequence[Asked], Sequence[Searched]]) -> float:
    """Cycles of all programs, one after the other."""
    pairs = zip(*found, strict=True)
    return sum(
        compile_schedule(each.machine, each.kernels, each.region, schedule, replace(each.options, check=False)).cycles
        for each, (schedule, _) in pairs
    )
