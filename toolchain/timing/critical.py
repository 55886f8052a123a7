"""The critical path: from the last result back to the start, always to what the instruction at hand really waited for."""

from collections.abc import Iterator

import numpy as np

from toolchain.isa.program import Ints
from toolchain.isa.queue_table import program_queues
from toolchain.timing.simulate import Timeline
from toolchain.timing.timeline import Times

LATENCY = "(latency)"
"""Time on the path between the end of an instruction and the moment when its tokens show."""


def critical_path(timeline: Timeline) -> dict[str, float]:
    """Cycles on the path by unit, and LATENCY; they add up to the total. The most first."""
    program = timeline.program
    names = [*(u.name for u in program.machine.units), LATENCY]
    total = np.zeros(len(names))
    units: list[int] = program.unit.tolist()
    for instruction, work, latency in _steps(timeline):
        total[units[instruction]] += work
        total[-1] += latency
    return {names[k]: float(total[k]) for k in np.argsort(-total, kind="stable").tolist() if total[k] > 0}


def _steps(timeline: Timeline) -> Iterator[tuple[int, float, float]]:
    """(instruction, cycles at work, cycles from its end to what followed), from the last to the first.

    Where an instruction started because another one did (it made room in a counter or a queue), the path goes on at that start; where it
    started because one that feeds it had begun, what that one did until then is on the path.
    """
    result, table = timeline.result, program_queues(timeline.program)
    start, end, freed, released = (_floats(column) for column in (result.start, result.end, result.freed, result.released))
    producer, room_by = _integers(result.producer), _integers(result.room_by)
    item, queue_start, position, queue = (_integers(column) for column in (table.item, table.start, table.position, table.queue))
    now, at = timeline.cycles, int(np.argmax(result.end + timeline.costs.latency)) if len(timeline.program) else -1
    while at >= 0:
        if now > start[at]:
            yield at, min(end[at], now) - start[at], max(now - end[at], 0.0)
        now = start[at]
        if start[at] > freed[at]:
            at = producer[at]
        elif not position[at]:
            return
        else:
            before = item[queue_start[queue[at]] + position[at] - 1]
            at = room_by[before] if released[before] > end[before] else before


def _floats(column: Times) -> list[float]:
    return column.tolist()


def _integers(column: Ints) -> list[int]:
    return column.tolist()
