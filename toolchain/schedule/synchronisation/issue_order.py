"""The order in which a stream holds its instructions: where queues or counters are short, that in which they start."""

import numpy as np

from toolchain.isa.program import Program
from toolchain.schedule.synchronisation.plan import Plan, ending_kind
from toolchain.schedule.synchronisation.plan_clock import Durations, plan_times
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
