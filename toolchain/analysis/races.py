"""Races, reads of unwritten memory and reads whose value is lost: footprints against vector clocks.

For every granule, in the order of execution: each access against the last write before it, and each write against the last
read of every queue since that write. Two accesses that the queues and tokens do not order are a race. The checks run in C over a shadow of every
memory, or in numpy.

A read is lost, and its race harmless, where all results of the instruction go to transient memories and are overwritten there before they are read.
Hardware often reads ahead of knowing whether it needs to: a matrix unit that clears its sums may multiply all the same.
"""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.footprint.footprints import Footprints, Runs, granules
from toolchain.isa.footprint.loop_nest import machine_nests, project
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.footprint.rows import iterations
from toolchain.isa.footprint.text import range_text
from toolchain.isa.footprint.walk import Occurrence
from toolchain.isa.program import Ints, Program
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.loops import value_flows
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec.arrays import Array, distinct
from toolchain.spec.compile import load_checker
from toolchain.spec.errors import Diagnostic
from toolchain.spec.expr import Const

RAW, WAR, WAW, UNWRITTEN = range(4)
BLOCK = 1 << 22
"""Events that are sorted at a time."""


@dataclass(frozen=True)
class Executed:
    """order: as executed. position: its inverse. queue, place: where each instruction stands in which queue.

    clock: int [n, queues], how many of each queue are complete before an instruction starts (toolchain/analysis/clocks.py).
    """

    order: Ints
    position: Ints
    queue: Ints
    place: Ints
    clock: NDArray[np.int32]

    def unordered(self, first: Ints, second: Ints) -> NDArray[np.bool_]:
        """bool: whether `second` may start before `first` is complete."""
        return self.clock[second, self.queue[first]] <= self.place[first]


@dataclass(frozen=True)
class Hazards:
    """One row for each (first, second, kind, memory); start, stop: from the first to the last granule that it concerns.

    kind UNWRITTEN is a read of unwritten memory; its `first` is -1. Sorted by place in the order.
    """

    first: Ints
    second: Ints
    kind: Ints
    memory: Ints
    start: Ints
    stop: Ints

    def __len__(self) -> int:
        return len(self.first)

    def take(self, chosen: NDArray[np.bool_]) -> "Hazards":
        return Hazards(*(getattr(self, name)[chosen] for name in Hazards.__dataclass_fields__))


def find_hazards(prints: Footprints, timeline: Executed) -> Hazards:
    """Every race and every read of unwritten granules, with numpy."""
    runs = prints.runs
    parts: list[Hazards] = []
    for memory in range(len(prints.program.machine.memories)):
        mine = runs.take(runs.memory == memory)
        parts += [_judge(memory, *events, timeline) for events in event_blocks(mine, timeline)]
    return gather(parts, timeline.position)


def gather(parts: Sequence[Hazards], position: Ints) -> Hazards:
    """All rows in one, sorted, those of the same pair, kind and memory joined."""
    columns = [np.concatenate([np.zeros(0, np.int64), *(getattr(p, n) for p in parts)]) for n in Hazards.__dataclass_fields__]
    if not len(columns[0]):
        return Hazards(*columns)
    first, second, kind, memory, start, stop = columns
    early = np.where(first >= 0, position[first], -1)
    rank = np.lexsort((kind, memory, early, position[second]))
    first, second, kind, memory, start, stop = (c[rank] for c in columns)
    heads = np.flatnonzero(np.any([np.diff(c, prepend=-2) != 0 for c in (first, second, kind, memory)], axis=0))
    return Hazards(first[heads], second[heads], kind[heads], memory[heads], np.minimum.reduceat(start, heads), np.maximum.reduceat(stop, heads))


Events = tuple[Ints, Ints, Ints, NDArray[np.bool_]]
"""start, stop, instruction, write of every (elementary segment, access), sorted by (segment, order, reads first)"""


