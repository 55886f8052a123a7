"""An order in which instructions could run one by one, of several streams or of one that stands in the order of its starts: that of the schedule."""

import numpy as np

from toolchain.abi.origins import Origins
from toolchain.isa.program import Ints, Program
from toolchain.schedule.form.schedule import Schedule


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
    own = np.where(origins.operation >= 0, group * (1 + turn.max(initial=0)) + turn, -1)
    if len(np.unique(program.stream[origins.operation >= 0])) < 2:
        return np.argsort(np.where(own < 0, np.maximum.accumulate(own), own), kind="stable")
    key = np.concatenate([np.maximum.accumulate(own[program.stream == stream]) for stream in np.unique(program.stream)])
    return np.argsort(key, kind="stable")


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
