"""Derives a program's synchronisation: every true dependence between units ordered by the machine's counters, and nothing else; also from that of
a program that does the same on other streams."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from toolchain.analysis.dependences import Accesses, Dependences, Needs, accesses_by_memory, find_dependences, no_needs, sweep
from toolchain.analysis.footprints import footprints
from toolchain.analysis.interlock import held_instructions, is_ordered, program_tokens
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State
from toolchain.isa.checks import build_program
from toolchain.isa.encode import encode_streams
from toolchain.isa.footprint.footprints import Footprints, Runs
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Ints, Program
from toolchain.isa.semantics.instances import places
from toolchain.isa.sync_tokens import Moves, SyncEncoding, sync_encoding, sync_tokens
from toolchain.schedule.synchronisation.capacity import fit_counters
from toolchain.schedule.synchronisation.events import Events, find_events
from toolchain.schedule.synchronisation.list_clock import Work
from toolchain.schedule.synchronisation.list_schedule import find_work, is_free, is_limited, is_reordered, list_order, put_in_issue_order
from toolchain.schedule.synchronisation.plan import ADDED, Durations, Plan, durations, ending_kind
from toolchain.schedule.synchronisation.rewrite import reordered, rewritten, without_tokens
from toolchain.schedule.synchronisation.tokens import TokenChoice
from toolchain.spec.model import Machine
from toolchain.spec.model.structure import neighbours
from toolchain.timing.cost import BankPorts, Costs, bank_ports, instruction_costs
from toolchain.timing.simulate import Timeline, time_costs, time_state


def find_turns(prints: Footprints, free: Collection[int]) -> Needs | None:
    """For each instruction of the units `free` before which another unit reads the same elements of a memory with limited ports: the latest one of
    every other unit before it that needs one of its ports. None where there is none. prints: of the program in its order."""
    program, ports = prints.program, bank_ports(prints.program.machine, prints)
    if ports is None or not free:
        return None
    limited = np.array([bool(memory.ports) for memory in program.machine.memories])
    reads = prints.runs.take(limited[prints.runs.memory] & ~prints.runs.write)
    met, same = (_met(program, runs, free) for runs in (_of_ports(ports), reads))
    met[~(same >= 0).any(axis=1)] = -1
    return met if (met >= 0).any() else None


def _of_ports(ports: BankPorts) -> Runs:
    """Each port that an instruction needs as a run of one granule."""
    who = np.repeat(np.arange(len(ports.first) - 1), np.diff(ports.first))
    return Runs(who, np.zeros_like(who), np.zeros(len(who), np.bool_), ports.number, ports.number + 1)


def _met(program: Program, runs: Runs, free: Collection[int]) -> Needs:
    """For each instruction of the free units, the latest of every other unit before it that touches one of its locations."""
    moves, found = np.isin(program.unit, list(free)), no_needs(program)
    for memory in np.unique(runs.memory).tolist():
        own = runs.take(runs.memory == memory)
        sweep(replace(own, write=moves[own.instruction]), program.unit, found)
    found[~moves] = -1
    found[:, list(free)] = -1
    return found


def placed_turns(turns: Needs, order: Ints) -> Needs:
    """The same where the instructions stand in another order, int64 [n]; those of the units that are waited for keep theirs."""
    at = np.append(np.argsort(order), -1)
    return at[turns[order]].astype(turns.dtype)


@dataclass(frozen=True)
class Synchronised:
    """program: with waits and posts. source: int64 [n], each instruction's index in the program given; -1 for one that was added,
    which does nothing but pass tokens on. tokens: how many are posted. timeline: of the program, where it was timed to be chosen."""

    program: Program
    source: Ints
    tokens: int
    timeline: Timeline | None = None


def synchronise(program: Program, state: State, moving: bool = False) -> Synchronised:
    """The program with synchronisation of its own; any that it had between two units is forgotten. Each unit's instructions keep their order, but for
    work on chip that is ready earlier (list_schedule.py). moving: where no queue is short, any work that is ready earlier may move, if the program
    gets quicker.

    The order of a stream must be one in which it could run alone. state: before the program runs, for control memories and
    registers. Signals and waits that name events stay as they are, and are fences: all before a signal is done when it
    is sent, all after a wait comes after it. Raises UserError E0520 where the machine cannot express a wait that is needed.
    """
    found, limited = sync_encoding(program.machine), is_limited(program.machine)
    moves = is_reordered(program.machine) if limited else moving and is_free(program)
    plain, provenance = _ordered(without_tokens(program, found), state, limited or moves)
    if not moves:
        return plain.synchronised(found)
    work = find_work(plain.program, plain.prints.runs, provenance, plain.accesses)
    moved = plain.reordered(found, work)
    turns = find_turns(plain.prints, work.free) if limited else None
    tried = [moved] if limited or moved is plain else [plain, moved]
    tried += [] if turns is None else [plain.reordered(found, work, turns)]
    done = [each.synchronised(found) for each in tried]
    return min(map(_Ordered.timed, tried, done), key=_cycles) if len(done) > 1 else done[0]


@dataclass(frozen=True)
class _Ordered:
    """A program without tokens, with the analyses of it in its order. costs: of its instructions, where the order depends on them. order: int64 [n],
    its instructions by their indices in the program as it was given. turns: whom they wait for beside those that they depend on."""

    program: Program
    state: State
    prints: Footprints
    accesses: Sequence[Accesses]
    costs: Costs | None
    order: Ints
    turns: Needs | None = None

    @cached_property
    def taken(self) -> Durations | None:
        """Cycles of its instructions."""
        return self.costs and durations(self.costs)

    def reordered(self, found: SyncEncoding, work: Work, turns: Needs | None = None) -> "_Ordered":
        """In the order in which its instructions start, where that is quicker; with tokens for these turns."""
        assert self.costs is not None
        assert self.taken is not None
        order = list_order(work, self.taken, turns)
        if not (order[1:] < order[:-1]).any():
            return self if turns is None else replace(self, turns=turns)
        program = reordered(self.program, order, found)
        accesses = [(memory, own.reordered(order)) for memory, own in self.accesses]
        moved = None if turns is None else placed_turns(turns, order)
        prints, costs = self.prints.reordered(program, order), self.costs.reordered(order)
        return _Ordered(program, self.state, prints, accesses, costs, self.order[order], moved)

    def synchronised(self, found: SyncEncoding) -> Synchronised:
        """With tokens. Raises UserError E0520."""
        needs = find_dependences(self.program, self.accesses)
        if self.turns is not None:
            needs = replace(needs, needs=np.maximum(needs.needs, self.turns))
        held = held_instructions(self.program, self.accesses).latest
        done = choose_tokens(self.program, needs, held, found, self.taken if is_limited(self.program.machine) else None)
        return replace(done, source=np.append(self.order, ADDED)[done.source])

    def timed(self, done: Synchronised) -> Synchronised:
        """This program with tokens, and its times. Without added instructions the footprints and costs of all are known. Raises UserError E0501."""
        program = done.program
        if self.costs is None or len(program) != len(self.program):
            return replace(done, timeline=time_state(program, self.state))
        tokens, order = program_tokens(program, self.state), np.argsort(self.order)[done.source]
        issue_order(program, None, tokens)
        return replace(done, timeline=time_costs(self.prints.reordered(program, order), tokens, self.costs.reordered(order)))


def _ordered(plain: Program, state: State, clocked: bool) -> tuple[_Ordered, Provenance]:
    order = np.arange(len(plain))
    provenance = Provenance(plain, state, order)
    prints = footprints(plain, state, order, provenance)
    costs = instruction_costs(plain, prints, provenance) if clocked else None
    return _Ordered(plain, state, prints, list(accesses_by_memory(plain, prints.runs, provenance)), costs, order), provenance


def _cycles(done: Synchronised) -> float:
    assert done.timeline is not None
    return done.timeline.cycles


def choose_tokens(program: Program, dependences: Dependences, held: Needs, known: SyncEncoding, taken: Durations | None = None) -> Synchronised:
    """The program, which has no tokens yet, with those that the dependences call for. held: Held.latest. taken: cycles of its instructions, where
    a counter or a queue holds only so much."""
    signals, holds = _fences(program)
    plans: list[Plan] = []
    for stream in range(program.machine.streams):
        who = np.flatnonzero(program.stream == stream)
        plans.append(_stream_plan(program, dependences, held, known, who, (signals, holds)))
        if taken:
            put_in_issue_order(plans[-1], taken)
        fit_counters(plans[-1], taken)
    result, source = rewritten(program, plans, known)
    return Synchronised(result, source, sum(len(link.posts) for plan in plans for link in plan.links.values() if link.channel.mode != "all_prior"))


def _fences(program: Program) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """bool [n] each: who sends and who awaits an event, a counter of no unit."""
    named = {c.name for c in program.machine.counters if not c.source}
    if not named:
        return np.zeros(len(program), np.bool_), np.zeros(len(program), np.bool_)
    events = sync_tokens(program)
    kept = np.array([counter in named for counter in events.counters], np.bool_)
    return _moving(events.posts, kept), _moving(events.waits, kept)


def _moving(moves: Moves, counters: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """bool [n]: who moves one of these counters."""
    owner = np.repeat(np.arange(len(moves.start) - 1), np.diff(moves.start))
    found = np.zeros(len(moves.start) - 1, np.bool_)
    found[owner[counters[moves.counter]]] = True
    return found


def _stream_plan(
    program: Program, dependences: Dependences, held: Needs, known: SyncEncoding, who: Ints, fences: Sequence[NDArray[np.bool_]]
) -> Plan:
    """The plan of one stream, whose instructions are `who`."""
    plan = Plan(program.machine, known)
    choice, ends = TokenChoice(plan), ending_kind(program.machine)
    original, kinds, units = _list(who), _list(program.kind[who]), _list(program.unit[who])
    signals, holds = (_list(fence[who].astype(np.int64)) for fence in fences)
    at = dict[int, int]()
    hold: list[int] = []
    needs = _rows(_of_others(program, dependences.needs, who))
    behinds = _rows(held[who]) if is_ordered(program.machine) else [()] * len(original)
    for number, index in enumerate(original):
        wanted = [at[need] for need in needs[number] if need >= 0] + hold
        behind = tuple(at[other] for other in behinds[number] if other >= 0)
        fence = None
        if kinds[number] == ends:
            more, fence = end_needs(plan, units[number], dependences.stores)
            wanted += more
        elif signals[number]:
            wanted += [members[-1] for members in plan.members if members]
        at[index] = choice.add(index, kinds[number], units[number], wanted, fence, behind)
        hold = [at[index]] if holds[number] else hold
    return plan


def _list(column: NDArray[np.int64] | NDArray[np.int32]) -> list[int]:
    return column.tolist()


def _of_others(program: Program, needs: Needs, who: Ints) -> Needs:
    """The needs of these instructions without those of their own unit where it takes one after the other."""
    found, units = needs[who], program.unit[who]
    overlaps = np.array([unit.overlaps for unit in program.machine.units])[units]
    found[np.flatnonzero(~overlaps), units[~overlaps]] = -1
    return found


def _rows(needs: Needs) -> Sequence[Sequence[int]]:
    return needs.tolist()


def end_needs(plan: Plan, queue: int, stores: NDArray[np.bool_]) -> tuple[list[int], int | None]:
    """Dependences of a stream's end, and the instruction of its own queue that it waits for by a token where there is a counter:
    an end need not go through the queue of its unit as other instructions do."""
    first, unit = divmod(queue, len(plan.machine.units))
    queues = plan.members[first * len(plan.machine.units) :][: len(plan.machine.units)]
    stored = [next((i for i in reversed(members) if plan.source[i] >= 0 and stores[plan.source[i]]), None) for members in queues]
    own = None if plan.machine.units[unit].overlaps else stored[unit]
    if plan.machine.program.last:
        return [members[-1] for members in queues if members], own
    return [i for i in stored if i is not None], own


@dataclass(frozen=True)
class Solved:
    """A program without tokens, and the same with them."""

    plain: Program
    done: Synchronised

    def serves(self, other: Program) -> bool:
        """Whether another program has the same instructions in the same order, whatever their fields, on as many streams: each alone, or in the same
        places of other instances of the levels above theirs."""
        one, apart = self.plain, np.unique(other.stream - self.plain.stream) if len(other) == len(self.plain) else ()
        if len(apart) != 1 or not (np.array_equal(one.kind, other.kind) and np.array_equal(one.unit, other.unit)):
            return False
        return apart[0] % neighbours(one.machine.levels) == 0 or len(np.unique(one.stream)) == 1


def moved_elsewhere(known: Solved, plain: Program) -> Synchronised:
    """plain: a program that the known one serves.

    The order and the tokens are the known one's: both have the same dependences where tensors are apart and overlap alike, which the checks of the
    finished program do not take for granted."""
    machine, done, source = plain.machine, known.done, known.done.source
    columns = [_column_of(done, plain, kind) for kind in range(len(machine.instructions))]
    first = int(done.program.stream.min()), int(plain.stream.min())
    events = find_events(machine)
    if events:
        _signal_there(machine, events, first, columns[events.signal.kind], source[done.program.kind == events.signal.kind] < 0)
    stream = done.program.stream + first[1] - first[0]
    streams, offset = encode_streams(machine, done.program.kind, stream, columns)
    return Synchronised(build_program(machine, streams, done.program.kind, stream, offset, tuple(columns)), source, done.tokens)


def _column_of(done: Synchronised, plain: Program, kind: int) -> dict[str, Ints]:
    """Tokens as they were, and all other fields of instructions that were not added from the plain program."""
    source = done.source[done.program.kind == kind]
    given = source >= 0
    found = {name: column.copy() for name, column in done.program.columns[kind].items()}
    for described in plain.machine.instructions[kind].fields:
        if described.name in found and described.role != "sync":
            found[described.name][given] = plain.columns[kind][described.name][plain.row[source[given]]]
    return found


def _signal_there(machine: Machine, events: Events, first: tuple[int, int], columns: dict[str, Ints], added: np.typing.NDArray[np.bool_]) -> None:
    """Signals to streams in other instances of the levels above, as far from the new first stream as they were from the old one. first: both."""
    before, here = (places(machine, stream)[0] for stream in first)
    for level in events.levels[:-1]:
        if level.name in events.signal.masks:
            columns[events.signal.masks[level.name]][added] <<= here[level.name] - before[level.name]
