"""A timeline as Chrome trace JSON, which Perfetto and chrome://tracing open: one row a unit, gaps named by their cause, and the lives of on-chip
data, from a write to the last read before the next write.

Counters show how full on-chip memories are over time, from the program's footprints alone.
"""

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.footprint.footprints import Runs, granules
from toolchain.isa.program import Ints, Program
from toolchain.isa.semantics.instances import stream_levels
from toolchain.spec.files import replacing
from toolchain.spec.model import Memory
from toolchain.timing.event_run import NOT_FETCHED, Times
from toolchain.timing.simulate import Timeline

RANGES = 1 << 10
"""The most ranges of a memory that are told apart."""

Bools = NDArray[np.bool_]

CHUNK = 1 << 14
SPAN = '{"name":"%s","ph":"X","pid":%d,"tid":%d,"ts":%.6f,"dur":%.6f,"args":{"instruction":"%s"%s}}'
COUNTER = '{"name":"%s, bytes that are still read","ph":"C","pid":%d,"ts":%.6f,"args":{"bytes":%d}}'
GAP = '{"name":"%s","cat":"idle","ph":"X","pid":%d,"tid":%d,"ts":%.6f,"dur":%.6f,"args":{"instruction":"%s"}}'


@dataclass(frozen=True)
class Lives:
    """Data of one memory, all instances end to end; lockstep replicas count once. begin, stop: cycles, float64 [n]; low, high: bytes, int64 [n].

    writer: the instruction, int64 [n]; -1 for data that was there before the program. capacity, block: bytes; ranges begin and end on multiples of
    `block`. Data that no instruction reads is left out.
    """

    begin: Times
    stop: Times
    low: Ints
    high: Ints
    writer: Ints
    capacity: int
    block: int


def lives_of(timeline: Timeline) -> Iterator[tuple[Memory, Lives]]:
    """Lives in each on-chip memory that the program touches."""
    prints, machine = timeline.footprints, timeline.program.machine
    for number, memory in enumerate(machine.memories):
        runs = prints.runs.take(prints.runs.memory == number)
        if memory.kind in ("scratchpad", "ring") and len(runs):
            yield memory, _of_memory(timeline, memory, runs, 1 if memory.name in prints.alike else machine.instances(memory.scope))


def _of_memory(timeline: Timeline, memory: Memory, runs: Runs, instances: int) -> Lives:
    whole = granules(memory) * instances
    bounds, block = _bounds(runs, whole)
    start, end = timeline.result.start[runs.instruction], timeline.result.end[runs.instruction]
    order = np.lexsort((runs.write, start))  # of those that start at once a read is first: an update in place
    ordered = runs.take(order)
    begin, stop, place, head, written = _lives(*_ranges(ordered, bounds), start[order], end[order])
    writer = np.where(written, ordered.instruction[head], -1)
    size = memory.granule
    return Lives(begin, stop, bounds[place] * size, bounds[place + 1] * size, writer, whole * size, block * size)


