"""From a plan to its program: slots that go round, steps in order, tensors in DRAM, instructions; and a compiled region, with an order in which the
instructions of all streams could run one by one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from graphlib import TopologicalSorter
from itertools import pairwise

import numpy as np

from toolchain.abi.dram_map import DramMap
from toolchain.analysis.checks import Checked
from toolchain.analysis.state import State
from toolchain.isa.program import BRING, Ints, Origins, Program
from toolchain.schedule.dram_allocation import PlacedRegion, place_region
from toolchain.schedule.emit import Emitted, Sequenced, emit, plan_constants, pool_kernel, together
from toolchain.schedule.form.bringing import StreamStep, with_bringing, with_named_bringing
from toolchain.schedule.form.plan import Plan, Schedule
from toolchain.schedule.form.shares import team_of, teams
from toolchain.schedule.regions.region import Region
from toolchain.schedule.rows.row_group import RowGroup
from toolchain.schedule.tiling.order import Instance, order_dealt, order_dealt_tiles, order_group, order_tiles
from toolchain.schedule.tiling.order import Placed as PlacedStep
from toolchain.schedule.tiling.slots import Ring, Rotation, find_rings
from toolchain.schedule.tiling.tile_group import TileGroup
from toolchain.schedule.tiling.tiles import Planned
from toolchain.schedule.writer import OperationPart, part_of
from toolchain.spec.arrays import Array
from toolchain.spec.model import Machine
from toolchain.timing.simulate import Timeline, time_state


def serial_order(program: Program, origins: Origins, schedule: Schedule) -> Ints:
    """int64 [n], indices of instructions, those of each stream in the program's order: group after group of the schedule, and in a group whose tiles
    streams share, or whose copies take loads at once, one step after the other. Instructions that only pass tokens on stand behind the step before
    them."""
    if program.machine.interlock and len(np.unique(program.stream[origins.operation >= 0])) < 2:
        return np.arange(len(program), dtype=np.int64)
    numbers = np.full(1 + max(operation.operation for _, operation in schedule.entries()), -1, np.int64)
    for number, (_, operation) in zip(schedule.numbers, schedule.entries(), strict=True):
        numbers[operation.operation] = number
    shared = np.array([bool(group.streams) for group in schedule.groups])
    group, instance = numbers[origins.operation], np.unique(origins.instance, return_inverse=True)[1]
    alike = _turns(program, origins) if schedule.multicast else np.zeros(len(program), np.int64)
    turn = np.where(shared[group], instance, alike)
    for number in (number for number, each in enumerate(schedule.groups) if each.streams and len(each.operations) > 1):
        mine = np.flatnonzero((group == number) & (origins.operation >= 0))
        turn[mine] = _joint_turns(program.stream[mine], origins.operation[mine], instance[mine])
    own = np.where(origins.operation >= 0, group * (1 + turn.max(initial=0)) + turn, -1)
    if len(np.unique(program.stream[origins.operation >= 0])) < 2:
        return np.argsort(np.where(own < 0, np.maximum.accumulate(own), own), kind="stable")
    key = np.concatenate([np.maximum.accumulate(own[program.stream == stream]) for stream in np.unique(program.stream)])
    return np.argsort(key, kind="stable")


def _joint_turns(stream: Ints, operation: Ints, instance: Ints) -> Ints:
    """int64 [n]: the place of each instruction's step among those of a group that streams share. Steps of a stream stay in its order, and those of an
    operation in theirs, since a load may serve streams that use it in a later step. All int64 [n], in the order of the program."""
    steps, number = np.unique(np.stack([operation, instance]), axis=1, return_inverse=True)
    before: dict[int, list[int]] = {k: [k - 1] if k and steps[0, k] == steps[0, k - 1] else [] for k in range(steps.shape[1])}
    for each in np.unique(stream):
        own, first = np.unique(number[stream == each], return_index=True)
        in_turn: list[int] = own[np.argsort(first)].tolist()
        for earlier, later in pairwise(in_turn):
            before[later].append(earlier)
    found = np.zeros(len(before), np.int64)
    found[list(TopologicalSorter(before).static_order())] = np.arange(len(before))
    return found[number]


def _turns(program: Program, origins: Origins) -> Ints:
    """int64 [n]: the number of steps that are no loads so far, of streams that have these in common, three times; between two of them stand the steps
    that bring tiles to a memory which streams share, then the loads, which may be of a tile that another stream brings."""
    found, load, bring = np.zeros(len(program), np.int64), origins.does("load"), origins.does(BRING)
    for stream in np.unique(program.stream):
        steps = np.flatnonzero((program.stream == stream) & (origins.operation >= 0) & ~(load | bring))
        named = np.stack([origins.operation[steps], origins.step[steps], origins.instance[steps]])
        begins = np.append(True, (named[:, 1:] != named[:, :-1]).any(axis=0))[: len(steps)]
        count = np.zeros(len(program), np.int64)
        count[steps[begins]] = 1
        mine = program.stream == stream
        found[mine] = 3 * np.cumsum(count[mine])
    return found + bring + 2 * load


@dataclass(frozen=True)
class CompiledRegion:
    """schedule: the one that the program follows. program: synchronised. listing: the purpose of each instruction, for a reader; empty for one that
    only passes tokens.

    origins: the operation and step that each instruction belongs to. constants: bytes by segment.
    peak: elements of each bank of each on-chip memory that are used, at most.
    """

    region: Region
    schedule: Schedule
    program: Program
    listing: tuple[str, ...]
    origins: Origins
    map: DramMap
    constants: Mapping[str, bytes]
    checked: Checked
    timeline: Timeline
    peak: Mapping[str, int]

    @cached_property
    def order(self) -> Ints:
        """int64 [n], an order in which instructions could run one by one. It is that in which the schedule has the operations, so executed in it, an
        operation is done after the last instruction that is its own: until another one takes the room of its result, the result can be read then."""
        return serial_order(self.program, self.origins, self.schedule)

    @property
    def owner(self) -> Ints:
        """int64 [n], the operation (index in region.operations) that each instruction belongs to, -1 for none."""
        return self.origins.operation

    @property
    def cycles(self) -> float:
        return self.timeline.cycles

    def state(self, inputs: Mapping[str, Array]) -> State:
        """A new state with everything in DRAM that the program reads; inputs: host tensors [batch, channels, height, width] by name."""
        state = self.map.state(self.program.machine, self.constants)
        self.map.write(self.program.machine, state, inputs)
        return state

    def result(self, state: State, tensor: str) -> Array:
        """A host tensor [batch, channels, height, width] out of a state."""
        return self.map.read(self.program.machine, state, tensor)


Dealt = tuple[int, PlacedStep]
"""A step and the stream that runs it."""


@dataclass(frozen=True)
class Steps:
    """parts: the steps of every operation. sequence: those of all in the order in which they could run one by one. dealt: the stream of each, where
    there are several."""

    parts: Sequence[OperationPart]
    sequence: Sequenced
    dealt: Sequence[int] | None = None


def turned(plan: Plan) -> Plan:
    """The plan with slots that go round their memories from operation to operation."""
    rotation, tilings = Rotation(), list(plan.tilings)
    for members, group in plan.runs():
        if not isinstance(group, RowGroup):
            tilings[members.start : members.stop] = rotation.turn([(plan.problems[i], tilings[i]) for i in members])
    return replace(plan, tilings=tilings)


def write_program(machine: Machine, plan: Plan, steps: Steps) -> tuple[PlacedRegion, Emitted]:
    """Copies have the same instructions, but for addresses where these are absolute. Raises UserError E1004, E1005, E1007, and all of `emit`."""
    residency = plan_constants(machine, steps.parts, steps.sequence)
    kernel = pool_kernel(steps.parts)
    view = kernel.loading.view if kernel and kernel.loading else ""
    placed = place_region(machine, plan.region, plan.problems, plan.dram, (view, residency.pool), plan.copies)
    state = state_before(machine, placed)
    if plan.multicast:
        return placed, together(_teams(machine, plan, steps, placed, state), 0)
    written: list[Emitted] = []
    for number, scopes in enumerate(placed.scopes):
        dealt = [stream + number * plan.copies.streams for stream in steps.dealt] if steps.dealt else None
        if number and not dealt and scopes == placed.scopes[0]:
            written.append(written[0])
        else:
            known = written[0].solved if written else None
            written.append(emit(machine, steps.parts, steps.sequence, residency, scopes, state, dealt, plan.barriers, known))
    return placed, written[0] if len(written) == 1 else together(written, 0 if steps.dealt else plan.copies.streams)


def _teams(machine: Machine, plan: Plan, steps: Steps, placed: PlacedRegion, state: State) -> list[Emitted]:
    """The programs of copies that share loads."""
    written: list[Emitted] = []
    streams = plan.copies.streams
    each = list(zip(steps.sequence, steps.dealt or [0] * len(steps.sequence), strict=True))
    for copies in teams(machine, plan.copies):
        scopes = placed.scopes[copies.start : copies.stop]
        team = team_of(machine, copies.start * streams, streams, steps.parts, each, scopes)
        known = written[0].solved if written else None
        made = emit(machine, team.parts, team.sequence, team.residency, team.scopes, state, team.dealt, plan.barriers, known)
        written.append(replace(made, origins=team.of_one(made.origins, len(steps.parts))))
    return written


def state_before(machine: Machine, placed: PlacedRegion) -> State:
    """The state before the program of a region runs, to be read only: searches share it."""
    return _state(_Image(machine, placed.map, placed.constants))


def ordered_steps(plan: Plan, rings: Mapping[str, Ring]) -> Steps:
    """The steps of a plan for one stream. rings: memories that are filled round and round."""
    placed = ([(0, item) for item in _order(_own(plan, members), group, rings)] for members, group in plan.runs())
    return replace(_steps(plan, placed), dealt=None)


def dealt_steps(plan: Plan) -> Steps:
    """The steps of a plan whose work several streams share."""
    rings = {stream: find_rings(plan.problems) for stream in sorted({0, *(share.stream for shares in plan.shares.values() for share in shares)})}
    placed: list[list[Dealt]] = []
    for number, (members, group) in enumerate(plan.runs()):
        own, shares = _own(plan, members), plan.shares.get(number)
        if shares and isinstance(group, TileGroup):
            last = own[-1][1]
            placed.append(order_dealt_tiles(own, group.tiles(last.sizes, last.order), group.roots, shares, rings))
        else:
            placed.append(order_dealt(*own[0], shares, rings) if shares else [(0, item) for item in _order(own, group, rings[0])])
    return _steps(plan, placed)


def _own(plan: Plan, members: range) -> list[Planned]:
    return [(plan.problems[i], plan.tilings[i]) for i in members]


def _steps(plan: Plan, placed: Iterable[Sequence[Dealt]]) -> Steps:
    """placed: the steps of each group in their order, with their streams."""
    steps: list[list[Instance]] = [[] for _ in plan.problems]
    brings: list[list[bool]] = [[] for _ in plan.problems]
    runs = zip(plan.runs(), placed, strict=True)
    given = [StreamStep(members[member], stream, item) for (members, _), own in runs for stream, (member, item) in own]
    sequence, dealt = list[tuple[int, int]](), list[int]()
    for number, stream, item, first in with_bringing(plan.problems, given):
        sequence.append((number, len(steps[number])))
        steps[number].append(item)
        brings[number].append(first)
        dealt.append(stream)
    parts = [part_of(problem, each) for problem, each in zip(plan.problems, steps, strict=True)]
    return Steps(with_named_bringing(parts, brings), sequence, dealt)


def _order(members: Sequence[Planned], group: RowGroup | TileGroup | None, rings: Mapping[str, Ring]) -> list[PlacedStep]:
    """The steps of a group's members."""
    if isinstance(group, TileGroup):
        last = members[-1][1]
        return order_tiles(members, group.tiles(last.sizes, last.order), group.roots, rings)
    turns = group.turns_with([problem for problem, _ in members]) if group else None
    return order_group(members, turns, rings, group.loads if group else ())


def time_emitted(machine: Machine, placed: PlacedRegion, emitted: Emitted) -> Timeline:
    """The times of a program that `write_program` wrote; its hazards are not looked for."""
    if emitted.timeline is not None:
        return emitted.timeline
    return time_state(emitted.program, state_before(machine, placed))


@dataclass(frozen=True, slots=True, eq=False)
class _Image:
    """Constants in DRAM, compared by content. The machine is compared by identity: one never changes."""

    machine: Machine
    map: DramMap
    constants: Mapping[str, bytes]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Image):
            return NotImplemented
        return self.machine is other.machine and self.map == other.map and self.constants == other.constants

    def __hash__(self) -> int:
        return hash((id(self.machine), self.map.memory, tuple(self.map.segments)))


@lru_cache(maxsize=2)
def _state(image: _Image) -> State:
    """The programs that a search times have the same constants, mostly in the same places. The last is not always the one that a build then emits."""
    return image.map.state(image.machine, image.constants)
