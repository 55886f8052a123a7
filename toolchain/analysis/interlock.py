"""Hardware interlocks: address conflicts that hold an instruction, fences, and instructions that occupy several units.

As counters, each unit of a stream has one of mode ALL_PRIOR that counts its instructions as they complete, so everything that knows counters
obeys the interlock too. Two units that run coupled have one more, which counts begun instructions. A window has one for all units of the
stream: it counts completed instructions without naming them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from toolchain.analysis.dependences import Accesses, Flags, Needs, accesses_by_memory, no_needs, sweep
from toolchain.analysis.footprints import footprints
from toolchain.analysis.state import State
from toolchain.isa.footprint.footprints import Runs, granules
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Ints, Program, queue_table
from toolchain.isa.sync_tokens import ALL_PRIOR, WINDOW, Coupled, Moves, SyncTokens, rows_of_moves, sync_tokens
from toolchain.spec.model import Interlock, Machine, Watch


@dataclass(frozen=True)
class Held:
    """int32 [n, units]: the latest instruction of each unit of the same stream for which the hardware holds an instruction; -1: none.

    done: until that one is done. begun: until it has begun long enough, because the two units run coupled; later than the one in `done`.
    """

    done: Needs
    begun: Needs

    @property
    def latest(self) -> Needs:
        """The later of both: it and all before it in its unit come first."""
        return np.maximum(self.done, self.begun)


def is_ordered(machine: Machine) -> bool:
    """Whether the hardware orders anything without being told."""
    return machine.interlock is not None or any(i.occupies for i in machine.instructions)


def held_instructions(program: Program, accesses: Iterable[Accesses]) -> Held:
    """accesses: of the program executed in its own order (`accesses_by_memory`); looked at only where hardware holds any instruction."""
    held = Held(no_needs(program), no_needs(program))
    if not is_ordered(program.machine):
        return held
    if program.machine.interlock is not None:
        _compare(program, program.machine.interlock, accesses, held)
        _fence(program, program.machine.interlock, held.done)
    _occupy(program, held.done)
    held.begun[held.begun <= held.done] = -1
    return held


def _compare(program: Program, interlock: Interlock, accesses_of: Iterable[Accesses], held: Held) -> None:
    """Conflicts that the interlock sees."""
    machine = program.machine
    blocks = _blocks(machine, interlock)
    watched = [(into, _watched(machine, interlock, coupled)) for into, coupled in ((held.done, False), (held.begun, True))]
    for memory, accesses in accesses_of:
        if any(pairs[memory].any() for _, pairs in watched):
            found = no_needs(program)
            sweep(_coarse(accesses, blocks.get(memory)), program.unit, found)
            for into, pairs in watched:
                np.maximum(into, found, out=into, where=pairs[memory][program.unit])
    if interlock.looks_back:
        for into, _ in watched:
            into[into < np.arange(len(program))[:, None] - interlock.looks_back] = -1


def _watched(machine: Machine, interlock: Interlock, coupled: bool) -> Flags:
    """bool [memories, units, units]: whether an instruction of the first unit waits for those of the second, because of their accesses to a
    memory."""
    units, memories = [u.name for u in machine.units], [m.name for m in machine.memories]
    found = np.zeros((len(memories), len(units), len(units)), np.bool_)
    for watch in interlock.watches:
        for name in watch.memories if (watch.lag is not None) == coupled else ():
            found[memories.index(name), units.index(watch.target), units.index(watch.source)] = True
    return found


def _blocks(machine: Machine, interlock: Interlock) -> Mapping[int, int]:
    """By memory, how many granules the interlock takes for one."""
    sizes = dict(interlock.granularity)
    there = ((k, m, sizes[m.name]) for k, m in enumerate(machine.memories) if m.name in sizes)
    return {k: max(size * m.element.bytes // m.granule, 1) if size else granules(m) for k, m, size in there}


def _coarse(runs: Runs, block: int | None) -> Runs:
    """The accesses as the interlock sees them, in blocks of so many granules."""
    if block is None:
        return runs
    return Runs(runs.instruction, runs.memory, runs.write, runs.start // block, -(-runs.stop // block))


def _fence(program: Program, interlock: Interlock, held: Needs) -> None:
    """A fence comes after the latest of every unit before it in its stream, and everything after it comes after it."""
    fences = np.isin(program.kind, [k for k, i in enumerate(program.machine.instructions) if i.name in interlock.fences])
    if interlock.window == 1:
        fences[:] = True
    if not fences.any():
        return
    opens = np.searchsorted(program.stream, program.stream)
    for unit in range(held.shape[1]):
        mine = program.unit == unit
        held[fences, unit] = _latest_before(mine, opens)[fences]
        np.maximum(held[:, unit], _latest_before(mine & fences, opens), out=held[:, unit])


def _occupy(program: Program, held: Needs) -> None:
    """Order the instructions that occupy a unit, those in other units' queues included."""
    machine, opens = program.machine, np.searchsorted(program.stream, program.stream)
    for unit, its in enumerate(machine.units):
        guest = np.isin(program.kind, [k for k, i in enumerate(machine.instructions) if its.name in i.occupies]) & (program.unit != unit)
        there = guest | (program.unit == unit)
        for own in range(len(machine.units)) if guest.any() else ():
            queued = program.unit == own
            after = there & (~queued | guest if machine.units[own].overlaps else ~queued)
            np.maximum(held[:, own], _latest_before(there & queued, opens), out=held[:, own], where=after)


