"""Usage of a program's cycles: busy and idle by cause for each unit, bytes, bounds, the critical path; as text or as data for JSON.

The critical path goes from the last result back to the start, always to the cause that an instruction really waited for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import cast

import numpy as np

from toolchain.isa.program import Ints, program_queues
from toolchain.spec.arrays import distinct
from toolchain.spec.model import Machine
from toolchain.timing.event_run import NOT_FETCHED, Times
from toolchain.timing.simulate import Timeline

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
    """(instruction, cycles at work, cycles from its end to the next step), from the last to the first.

    Where an instruction started because another one did (it made room in a counter or a queue), the path goes on at that start; where it
    started because one that feeds it had begun, the work of that one until then is on the path.
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


FETCH = "(fetch)"
"""Stands among the counters that a unit waits for: its next instruction was not in its queue yet."""


@dataclass(frozen=True)
class UnitUse:
    """Cycles of all instances of a unit together; the parts from `busy` to `done` add up to instances times the total.

    busy: at work, alone. contended: longer because a resource or the ports of a bank were shared. held: a counter was full, or a coupled unit
    still fed it. waiting: for tokens, `waits` says for which counters. done: after its last instruction.
    """

    name: str
    instances: int
    instructions: int
    busy: float
    contended: float
    held: float
    waiting: float
    done: float
    waits: dict[str, float]


@dataclass(frozen=True)
class MemoryUse:
    """Bytes that instructions read and wrote, lockstep replicas counted each."""

    name: str
    read_bytes: int
    written_bytes: int


@dataclass(frozen=True)
class ResourceUse:
    """capacity_percent: of the bytes that all instances could have moved in the time."""

    name: str
    instances: int
    bytes: int
    capacity_percent: float


@dataclass(frozen=True)
class Basis:
    """A basis of the time: a number of the machine file, or (no value) a whole class. assumed: it is not published."""

    name: str
    value: int | None
    source: str
    assumed: bool


@dataclass(frozen=True)
class UsageSummary:
    """bound_cycles: no schedule of these instructions is faster, because `bound_by` is busy that long.

    critical: cycles by unit along the chain of causes that leads to the last result.
    """

    machine: str
    config: str
    clock_khz: int
    instructions: int
    cycles: float
    ms: float
    units: tuple[UnitUse, ...]
    memories: tuple[MemoryUse, ...]
    resources: tuple[ResourceUse, ...]
    bound_cycles: float
    bound_by: str
    critical: dict[str, float]
    constants: tuple[Basis, ...]


def summarise(timeline: Timeline) -> UsageSummary:
    machine, program = timeline.program.machine, timeline.program
    bound, by = max(_bounds(timeline), default=(0.0, "nothing"))
    return UsageSummary(
        machine.name, machine.config, machine.timing.clock_khz, len(program), timeline.cycles, timeline.milliseconds,
        tuple(_units(timeline)), tuple(_memories(timeline)), tuple(_resources(timeline)), bound, by,
        critical_path(timeline), tuple(_constants(timeline)),
    )  # fmt: skip


def _sum(values: Times, chosen: Ints) -> float:
    return float(values[chosen].sum())


def _units(timeline: Timeline) -> Iterator[UnitUse]:
    program, result = timeline.program, timeline.result
    machine, work = program.machine, result.end - result.start - timeline.contended
    last = np.zeros(program.queues)
    np.maximum.at(last, program.queue, result.released)
    for number, unit in enumerate(machine.units):
        mine = np.flatnonzero(program.unit == number)
        busy, contended, held, waiting = (_sum(v, mine) for v in (work, timeline.contended, timeline.held, timeline.waited))
        done = float((timeline.cycles - last[number :: len(machine.units)]).sum())
        yield UnitUse(unit.name, machine.streams, len(mine), busy, contended, held, waiting, done, _waits(timeline, mine))


def _waits(timeline: Timeline, mine: Ints) -> dict[str, float]:
    """Cycles by counter, the most first; instances of a counter count together."""
    base = [*timeline.tokens.counters, FETCH]
    names = sorted(set(base))
    number = np.array([names.index(name) for name in base], np.int64)
    idle = mine[timeline.waited[mine] > 0]
    counter = timeline.result.counter[idle]
    cycles = np.bincount(number[np.where(counter == NOT_FETCHED, len(base) - 1, counter)], timeline.waited[idle], len(names))
    return {names[k]: float(cycles[k]) for k in np.argsort(-cycles, kind="stable").tolist() if cycles[k] > 0}


def _memories(timeline: Timeline) -> Iterator[MemoryUse]:
    read, written = timeline.footprints.traffic_read.sum(axis=0), timeline.footprints.traffic_written.sum(axis=0)
    for number, memory in enumerate(timeline.program.machine.memories):
        if memory.kind != "register":
            yield MemoryUse(memory.name, int(read[number]), int(written[number]))


def _resources(timeline: Timeline) -> Iterator[ResourceUse]:
    ports, machine = timeline.costs.ports, timeline.program.machine
    moved = np.bincount(timeline.costs.port, timeline.costs.bytes, len(ports.names)) if len(ports.names) else np.zeros(0)
    for number, resource in enumerate(machine.timing.resources):
        mine = moved[ports.of == number]
        capacity = timeline.cycles * resource.bytes_per_cycle / resource.per * len(mine)
        yield ResourceUse(resource.name, len(mine), int(mine.sum()), 100 * float(mine.sum()) / capacity if capacity else 0.0)


