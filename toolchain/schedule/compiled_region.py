"""A region of a model as one program: its instructions, the operation that each belongs to, the contents of DRAM, and an order in which the
instructions of all streams could run one by one."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from itertools import pairwise

import numpy as np

from toolchain.abi.dram_map import DramMap
from toolchain.abi.origins import Origins
from toolchain.analysis.checks import Checked
from toolchain.analysis.state import State
from toolchain.isa.program import Ints, Program
from toolchain.schedule.form.schedule import Schedule
from toolchain.schedule.regions.region import Region
from toolchain.spec.arrays import Array
from toolchain.timing.simulate import Timeline


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
    """int64 [n]: the number of steps that are no loads so far, of streams that have these in common, twice; a load stands between two of them."""
    found, load = np.zeros(len(program), np.int64), origins.does("load")
    for stream in np.unique(program.stream):
        steps = np.flatnonzero((program.stream == stream) & (origins.operation >= 0) & ~load)
        named = np.stack([origins.operation[steps], origins.step[steps], origins.instance[steps]])
        begins = np.append(True, (named[:, 1:] != named[:, :-1]).any(axis=0))[: len(steps)]
        count = np.zeros(len(program), np.int64)
        count[steps[begins]] = 1
        mine = program.stream == stream
        found[mine] = 2 * np.cumsum(count[mine])
    return found + load


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
