"""What must hold for a program with derived synchronisation, judged by the checker, which shares no code with what derives."""

from collections.abc import Iterator, Sequence

import numpy as np

from toolchain.analysis.checks import check_program
from toolchain.analysis.clocks import happens_before, sync_faults
from toolchain.analysis.footprints import footprints
from toolchain.analysis.interlock import program_tokens
from toolchain.analysis.order import issue_order, leftovers
from toolchain.analysis.races import UNWRITTEN, Executed, find_hazards
from toolchain.analysis.state import State
from toolchain.emulator import numpy_engine
from toolchain.isa.checks import build_program
from toolchain.isa.encode import encode_streams
from toolchain.isa.program import Ints, Program, queue_table
from toolchain.isa.sync_tokens import POST, WAIT, Moves, sync_encoding, sync_tokens
from toolchain.schedule.synchronisation.rewrite import without_tokens
from toolchain.schedule.synchronisation.synchronise import Synchronised, synchronise
from toolchain.spec.errors import Diagnostic, UserError


def posted(program: Program) -> int:
    """Tokens that a program posts, those of all_prior counters left out."""
    tokens = sync_tokens(program)
    return int(tokens.posts.amount[tokens.mode[tokens.posts.counter] != 2].sum())


def derive(program: Program, state: State, seeds: tuple[int | None, ...] = (None, 1), moves: bool = False) -> Synchronised:
    """Synchronises, has the result checked, and runs it in several orders: memory is as after the original's own order. moves: units may take their
    work in another order."""
    found = synchronise(program, state)
    assert_ordered(found.program, state)
    plain = without_tokens(program, sync_encoding(program.machine))
    assert leftovers(found.program) == leftovers(plain)
    kept = found.source[found.source >= 0]
    np.testing.assert_array_equal(np.sort(kept), np.arange(len(program)))
    assert moves or all((np.diff(kept[program.queue[kept] == queue]) > 0).all() for queue in range(program.queues))
    np.testing.assert_array_equal(program.kind[kept], found.program.kind[found.source >= 0])
    assert found.tokens == posted(found.program) - posted(plain)
    if len(footprints(plain, state, np.arange(len(plain))).faults):
        return found  # addresses off their granule, which no footprint describes
    expected = state.copy()
    numpy_engine.run(program, expected, np.arange(len(program)))
    assert_leaves(found.program, state, expected, seeds)
    return found


def assert_leaves(program: Program, state: State, expected: State, seeds: Sequence[int | None]) -> None:
    """Issued in several orders (None: the earliest ready instruction first), the program leaves the memories of `expected`."""
    tokens = program_tokens(program, state)
    for seed in seeds:
        after = state.copy()
        numpy_engine.run(program, after, issue_order(program, seed, tokens))
        for name, content in expected.memories.items():
            assert np.array_equal(after.memories[name], content), name


def assert_ordered(program: Program, state: State) -> None:
    """No race, no end that comes early, no token lost, whatever else may be wrong with a random program."""
    tokens = program_tokens(program, state)
    order = issue_order(program, None, tokens)
    clocks = happens_before(program, order, tokens)
    assert sync_faults(program, tokens, order, clocks) == []
    position = np.argsort(order)
    prints = footprints(program, state, order)
    found = find_hazards(prints, Executed(order, position, program.queue, queue_table(program.queue, program.queues).position, clocks))
    assert not (found.kind != UNWRITTEN).any()


def pairs_of(found: Synchronised) -> Iterator[tuple[str, int, int]]:
    """(counter, poster, taker) of every token, by their indices in the program that was given; -1 for one that was added."""
    yield from ((name, int(found.source[poster]), int(found.source[taker])) for name, poster, taker in token_pairs(found.program))


def token_pairs(program: Program) -> Iterator[tuple[str, int, int]]:
    """(counter, poster, taker) of every token."""
    tokens = sync_tokens(program)
    for counter, name in enumerate(tokens.names):
        posts, takes = (_movers(moves, counter) for moves in (tokens.posts, tokens.waits))
        yield from ((name, poster, taker) for poster, taker in zip(posts, takes, strict=True))


def _movers(moves: Moves, counter: int) -> list[int]:
    owner: Ints = np.repeat(np.arange(len(moves.start) - 1), np.diff(moves.start))
    found: list[int] = owner[moves.counter == counter].tolist()
    return found


def without(program: Program, counter: str, poster: int, taker: int) -> Program:
    """The program without one of its tokens: two bits less."""
    known = sync_encoding(program.machine)
    columns = [{name: column.copy() for name, column in held.items()} for held in program.columns]
    for action, index in ((POST, poster), (WAIT, taker)):
        kind = int(program.kind[index])
        bit = known.bits[kind, int(program.unit[index]), action, counter]
        columns[kind][bit.field][program.row[index]] -= 1 << bit.bit
    streams, offset = encode_streams(program.machine, program.kind, program.stream, columns)
    return build_program(program.machine, streams, program.kind, program.stream, offset, tuple(columns))


def assert_every_token_counts(program: Program, state: State, pairs: Sequence[tuple[str, int, int]]) -> None:
    """The checker complains as soon as one of these tokens is missing."""
    for pair in pairs:
        assert complaints(without(program, *pair), state), pair


def complaints(program: Program, state: State) -> Sequence[Diagnostic]:
    """What the checker says, errors and warnings."""
    try:
        return check_program(program, state, [m.name for m in program.machine.memories]).warnings
    except UserError as error:
        return error.diagnostics
