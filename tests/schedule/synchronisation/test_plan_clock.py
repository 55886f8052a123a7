"""When instructions of a plan start."""

from tests.schedule.cells import EVERY, cells
from toolchain.isa.sync_encoding import sync_encoding
from toolchain.schedule.synchronisation.plan import ADDED, Plan
from toolchain.schedule.synchronisation.plan_clock import Durations, plan_times


def test_an_instruction_starts_when_its_unit_is_free_and_its_tokens_are_there() -> None:
    machine = cells(EVERY)
    plan = Plan(machine, sync_encoding(machine))
    a, b, c, d = (plan.append(source, 1, unit, plan.next_row(unit)) for source, unit in ((0, 0), (1, 0), (2, 1), (ADDED, 2)))
    plan.links[0, 1].add(a, c)
    plan.links[1, 2].add(c, d)
    times = plan_times(plan, Durations([5, 7, 2], [3, 0, 1]))
    assert times.start == [0, 5, 8, 11]
    assert times.shown == [8, 12, 11, 12]
    plan.reorder([a, c, b, d])
    assert (plan.source, plan.members, plan.links[0, 1].takes) == ([0, 2, 1, ADDED], [[0, 2], [1], [3]], [1])
    assert plan_times(plan, Durations([5, 7, 2], [3, 0, 1])).start == [0, 8, 5, 11]