def event_blocks(runs: Runs, timeline: Executed) -> Iterator[Events]:
    """The accesses to one memory, cut at every boundary of a run, about BLOCK events at a time."""
    edges = distinct(np.concatenate([runs.start, runs.stop]))
    low, high = np.searchsorted(edges, runs.start), np.searchsorted(edges, runs.stop)
    if not len(edges):
        return
    depth = np.cumsum(np.bincount(low, minlength=len(edges)) - np.bincount(high, minlength=len(edges)))
    total = np.cumsum(depth)
    first = 0
    while first < len(edges) - 1:
        last = max(int(np.searchsorted(total, (total[first - 1] if first else 0) + BLOCK, "right")), first + 1)
        chosen = np.flatnonzero((low < last) & (high > first)) if last < len(edges) - 1 or first else np.arange(len(runs))
        begin, counts = np.maximum(low[chosen], first), np.minimum(high[chosen], last) - np.maximum(low[chosen], first)
        row = np.repeat(chosen, counts)
        segment = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(begin, counts)
        instruction, write = runs.instruction[row], runs.write[row]
        rank = np.argsort((segment * len(timeline.position) + timeline.position[instruction]) * 2 + write, kind="stable")
        segment = segment[rank]
        yield edges[segment], edges[segment + 1], instruction[rank], write[rank]
        first = last


def _judge(memory: int, start: Ints, stop: Ints, instruction: Ints, write: NDArray[np.bool_], timeline: Executed) -> Hazards:
    count = len(start)
    number = np.arange(count)
    opens = np.maximum.accumulate(np.where(np.diff(start, prepend=-1) != 0, number, 0))
    last = np.concatenate([[-1], np.maximum.accumulate(np.where(write, number, -1))[:-1]])
    written = last >= opens
    closes = np.minimum.accumulate(np.where(np.diff(start, append=-1) != 0, number, count)[::-1])[::-1]
    following = np.minimum.accumulate(np.where(write, number, count)[::-1])[::-1]
    readers = np.flatnonzero(~write & (following <= closes))
    readers = readers[instruction[readers] != instruction[following[readers]]]

    def rows(kind: int, first: Ints, second: Ints) -> Hazards:
        chosen = timeline.unordered(instruction[first], instruction[second])
        if kind == WAR:
            chosen &= _latest(first, second, timeline.queue[instruction], chosen)
        a, b = first[chosen], second[chosen]
        return Hazards(instruction[a], instruction[b], np.full(len(a), kind), np.full(len(a), memory), start[b], stop[b])

    bare = np.flatnonzero(~write & ~written)
    unwritten = Hazards(np.full(len(bare), -1), instruction[bare], np.full(len(bare), UNWRITTEN), np.full(len(bare), memory), start[bare], stop[bare])
    late = np.flatnonzero(written)
    reads, writes = late[~write[late]], late[write[late]]
    return gather(
        [unwritten, rows(RAW, last[reads], reads), rows(WAW, last[writes], writes), rows(WAR, readers, following[readers])], timeline.position
    )