def _bounds(runs: Runs, whole: int) -> tuple[Ints, int]:
    """Granules at which ranges begin and end, and the number that all are multiples of: 1 unless runs begin and end in too many places."""
    bounds = np.unique(np.concatenate([runs.start, runs.stop]))
    if len(bounds) <= RANGES:
        return bounds, 1
    block = -(-whole // RANGES)
    return np.unique(np.concatenate([runs.start // block * block, np.minimum(-(-runs.stop // block) * block, whole)])), block


def _ranges(runs: Runs, bounds: Ints) -> tuple[Ints, Ints, Bools]:
    """The run, the range and whether it is written, of every range that a run touches; by range, in the order of the runs."""
    first, stop = np.searchsorted(bounds, runs.start, "right") - 1, np.searchsorted(bounds, runs.stop)
    count = stop - first
    run = np.repeat(np.arange(len(runs)), count)
    place = first[run] + np.arange(len(run)) - np.repeat(np.cumsum(count) - count, count)
    order = np.argsort(place.astype(np.int16), kind="stable")  # 16 bits are sorted by radix
    return run[order], place[order], runs.write[run[order]]


def _lives(run: Ints, place: Ints, write: Bools, start: Times, end: Times) -> tuple[Times, Times, Ints, Ints, Bools]:
    """When data comes into a range, when it is read last, the range, the run that it begins with, and whether that one writes."""
    changes = np.diff(place, prepend=-1) != 0
    heads = np.flatnonzero(write | changes)
    last = np.maximum.reduceat(np.where(write, -np.inf, end[run]), heads)
    following = np.append(start[run[heads[1:]]], np.inf)
    following[:-1][changes[heads[1:]]] = np.inf
    begin, stop = np.where(write[heads], start[run[heads]], 0.0), np.minimum(last, following)
    lives = stop > begin
    kept = heads[lives]
    return begin[lives], stop[lives], place[kept], run[kept], write[kept]


def write_trace(timeline: Timeline, path: Path, layers: Sequence[str] = ()) -> None:
    """Writes microseconds at the machine's clock, whole or not at all; streamed, so that a million events fit. Raises UserError E0005.

    layers: the operation of each instruction, empty for none.
    """
    with replacing(path) as file, io.TextIOWrapper(file, encoding="utf-8", newline="\n") as text:
        write_events(timeline, text, layers)


def write_events(timeline: Timeline, file: TextIO, layers: Sequence[str] = ()) -> None:
    machine = timeline.program.machine
    file.write(f'{{"displayTimeUnit":"ns","otherData":{{"machine":"{machine.name}","clock_khz":"{machine.timing.clock_khz}"}},"traceEvents":[\n')
    file.write(",\n".join(_rows(timeline.program)))
    for first in range(0, len(timeline.program), CHUNK):
        file.write(",\n" + ",\n".join(_events(timeline, first, min(first + CHUNK, len(timeline.program)), layers)))
    for counter in _counters(timeline):
        file.write(f",\n{counter}")
    file.write("\n]}\n")


def _counters(timeline: Timeline) -> Iterator[str]:
    """The occupancy of each memory, in a process of their own behind the streams."""
    pid, scale = timeline.program.machine.streams, 1000.0 / timeline.program.machine.timing.clock_khz
    for number, room in enumerate(occupancy(timeline)):
        if not number:
            yield f'{{"name":"process_name","ph":"M","pid":{pid},"args":{{"name":"memories"}}}}'
        yield from (COUNTER % (room.memory, pid, time * scale, size) for time, size in zip(room.cycles.tolist(), room.bytes.tolist(), strict=True))


def _rows(program: Program) -> Iterator[str]:
    """Names of processes (streams) and threads (units)."""
    for stream in range(program.machine.streams):
        yield f'{{"name":"process_name","ph":"M","pid":{stream},"args":{{"name":"{place_of(program, stream)}"}}}}'
        for number, unit in enumerate(program.machine.units):
            yield f'{{"name":"thread_name","ph":"M","pid":{stream},"tid":{number},"args":{{"name":"{unit.name}"}}}}'
            yield f'{{"name":"thread_sort_index","ph":"M","pid":{stream},"tid":{number},"args":{{"sort_index":{number}}}}}'


def place_of(program: Program, stream: int) -> str:
    """`cluster 1 core 3`, or the machine's name where there is one stream."""
    words: list[str] = []
    for level in reversed(stream_levels(program.machine)):
        stream, index = divmod(stream, level.count)
        words.insert(0, f"{level.name} {index}")
    return " ".join(words) or program.machine.name


def _events(timeline: Timeline, first: int, last: int, layers: Sequence[str]) -> Iterator[str]:
    """The instructions first..last - 1, and the gaps before and after them that have a cause."""
    program, result, chosen = timeline.program, timeline.result, slice(first, last)
    scale = 1000.0 / program.machine.timing.clock_khz
    names = [i.name for i in program.machine.instructions]
    start, busy = result.start[chosen] * scale, (result.end - result.start)[chosen] * scale
    stream, unit = program.stream[chosen].tolist(), program.unit[chosen].tolist()
    kinds = [names[int(k)] for k in program.kind[chosen]]
    offsets: list[int] = program.offset[chosen].tolist()
    labels = [f"#{i} {name} at {offset:#x}" for i, name, offset in zip(range(first, last), kinds, offsets, strict=True)]
    causes = [""] * (last - first)
    gaps: list[str] = []
    for at in np.flatnonzero((timeline.waited[chosen] > 0) | (timeline.contended[chosen] > 0) | (timeline.held[chosen] > 0)).tolist():
        texts, idle = _delays(timeline, first + at)
        causes[at] = "".join(f',"{key}":{json.dumps(text)}' for key, text in texts)
        gaps += [GAP % (what, stream[at], unit[at], begin * scale, length * scale, labels[at]) for what, begin, length in idle]
    if layers:
        layer = [json.dumps(name) for name in layers[first:last]]
        causes = [f',"layer":{name}{cause}' if name != '""' else cause for name, cause in zip(layer, causes, strict=True)]
        kinds = [f"{kind} {name[1:-1]}".strip() for kind, name in zip(kinds, layer, strict=True)]
    yield from map(SPAN.__mod__, zip(kinds, stream, unit, start.tolist(), busy.tolist(), labels, causes, strict=True))
    yield from gaps


def delay_reasons(timeline: Timeline, instruction: int) -> list[tuple[str, str]]:
    """Why it was late or slow: `waited`, `contended` or `held`, each with its sentence."""
    return _delays(timeline, instruction)[0]


def _delays(timeline: Timeline, i: int) -> tuple[list[tuple[str, str]], list[tuple[str, float, float]]]:
    """(argument, sentence) pairs, and (name, start, cycles) of the gaps beside instruction i."""
    program, result, names = timeline.program, timeline.result, timeline.tokens.names
    texts: list[tuple[str, str]] = []
    gaps: list[tuple[str, float, float]] = []
    waited, contended, held = (float(column[i]) for column in (timeline.waited, timeline.contended, timeline.held))
    if waited > 0:
        counter, producer = int(result.counter[i]), program.label(int(result.producer[i]))
        fetch = counter == NOT_FETCHED
        reason = f"a queue to take it, until {producer} started" if fetch else f"{names[counter]} from {producer}"
        texts.append(("waited", f"{waited:g} cycles for {reason}"))
        gaps.append(("wait fetch" if fetch else f"wait {names[counter]}", float(result.freed[i]), waited))
    if contended > 0:
        slowest = int(result.slowest[i])
        shared = f"{timeline.costs.ports.names[slowest]} is shared" if slowest >= 0 else "another unit is at its banks"
        texts.append(("contended", f"{contended:g} cycles, {shared}"))
    if held > 0:
        counter = names[int(result.room_counter[i])]
        texts.append(("held", f"{held:g} cycles, {counter} is full until {program.label(int(result.room_by[i]))}"))
        gaps.append((f"full {counter}", float(result.end[i]), held))
    return texts, gaps


POINTS = 1 << 13
"""The most points that are kept of a memory's occupancy."""


@dataclass(frozen=True)
class Occupancy:
    """Bytes of a memory that hold data which an instruction still reads: all instances together; lockstep replicas count once.

    bytes: from `cycles` on until the next point; both float64 [points]. capacity, block: bytes; ranges begin and end on multiples of `block`.
    """

    memory: str
    capacity: int
    block: int
    cycles: Times
    bytes: Times


def occupancy(timeline: Timeline) -> tuple[Occupancy, ...]:
    """Occupancy of each on-chip memory that the program touches: a byte is occupied from a write to the last read before the next write."""
    return tuple(
        Occupancy(memory.name, lives.capacity, lives.block, *_steps(lives.begin, lives.stop, lives.high - lives.low))
        for memory, lives in lives_of(timeline)
    )


def _steps(begin: Times, stop: Times, size: Ints) -> tuple[Times, Times]:
    """Points at which the sum of the sizes that live changes; where there are too many, the largest sum of each stretch of time."""
    moments: Times = np.concatenate([np.zeros(1), begin, stop])
    times, where = np.unique(moments, return_inverse=True)
    change = np.concatenate([np.zeros(1), size, -size])
    level = np.cumsum(np.bincount(where, change, len(times))).astype(np.float64)
    if len(times) <= POINTS:
        return times, level
    stretch = np.minimum((times * (POINTS / times[-1])).astype(np.int64), POINTS - 1)
    heads = np.flatnonzero(np.diff(stretch, prepend=-1))
    return times[heads], np.maximum.reduceat(level, heads)
