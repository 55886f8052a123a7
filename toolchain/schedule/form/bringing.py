"""Tiles that wait in a memory which streams share come there in steps of their own, ahead of their first load: DRAM's port then works while units
compute (Zhao et al. 2023, section 4.4: the promotion of weights hides behind the computation)."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.tiling.near_weights import is_near, near_rooms, waiting
from toolchain.schedule.tiling.order import Instance
from toolchain.schedule.writer import OperationPart
from toolchain.spec.model.structure import neighbours

LOADS_AHEAD = 2
"""Loads before its own at which a tile comes that no block before can hide: with as many slots of a place, its loads are asked for so early."""


class StreamStep(NamedTuple):
    """A step of an operation, by its number in the region, on a stream. brings: it brings its tile to where that waits, and loads nothing."""

    number: int
    stream: int
    item: Instance
    brings: bool = False


def turn_starts(streams: Sequence[int]) -> list[int]:
    """The first step of each turn, in which no stream has two steps. streams: of each step, in an order in which all could run one by one."""
    return [0, *(n for n in range(1, len(streams)) if streams[n] <= streams[n - 1])]


def with_bringing(problems: Sequence[Problem], steps: Sequence[StreamStep]) -> Sequence[StreamStep]:
    """With a step for each tile that waits, before a turn.

    problems: of all operations. steps: in an order in which all could run one by one."""
    loads = _loads(problems, steps)
    if not loads:
        return steps
    starts, ahead = turn_starts([step.stream for step in steps]), defaultdict[int, list[StreamStep]](list)
    begins = {number: place for place, (number, *_) in reversed([*enumerate(steps)])}
    for (number, stream, _), own in loads.items():
        for tile, moment in moments([(load.begin, load.first) for load in own]):
            start = starts[bisect_right(starts, own[moment].place) - 1]
            ahead[max(start, begins[number])].append(StreamStep(number, stream, steps[own[tile].place].item, True))
    return [each for place, step in enumerate(steps) for each in (*ahead.get(place, ()), step)]


class _Load(NamedTuple):
    """place: among all steps. begin: of its tile along the dimension by which tiles wait. first: of its tile among streams that share the memory."""

    place: int
    begin: int
    first: bool


def _loads(problems: Sequence[Problem], steps: Sequence[StreamStep]) -> Mapping[tuple[int, int, str], list[_Load]]:
    """The loads of tiles that wait, by operation, stream and tensor."""
    waits = [{tensor.name: waits.by for tensor, waits in waiting(problem) if is_near(problem, tensor.name)} for problem in problems]
    found, seen, near = defaultdict[tuple[int, int, str], list[_Load]](list), set[object](), neighbours(problems[0].machine.levels)
    for place, (number, stream, item, _) in enumerate(steps):
        tensor = item.step.place
        if item.step.kind == "load" and tensor in waits[number]:
            tile = number, tensor, tuple(item.tile.items()), stream // near
            found[number, stream, tensor].append(_Load(place, item.tile[waits[number][tensor]][0], tile not in seen))
            seen.add(tile)
    return found


def moments(loads: Sequence[tuple[int, bool]]) -> Iterator[tuple[int, int]]:
    """For each load that is the first of its tile, by its number, the load before which the tile comes.

    loads: where each tile begins along the dimension by which tiles wait, and whether it is a first one. Where blocks of that dimension come one
    after the other, the tiles of each come at an even pace during the block before; all others shortly before they are loaded."""
    blocks = [[number for number, _ in block] for _, block in groupby(enumerate(loads), lambda pair: pair[1][0])]
    in_turn = len(blocks) == len({begin for begin, _ in loads})
    for before, block in zip([range(0), *blocks], blocks, strict=False):
        firsts = [number for number in block if loads[number][1]]
        for count, number in enumerate(firsts):
            yield number, before[count * len(before) // len(firsts)] if in_turn and len(before) else max(number - LOADS_AHEAD, 0)


def with_named_bringing(parts: Iterable[OperationPart], brings: Iterable[Sequence[bool]]) -> list[OperationPart]:
    """brings: by operation and step, whether it brings its tile. The loads of tiles that wait say whether they do."""
    return [_named(part, own) for part, own in zip(parts, brings, strict=True)]


def _named(part: OperationPart, brings: Sequence[bool]) -> OperationPart:
    rooms = near_rooms(part.problem)
    if not rooms:
        return part
    told = zip(part.steps, part.names, brings, strict=True)
    names = [
        {**names, f"{item.step.place}_near_brings": int(own)} if item.step.kind == "load" and item.step.place in rooms else names
        for item, names, own in told
    ]
    return replace(part, names=names)
