"""List scheduling: the order of work in each unit, by the time when it can start, and the order in which a stream holds its instructions.

A unit takes its instructions in order. So where a schedule has one operation after the other, a convolution's first rows are loaded behind the last
rows of the pool before it, and stored behind them, although they were ready long ago. Here such a unit takes, whenever it is free, some of its work
that is ready: that which a unit that keeps its order needs first, or else the first in the program.

Hazards are found in the program's order, and another order is as good if every instruction stays behind all that it conflicts with.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from toolchain.analysis.dependences import Accesses, Needs, find_conflicts, no_needs, sweep
from toolchain.isa.footprint.footprints import Runs
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Ints, Program
from toolchain.isa.sync_tokens import sync_tokens
from toolchain.schedule.synchronisation.list_clock import Followers, Work, followers_of, run_clock, urgency
from toolchain.schedule.synchronisation.plan import Durations, Plan, ending_kind, plan_times
from toolchain.spec.model import Machine


def is_limited(machine: Machine) -> bool:
    """Whether a counter or a queue holds only so much, so that time says which tokens or instructions go into it and when."""
    return any(counter.depth for counter in machine.counters) or any(unit.depth for unit in machine.units)


def is_reordered(machine: Machine) -> bool:
    """Whether a program's one stream stands in the order in which its instructions start."""
    return machine.streams == 1 and is_limited(machine) and not machine.interlock


def is_free(program: Program) -> bool:
    """Whether units may take their work in another order than the program's: it has one stream, and the machine does not go by the order there."""
    return not program.machine.interlock and len(np.unique(program.stream)) == 1


def put_in_issue_order(plan: Plan, known: Durations) -> None:
    """Instructions of a unit keep their order, and so do a poster and its taker; the end of a stream stays last.

    A stream is fetched in order, and stops at an instruction whose queue is full: behind it stand others whose units are idle. Where a machine goes
    by the order of the stream, as an interlock does, it stays.
    """
    if not is_reordered(plan.machine):
        return
    start, last = plan_times(plan, known).start, ending_kind(plan.machine)
    plan.reorder(sorted(range(len(start)), key=lambda index: (plan.kind[index] == last, start[index], index)))


def find_work(program: Program, runs: Runs, provenance: Provenance, accesses: Iterable[Accesses]) -> Work:
    """runs, accesses: the footprints of the program in its own order, which has no tokens and one stream, all and by memory."""
    free = free_units(program, runs, provenance)
    bundles = _bundles(program, provenance, free) if free else [[index] for index in range(len(program))]
    owner = _owner(bundles, len(program))
    unit = program.unit[[bundle[0] for bundle in bundles]]
    pairs = _pairs(program, accesses, free) if free else (np.empty(0, np.int64),) * 2
    return Work(program, free, bundles, owner, unit, _followers(owner, len(bundles), *pairs))


def list_order(work: Work, taken: Durations, turns: Needs | None = None) -> Ints:
    """int64 [n], indices of instructions in the order in which they start, where that is quicker; else their own. taken: cycles of each instruction.
    turns: whom else instructions wait for, of units that keep their order."""
    count = len(work.program)
    if not work.free:
        return np.arange(count, dtype=np.int64)
    if turns is not None:
        work = work.behind(_followers(work.owner, len(work.bundles), *_named(turns)))
    given, moved = (run_clock(work, taken, rank) for rank in (None, urgency(work)))
    if given is None or moved is None or moved.end >= given.end:
        return np.arange(count, dtype=np.int64)
    return np.lexsort((np.arange(count), moved.start[work.owner], work.program.kind == ending_kind(work.program.machine)))


def free_units(program: Program, runs: Runs, provenance: Provenance) -> frozenset[int]:
    """Units whose work may change its order: registers that they read serve one reader each, so that an instruction and those that set its registers
    move as one. None of a program with events, which are fences for the instructions before and behind them. Where queues or counters are short,
    units that reach DRAM keep their order too: they run ahead until those are full, and hold up the work behind them."""
    machine, outside = program.machine, set[int]()
    if _has_events(program):
        return frozenset()
    if is_limited(machine):
        dram = np.array([memory.kind == "dram" for memory in machine.memories])
        outside |= set(program.unit[runs.instruction[dram[runs.memory]]].tolist())
    for memory in machine.memories:
        if memory.latches and not memory.consumed:
            outside |= set(program.unit[provenance.reads(memory.name).instruction].tolist())
            outside |= set(program.unit[provenance.latches(memory.name).instruction].tolist())
    return frozenset(set(program.unit.tolist()) - outside)


def _has_events(program: Program) -> bool:
    """Whether any instruction sends or awaits a signal that no unit's counter stands for."""
    if all(counter.source for counter in program.machine.counters):
        return False
    tokens = sync_tokens(program)
    counters: list[int] = np.unique(np.concatenate([tokens.posts.counter, tokens.waits.counter])).tolist()
    moved = {tokens.counters[counter] for counter in counters}
    return any(counter.name in moved for counter in program.machine.counters if not counter.source)


def _consumed(machine: Machine) -> list[bool]:
    """By memory, whether it is a register whose values serve one reader each."""
    return [bool(memory.latches and memory.consumed) for memory in machine.memories]


def _bundles(program: Program, provenance: Provenance, free: frozenset[int]) -> list[list[int]]:
    """Instructions that stay together, in the program's order: from the first that sets a register of a reader to the reader, within their unit."""
    first = np.arange(len(program))
    for memory in program.machine.memories:
        if memory.latches and memory.consumed:
            reads = provenance.reads(memory.name)
            known = reads.source >= 0
            np.minimum.at(first, reads.instruction[known], reads.source[known])
    opening: list[int] = first.tolist()
    found: list[list[int]] = []
    for unit in np.unique(program.unit).tolist():
        own: list[list[int]] = []
        for index in np.flatnonzero(program.unit == unit).tolist():
            own.append([index])
            while unit in free and len(own) > 1 and own[-1][0] > opening[index] and own[-2][-1] >= opening[index]:
                own[-2:] = [own[-2] + own[-1]]
        found += own
    return sorted(found)


def _owner(bundles: Sequence[Sequence[int]], count: int) -> Ints:
    """int64 [n]: the bundle of each instruction."""
    owner = np.empty(count, np.int64)
    owner[list(chain.from_iterable(bundles))] = np.repeat(np.arange(len(bundles)), [len(bundle) for bundle in bundles])
    return owner


def _pairs(program: Program, every: Iterable[Accesses], free: frozenset[int]) -> tuple[Ints, Ints]:
    """(before, after) of all that must keep their order through everything but the registers of one reader each; of a unit that keeps its order,
    the latest instruction alone."""
    needs, consumed = no_needs(program), _consumed(program.machine)
    accesses = [own for memory, own in every if not consumed[memory]]
    for own in accesses:
        sweep(own, program.unit, needs)
    needs[:, sorted(free)] = -1
    (before, after), (first, second) = _named(needs), find_conflicts(accesses, program.unit, free)
    return np.concatenate([before, first]), np.concatenate([after, second])


def _named(needs: Needs) -> tuple[Ints, Ints]:
    """(before, after) of all needs."""
    who, column = np.nonzero(needs >= 0)
    return needs[who, column].astype(np.int64), who


def _followers(owner: Ints, count: int, before: Ints, after: Ints) -> Followers:
    """The bundles of all that come after the instructions of each."""
    one, other = owner[before], owner[after]
    return followers_of(one[one != other], other[one != other], count)
