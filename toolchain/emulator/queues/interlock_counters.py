"""Interlocks as counters: those for which the hardware holds an instruction, put as the number of instructions that must be done.

Each unit of a stream has a counter of mode ALL_PRIOR that counts its instructions as they complete, so everything that knows counters
obeys the interlock too. A window has one more, for all units of the stream: it says how many instructions are done, not which.
"""

import numpy as np

from toolchain.emulator.dependences import Needs
from toolchain.emulator.footprints.quickest import footprints
from toolchain.emulator.interlock import held_instructions
from toolchain.emulator.state import State
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Ints, Program
from toolchain.isa.queue_table import queue_table
from toolchain.isa.sync_tokens import ALL_PRIOR, Moves, SyncTokens, rows_of_moves, sync_tokens

Entries = tuple[Ints, Ints, Ints]
"""instruction, counter, amount"""


def program_tokens(program: Program, state: State) -> SyncTokens:
    """The counters that instructions move by their fields, and those of the interlock where the machine has one.

    state: before the program runs. Raises what sync_tokens and footprints raise.
    """
    tokens = sync_tokens(program)
    if program.machine.interlock is None:
        return tokens
    order = np.arange(len(program))
    provenance = Provenance(program, state, order)
    return interlocked(program, tokens, held_instructions(program, footprints(program, state, order, provenance).runs, provenance))


def interlocked(program: Program, tokens: SyncTokens, held: Needs) -> SyncTokens:
    """The tokens with the counters of the interlock behind them. held: as held_instructions gives it."""
    machine, first = program.machine, len(tokens.names)
    units, streams = [u.name for u in machine.units], machine.streams
    names = [f"interlock.{unit}{f' of stream {stream}' if streams > 1 else ''}" for stream in range(streams) for unit in units]
    waits, posts = _dependences(program, held, first)
    if machine.interlock and machine.interlock.window:
        more = _window(program, machine.interlock.window, first + len(names))
        waits, posts = _joined(waits, more[0]), _joined(posts, more[1])
        names += [f"interlock.window{f' of stream {stream}' if streams > 1 else ''}" for stream in range(streams)]
    none = np.full(len(names), -1, np.int64)
    depth, initial, mode = (
        np.concatenate([a, b]) for a, b in ((tokens.depth, none), (tokens.initial, none + 1), (tokens.mode, none + 1 + ALL_PRIOR))
    )
    moves = [_with(len(program), old, new, mode) for old, new in ((tokens.waits, waits), (tokens.posts, _wanted(posts, waits)))]
    return SyncTokens((*tokens.names, *names), depth, initial, mode, *moves)


def _dependences(program: Program, held: Needs, first: int) -> tuple[Entries, Entries]:
    """Waits and posts; queue q of the device has counter first + q."""
    position = queue_table(program.queue, program.queues).position
    who, unit = np.nonzero(held >= 0)
    needed = held[who, unit].astype(np.int64)
    every = np.arange(len(program))
    return (who, first + program.queue[needed], position[needed] + 1), (every, first + program.queue, np.ones(len(every), np.int64))


def _window(program: Program, window: int, first: int) -> tuple[Entries, Entries]:
    """The k-th instruction of a stream is issued when no more than window - 1 before it are under way."""
    every = np.arange(len(program))
    done = every - np.searchsorted(program.stream, program.stream) - window + 1
    late = np.flatnonzero(done > 0)
    return (late, first + program.stream[late], done[late]), (every, first + program.stream, np.ones(len(every), np.int64))


def _joined(some: Entries, more: Entries) -> Entries:
    instruction, counter, amount = (np.concatenate(pair) for pair in zip(some, more, strict=True))
    return instruction, counter, amount


def _wanted(posts: Entries, waits: Entries) -> Entries:
    """The posts to counters that something waits for."""
    kept = np.isin(posts[1], waits[1])
    return posts[0][kept], posts[1][kept], posts[2][kept]


def _with(n: int, moves: Moves, more: Entries, mode: Ints) -> Moves:
    owner = np.repeat(np.arange(n), np.diff(moves.start))
    return rows_of_moves(n, *_joined((owner, moves.counter, moves.amount), more), mode)
