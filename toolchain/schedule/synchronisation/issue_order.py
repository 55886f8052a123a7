"""The order in which a stream holds its instructions: where queues or counters are short, that in which they start."""

from toolchain.schedule.synchronisation.plan import Plan
from toolchain.schedule.synchronisation.plan_clock import Durations, plan_times


def put_in_issue_order(plan: Plan, known: Durations) -> None:
    """Instructions of a unit keep their order, and so do a poster and its taker; the end of a stream stays last.

    A stream is fetched in order, and stops at an instruction whose queue is full: behind it stand others whose units are idle. Where a machine goes
    by the order of the stream, as an interlock does, it stays.
    """
    if plan.machine.interlock:
        return
    start, last = plan_times(plan, known).start, [i.name for i in plan.machine.instructions].index(plan.machine.program.ends)
    plan.reorder(sorted(range(len(start)), key=lambda index: (plan.kind[index] == last, start[index], index)))