def _latest_before(chosen: Flags, opens: Ints) -> Ints:
    """For each instruction the latest of the chosen ones before it in its stream, which begins at `opens`; -1: none."""
    number = np.where(chosen, np.arange(len(chosen)), -1)
    latest = np.concatenate([[-1], np.maximum.accumulate(number)[:-1]])[: len(chosen)]
    return np.where(latest >= opens, latest, -1)


Entries = tuple[Ints, Ints, Ints]
"""instruction, counter, amount"""


def program_tokens(program: Program, state: State) -> SyncTokens:
    """The counters that instructions move by their fields, and those of the interlock and of occupied units where the machine has such.

    state: before the program runs. Raises as sync_tokens and footprints do.
    """
    tokens, interlock = sync_tokens(program), program.machine.interlock
    if not is_ordered(program.machine):
        return tokens
    order = np.arange(len(program))
    provenance = Provenance(program, state, order)
    held = held_instructions(program, accesses_by_memory(program, footprints(program, state, order, provenance).runs, provenance))
    counters = _Counters(program, len(tokens.names))
    counters.dependences(held, interlock.watches if interlock else ())
    if interlock and interlock.window:
        counters.window(interlock.window)
    return counters.behind(tokens)


@dataclass
class _Counters:
    """The interlock's counters, numbered from `first` on. A post that nothing waits for is left out."""

    program: Program
    first: int
    names: list[str] = field(default_factory=list[str])
    counters: list[str] = field(default_factory=list[str])
    lag: list[int] = field(default_factory=list[int])
    waits: list[Entries] = field(default_factory=list[Entries])
    posts: list[Entries] = field(default_factory=list[Entries])
    ends: list[Entries] = field(default_factory=list[Entries])

    def _counters(self, names: list[str], lag: int = -1) -> int:
        """The first of new counters: these, of every stream."""
        streams, first = self.program.machine.streams, self.first + len(self.names)
        self.names += [f"{name}{f' of stream {stream}' if streams > 1 else ''}" for stream in range(streams) for name in names]
        self.counters += names * streams
        self.lag += [lag] * (streams * len(names))
        return first

    def dependences(self, held: Held, watches: Sequence[Watch]) -> None:
        """Queue q of the device has counter first + q."""
        program, every, machine = self.program, np.arange(len(self.program)), self.program.machine
        units = [u.name for u in machine.units]
        first, position = self._counters([f"interlock.{name}" for name in units]), queue_table(program.queue, program.queues).position
        self.posts.append((every, first + program.queue, np.ones_like(every)))
        who, unit = np.nonzero(held.done >= 0)
        needed = held.done[who, unit].astype(np.int64)
        self.waits.append((who, first + program.queue[needed], position[needed] + 1))
        for watch in watches:
            source, target = units.index(watch.source), units.index(watch.target)
            who = np.flatnonzero((program.unit == target) & (held.begun[:, source] >= 0)) if watch.lag is not None else every[:0]
            if len(who):
                self._coupled(who, held.begun[who, source].astype(np.int64), source, watch.lag or 0, first, position)

    def _coupled(self, who: Ints, feeding: Ints, source: int, lag: int, done: int, position: Ints) -> None:
        """who: instructions that may start when those that feed them have begun, and end when they are done. done: the first counter of those."""
        program = self.program
        posting = np.flatnonzero(program.unit == source)
        counter = self._counters([f"interlock.{program.machine.units[source].name}.begun"], lag)
        self.posts.append((posting, counter + program.stream[posting], np.ones_like(posting)))
        self.waits.append((who, counter + program.stream[who], position[feeding] + 1))
        self.ends.append((who, done + program.queue[feeding], position[feeding] + 1))

    def window(self, window: int) -> None:
        """The k-th instruction of a stream is issued when no more than window - 1 before it are under way."""
        program, every = self.program, np.arange(len(self.program))
        counter = self._counters([WINDOW])
        done = every - np.searchsorted(program.stream, program.stream) - window + 1
        late = np.flatnonzero(done > 0)
        self.waits.append((late, counter + program.stream[late], done[late]))
        self.posts.append((every, counter + program.stream, np.ones_like(every)))

    def behind(self, tokens: SyncTokens) -> SyncTokens:
        """The tokens with these counters behind them."""
        none = np.full(len(self.names), -1, np.int64)
        depth, initial, mode = (
            np.concatenate(pair) for pair in ((tokens.depth, none), (tokens.initial, none + 1), (tokens.mode, none + 1 + ALL_PRIOR))
        )
        wanted = np.concatenate([part[1] for part in (*self.waits, *self.ends)])
        posts = [(who[kept], counter[kept], amount[kept]) for who, counter, amount in self.posts for kept in [np.isin(counter, wanted)]]
        n, empty = len(self.program), np.zeros(0, np.int64)
        nothing = Moves(np.zeros(n + 1, np.int64), empty, empty)
        moves = [_with(n, old, new, mode) for old, new in ((tokens.waits, self.waits), (tokens.posts, posts), (nothing, self.ends))]
        lag = np.concatenate([np.full(len(tokens.names), -1, np.int64), np.array(self.lag, np.int64)])
        coupled = Coupled(lag, moves[2]) if self.ends else None
        return SyncTokens((*tokens.names, *self.names), (*tokens.counters, *self.counters), depth, initial, mode, moves[0], moves[1], coupled)


def _with(n: int, moves: Moves, more: list[Entries], mode: Ints) -> Moves:
    """The moves of n instructions and more of them, in rows."""
    owner = np.repeat(np.arange(n), np.diff(moves.start))
    instruction, counter, amount = (np.concatenate(parts) for parts in zip((owner, moves.counter, moves.amount), *more, strict=True))
    return rows_of_moves(n, instruction, counter, amount, mode)