def _bounds(timeline: Timeline) -> Iterator[tuple[float, str]]:
    """(cycles, the instance that is busy so long): every unit instance and every resource instance."""
    program, ports = timeline.program, timeline.costs.ports
    work = timeline.result.end - timeline.result.start - timeline.contended
    busy = np.bincount(program.queue, work, program.queues)
    for number, unit in enumerate(program.machine.units):
        yield float(busy[number :: len(program.machine.units)].max()), f"unit {unit.name}"
    moving = np.bincount(timeline.costs.port, timeline.costs.work, len(ports.names)) if len(ports.names) else np.zeros(0)
    yield from ((float(moving[k]), f"resource {name}") for k, name in enumerate(ports.names))


def _constants(timeline: Timeline) -> Iterator[Basis]:
    """The clock, then the constants and resources of the classes that the program's instructions are in."""
    program = timeline.program
    timing = program.machine.timing
    used = {program.machine.instructions[int(k)].timing for k in distinct(program.kind)}
    classes = [c for c in timing.classes if c.name in used]
    yield Basis("clock_khz", timing.clock_khz, timing.clock_source, False)
    named = {name for c in classes for name in c.constants}
    yield from (Basis(c.name, c.value, c.source, c.assumed) for c in timing.constants if c.name in named)
    yield from assumed_params(program.machine)
    shared = {t.resource for c in classes for t in c.transfers}
    yield from (Basis(f"{r.name} bytes per {r.per} cycles", r.bytes_per_cycle, r.source, r.assumed) for r in timing.resources if r.name in shared)
    yield from (Basis(f"class {c.name}", None, c.source, True) for c in classes if c.assumed)


def assumed_params(machine: Machine) -> Iterator[Basis]:
    """The parameters whose values are assumed. Choices are left out, which allow or refuse, and slow nothing."""
    chosen = {name for name, _ in machine.choices}
    yield from (Basis(name, machine.params[name], why, True) for name, why in machine.assumed_params.items() if name not in chosen)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = ()) -> list[str]:
    """Lines of text. Columns are aligned to the right, those numbered in `left` to the left."""
    widths = [max(len(line[k]) for line in (head, *rows)) for k in range(len(head))]
    return ["  ".join(cell.ljust(w) if k in left else cell.rjust(w) for k, (cell, w) in enumerate(zip(line, widths, strict=True))).rstrip()
            for line in (head, *rows)]  # fmt: skip


def summary_data(timeline: Timeline) -> dict[str, object]:
    """The summary as JSON holds it; whole numbers of cycles are integers."""
    return {key: _plain(value) for key, value in asdict(summarise(timeline)).items()}


def _plain(value: object) -> object:
    match value:
        case float():
            return int(value) if value.is_integer() else round(value, 6)
        case dict():
            return {key: _plain(item) for key, item in cast(dict[str, object], value).items()}
        case tuple():
            return [_plain(item) for item in cast(tuple[object, ...], value)]
        case _:
            return value


def summary_text(timeline: Timeline) -> str:
    """A page of plain text."""
    s = summarise(timeline)
    reached = f", which the program reaches to {100 * s.bound_cycles / s.cycles:.1f} %" if s.cycles else ""
    critical = ", ".join(f"{name} {cycles:.0f}" for name, cycles in s.critical.items())
    parts = [
        f"{s.machine}:{s.config}" if s.config else s.machine,
        f"{s.instructions} instructions, {s.cycles:.0f} cycles, {s.ms:.3f} ms at {s.clock_khz / 1000:g} MHz",
        f"bound: {s.bound_by} is busy {s.bound_cycles:.0f} cycles{reached}",
        f"critical path (cycles): {critical or 'empty'}",
        "", *_unit_table(s), "", *_memory_table(s), "", *_resource_table(s), *_basis(s),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _unit_table(s: UsageSummary) -> list[str]:
    rows: list[list[str]] = []
    for u in s.units:
        whole = s.cycles * u.instances or 1.0
        shares = [f"{100 * part / whole:.1f}" for part in (u.busy, u.contended, u.held, u.waiting, u.done)]
        longest = ", ".join(f"{name} {cycles:.0f}" for name, cycles in list(u.waits.items())[:3])
        rows.append([f"{u.name} x {u.instances}" if u.instances > 1 else u.name, str(u.instructions), f"{u.busy:.0f}", *shares, longest])
    head = ["unit", "instructions", "busy cycles", "busy %", "shared %", "full %", "waiting %", "done %", "waits for (cycles)"]
    return table(head, rows, left=(0, 8))


def _memory_table(s: UsageSummary) -> list[str]:
    rows = [[m.name, str(m.read_bytes), str(m.written_bytes), *(f"{b / (s.ms * 1e6):.2f}" if s.ms else "-" for b in (m.read_bytes, m.written_bytes))]
            for m in s.memories]  # fmt: skip
    return table(["memory", "read bytes", "written bytes", "read GB/s", "written GB/s"], rows, left=(0,))


def _resource_table(s: UsageSummary) -> list[str]:
    rows = [[f"{r.name} x {r.instances}" if r.instances > 1 else r.name, str(r.bytes), f"{r.capacity_percent:.1f}"] for r in s.resources]
    return [*table(["resource", "bytes", "of capacity %"], rows, left=(0,)), ""] if rows else []


def _basis(s: UsageSummary) -> Iterator[str]:
    assumed = [b for b in s.constants if b.assumed]
    yield f"rests on {len(s.constants)} numbers of the machine file, {len(assumed)} of them assumed"
    for basis in assumed:
        value = "" if basis.value is None else f" = {basis.value}"
        yield f"  assumed {basis.name}{value}: {basis.source}"
