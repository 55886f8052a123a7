"""Interlocks as counters: those for which the hardware holds an instruction, put as the number of instructions that must be done.

Each unit of a stream has a counter of mode ALL_PRIOR that counts its instructions as they complete, so everything that knows counters
obeys the interlock too. Two units that run coupled have one more, which counts what has begun. A window has one for all units of the
stream: it says how many instructions are done, not which.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from toolchain.analysis.footprints import footprints
from toolchain.analysis.interlock import Held, held_instructions, is_ordered
from toolchain.analysis.state import State
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Ints, Program
from toolchain.isa.queue_table import queue_table
from toolchain.isa.sync_tokens import ALL_PRIOR, WINDOW, Coupled, Moves, SyncTokens, rows_of_moves, sync_tokens
from toolchain.spec.model import Watch

Entries = tuple[Ints, Ints, Ints]
"""instruction, counter, amount"""


def program_tokens(program: Program, state: State) -> SyncTokens:
    """The counters that instructions move by their fields, and those of the interlock and of occupied units where the machine has such.

    state: before the program runs. Raises what sync_tokens and footprints raise.
    """
    tokens, interlock = sync_tokens(program), program.machine.interlock
    if not is_ordered(program.machine):
        return tokens
    order = np.arange(len(program))
    provenance = Provenance(program, state, order)
    held = held_instructions(program, footprints(program, state, order, provenance).runs, provenance)
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
