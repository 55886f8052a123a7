"""An order in which instructions could run one by one, of several streams or of one that stands in the order of its starts: that of the schedule."""

import numpy as np

from toolchain.abi.origins import Origins
from toolchain.isa.program import Ints, Program
from toolchain.schedule.form.schedule import Schedule


def serial_order(program: Program, origins: Origins, schedule: Schedule) -> Ints:
    """int64 [n], indices of instructions, those of each stream in the program's order: group after group of the schedule, and in a group whose tiles
    streams share, one step after the other. Instructions that only pass tokens on stand behind the step before them."""
    if program.machine.interlock and len(np.unique(program.stream[origins.operation >= 0])) < 2:
        return np.arange(len(program), dtype=np.int64)
    numbers = np.full(1 + max(operation.operation for _, operation in schedule.entries()), -1, np.int64)
    for number, (_, operation) in zip(schedule.numbers, schedule.entries(), strict=True):
        numbers[operation.operation] = number
    shared = np.array([bool(group.streams) for group in schedule.groups])
    group = numbers[origins.operation]
    instances, instance = np.unique(origins.instance, return_inverse=True)
    own = np.where(origins.operation >= 0, group * len(instances) + np.where(shared[group], instance, 0), -1)
    if len(np.unique(program.stream[origins.operation >= 0])) < 2:
        return np.argsort(np.where(own < 0, np.maximum.accumulate(own), own), kind="stable")
    key = np.concatenate([np.maximum.accumulate(own[program.stream == stream]) for stream in np.unique(program.stream)])
    return np.argsort(key, kind="stable")
