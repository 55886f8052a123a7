"""What instructions know while a plan grows. When instructions of a plan start."""

from tests.schedule.cells import EVERY, cells
from toolchain.isa.sync_tokens import sync_encoding
from toolchain.schedule.synchronisation.plan import ADDED, Durations, Plan, plan_times


def plan(overlaps: str = "") -> Plan:
    machine = cells(EVERY, overlaps=overlaps)
    return Plan(machine, sync_encoding(machine))


def test_a_queue_knows_what_stands_before() -> None:
    serial, early = plan(), plan("a")
    for grown, expected in ((serial, [1, 0, 0]), (early, [0, 0, 0])):
        grown.append(0, 1, 0, grown.next_row(0))
        assert grown.next_row(0) == expected
        assert grown.next_row(1) == [0, 0, 0]


def test_a_token_brings_what_its_poster_knows() -> None:
    grown = plan()
    a = grown.append(0, 1, 0, grown.next_row(0))
    b = grown.append(1, 1, 1, grown.learn(grown.next_row(1), a))
    c = grown.append(2, 1, 2, grown.learn(grown.next_row(2), b))
    assert grown.rows[c] == [1, 1, 0]
    assert grown.knows(c, a)
    assert not grown.knows(a, b)
    assert grown.first_to_know(2, a) == c
    assert grown.first_to_know(0, b) is None


def test_what_is_learnt_late_is_passed_down_the_queue() -> None:
    grown = plan()
    a = grown.append(0, 1, 0, grown.next_row(0))
    members = [grown.append(1 + k, 1, 1, grown.next_row(1)) for k in range(3)]
    grown.teach(members[1], a)
    assert [grown.knows(member, a) for member in members] == [False, True, True]
    assert grown.next_row(1) == [1, 3, 0]


def test_idle_instructions_are_not_the_programs() -> None:
    grown = plan()
    kind = grown.nop(1, "wait", grown.links[0, 1].channel)
    assert kind is not None
    assert grown.machine.instructions[kind].name == "IDLE"
    assert grown.nop(1, "wait", grown.links[1, 0].channel) is not None
    grown.append(ADDED, kind, 1, grown.next_row(1))
    assert grown.source == [-1]


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