def _latest(first: Ints, second: Ints, queue: Ints, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The last read of each queue among the chosen (read, write) pairs of each write."""
    kept = np.zeros(len(first), np.bool_)
    some = np.flatnonzero(chosen)
    rank = some[np.lexsort((first[some], queue[first[some]], second[some]))]
    final = np.append((np.diff(second[rank]) != 0) | (np.diff(queue[first[rank]]) != 0), True) if len(rank) else np.zeros(0, np.bool_)
    kept[rank[final]] = True
    return kept


class _Record(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int64) for name in Hazards.__dataclass_fields__)


class _Task(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("n", "queues", "memories")),
        *((name, ctypes.c_void_p) for name in ("order", "first", "memory", "start", "stop", "queue", "place", "granules", "write", "clock")),
        ("records", ctypes.POINTER(_Record)),
        ("count", ctypes.c_int64),
    )


def hazards(prints: Footprints, timeline: Executed) -> Hazards:
    """Every race and every read of unwritten granules: in C where there is a compiler, else with numpy. Raises MemoryError."""
    library = load_checker("hazards")
    return find_hazards(prints, timeline) if library is None else _native(library, prints, timeline)


def _native(library: ctypes.CDLL, prints: Footprints, timeline: Executed) -> Hazards:
    machine, runs = prints.program.machine, prints.runs
    sizes = np.array([granules(m) * machine.instances(m.scope) if m.kind != "register" else 0 for m in machine.memories], np.int64)
    arrays: dict[str, Array] = {
        "order": timeline.order, "first": prints.first, "memory": runs.memory, "start": runs.start, "stop": runs.stop,
        "queue": timeline.queue, "place": timeline.place, "granules": sizes,
        "write": runs.write, "clock": timeline.clock,
    }  # fmt: skip
    kinds = {"write": np.uint8, "clock": np.int32}
    held = {name: np.ascontiguousarray(array, kinds.get(name, np.int64)) for name, array in arrays.items()}
    pointers = [held[name].ctypes.data for name in arrays]
    task = _Task(len(timeline.order), timeline.clock.shape[1], len(sizes), *pointers, None, 0)
    if library.hazards(ctypes.byref(task)):
        raise MemoryError("the hazard check needs more memory than there is")
    count = int(task.count)
    table = (
        np.ctypeslib.as_array(ctypes.cast(task.records, ctypes.POINTER(ctypes.c_int64)), (count, 6)).copy() if count else np.zeros((0, 6), np.int64)
    )
    library.hazards_free(ctypes.byref(task))
    return gather([Hazards(*(np.ascontiguousarray(column) for column in table.T))], timeline.position)


TOLERATED = {
    "E0601": ("race", "races"),
    "E0602": ("read of what nothing has written", "reads of what nothing has written"),
    "E0612": ("instruction that meets its own results too soon", "instructions that meet their own results too soon"),
}


def soundness(tolerated: Mapping[str, int]) -> str:
    """Findings of checks that only warn. tolerated: by code, hazards that the machine's file calls warnings."""
    named = [f"{count} {TOLERATED[code][count > 1]}" for code, count in sorted(tolerated.items()) if count]
    race = [] if tolerated.get("E0601") else ["no race"]
    held = [f"{' and '.join(named)} that the machine's file calls {'warnings' if sum(tolerated.values()) > 1 else 'a warning'}"] if named else []
    return ", ".join(["no deadlock", *race, "every address in range", *held])


def hazard_code(kind: int) -> str:
    """The code of a row of Hazards."""
    return "E0602" if kind == UNWRITTEN else "E0601"


def hazard_diagnostic(prints: Footprints, found: Hazards, row: int) -> Diagnostic:
    """E0601 for a race, E0602 for a read of unwritten memory; as severe as the memory says."""
    program, number = prints.program, int(found.memory[row])
    memory = program.machine.memories[number]
    where = range_text(program.machine, number, int(found.start[row]), int(found.stop[row]), memory.name in prints.alike)
    first, second, kind = int(found.first[row]), int(found.second[row]), int(found.kind[row])
    later = program.label(second)
    if kind == UNWRITTEN:
        return Diagnostic("E0602", f"{later} reads {where}, which nothing has written", severity=memory.hazard)
    earlier = program.label(first)
    did, does, name = {
        RAW: ("writes", "reads", "read after write"),
        WAR: ("reads", "writes", "write after read"),
    }.get(kind, ("writes", "writes", "write after write"))
    message = f"race on {where}: {earlier} {did} it, {later} {does} it, and nothing orders them ({name})"
    return Diagnostic("E0601", message, hint=_missing(program, first, second), severity=memory.hazard)


def _missing(program: Program, first: int, second: int) -> str:
    a, b = _queue(program, first), _queue(program, second)
    if a == b:
        return f"{a} overlaps its instructions: it needs a token to itself between them"
    return f"a token from {a} to {b} is missing, posted by #{first} or later and taken by #{second} or earlier"


def _queue(program: Program, index: int) -> str:
    unit = program.machine.units[int(program.unit[index])].name
    return f"{unit} of stream {int(program.stream[index])}" if program.machine.streams > 1 else unit


def relevant(prints: Footprints, found: Hazards, preset: frozenset[str]) -> Hazards:
    """Without unwritten reads of DRAM, of memories that start as zeros or that the host has filled, nor those that may follow from a bad address."""
    memories = prints.program.machine.memories
    filled = [i for i, m in enumerate(memories) if m.kind == "dram" or m.zeroed or (m.name in preset and not m.transient) or len(prints.faults)]
    kept = ~((found.kind == UNWRITTEN) & np.isin(found.memory, filled))
    return found.take(kept)


def lost_reads(prints: Footprints, provenance: Provenance, timeline: Executed, found: Hazards) -> NDArray[np.bool_]:
    """bool [runs]: the reads whose value is lost, of all instructions of such kinds, and from such memories, as hazards are about.

    A hazard names the last reader of a queue, so all readers of its kind are looked at: a lost read may stand before one that matters.
    """
    rows, runs, kinds = np.flatnonzero(found.kind != WAW), prints.runs, prints.program.kind
    reader = np.where(found.kind == WAR, found.first, found.second)[rows]
    look, lost = _Look(prints, provenance, timeline), np.zeros(len(runs), np.bool_)
    for kind, memory in np.unique(np.stack([kinds[reader], found.memory[rows]], 1), axis=0).tolist():
        reads = np.flatnonzero(~runs.write & (runs.memory == memory) & (kinds[runs.instruction] == kind))
        readers = runs.instruction[reads]
        lost[reads] = ~np.isin(readers, look.used(kind, memory, np.unique(readers)))
    return lost


@dataclass(frozen=True)
class _Look:
    prints: Footprints
    provenance: Provenance
    timeline: Executed

    def used(self, kind: int, memory: int, readers: Ints) -> Ints:
        """Readers, all of one kind, whose results rest on the memory's values and may be read later."""
        machine = self.prints.program.machine
        name = machine.instructions[kind].name
        written = value_flows(machine_semantics(machine)[name]).get(machine.memories[memory].name)
        if written is None or machine.memories[memory].control:
            return readers
        found = [np.zeros(0, np.int64)]
        for nest in machine_nests(machine)[name]:
            target = nest.occurrence.target
            if nest.occurrence.kind == "write" and isinstance(target, ir.Access) and target.number in written:
                found.append(self._outlives(target.view.memory, self._happening(nest.occurrence, kind, readers)))
        return np.unique(np.concatenate(found))

    def _happening(self, occurrence: Occurrence, kind: int, instructions: Ints) -> Ints:
        """Instructions that reach this access."""
        program, machine = self.prints.program, self.prints.program.machine
        alone = project(machine, replace(occurrence, index=(Const(0),), at=()), self.prints.alike)
        frame = self.provenance.rows(kind).frame(program.row[instructions])
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(part.instructions for part in iterations(frame, alone.path))]))

    def _outlives(self, memory: str, writers: Ints) -> Ints:
        """Writers with a granule that outlives the program or is not overwritten whole by its next access."""
        machine, runs = self.prints.program.machine, self.prints.runs
        if machine.memory[memory].control or not machine.memory[memory].transient:
            return writers
        number, found = machine.memories.index(machine.memory[memory]), [np.zeros(0, np.int64)]
        for start, _, who, write in event_blocks(runs.take(runs.memory == number), self.timeline):
            last = np.append(np.diff(start) != 0, True)
            over = np.append(write[1:] & self._whole[number, self.prints.program.kind[who[1:]]], False)
            read = np.append(False, (who[1:] == who[:-1]) & ~last[:-1])
            mine = write & np.isin(who, writers)
            found.append(who[mine & ~((last | over) & ~read)])
        return np.unique(np.concatenate(found))

    @cached_property
    def _whole(self) -> NDArray[np.bool_]:
        """bool [memories, kinds]: whether each write of an instruction to a memory writes every lane of its element."""
        machine = self.prints.program.machine
        partial = set(_partial(self.prints))
        return np.array([[(m.name, i.name) not in partial for i in machine.instructions] for m in machine.memories])


def _partial(prints: Footprints) -> Iterator[tuple[str, str]]:
    """(memory, instruction) of every write to some lanes only."""
    for name, nests in machine_nests(prints.program.machine).items():
        for nest in nests:
            target = nest.occurrence.target
            if nest.occurrence.kind == "write" and isinstance(target, ir.Access) and not _all_lanes(target):
                yield target.view.memory, name


def _all_lanes(access: ir.Access) -> bool:
    """Whether every lane has a loop of its own."""
    return access.lanes is None or len({lane for lane in access.lanes if isinstance(lane, str)}) == len(access.lanes)
