"""Which instructions move events, read off the machine's rules; and which event is whose."""

from tests.schedule.cells import EVERY, cells
from tests.schedule.many_cores import chip, cores_that_never_meet
from toolchain.schedule.synchronisation.events import EventPool, find_events
from toolchain.spec.load import load_machine

MTE, MME, VECTOR, UNITS = 0, 1, 3, 4


def test_signals_and_waits_are_found_with_their_fields() -> None:
    machine = load_machine("stcp920")
    found, names = find_events(machine), [i.name for i in machine.instructions]
    assert found is not None
    assert (found.counter, found.count, found.depth) == ("event", 16, 255)
    assert (names[found.signal.kind], names[found.wait.kind]) == ("SIGNAL", "WAIT")
    assert (found.signal.index, dict(found.signal.masks)) == ("event", {"cluster": "clusters", "core": "cores"})
    assert [found.signal.units[unit]["queue"] for unit in range(UNITS)] == [0, 1, 2, 3]
    fields = found.wait.fields(VECTOR, 5, {})
    assert (fields["queue"], fields["event"], fields["amount"], fields["wait"]) == (3, 5, 1, 0)
    signal = found.signal.fields(MME, 2, {"cluster": 0b10, "core": 0b1100})
    assert [signal[name] for name in ("queue", "event", "clusters", "cores", "post")] == [1, 2, 0b10, 0b1100, 0]


def test_a_level_of_one_needs_no_mask() -> None:
    found = find_events(chip(1, 3))
    assert found is not None
    assert dict(found.signal.masks) == {"core": "cores"}


def test_machines_without_events_of_a_stream_have_none() -> None:
    assert find_events(load_machine("vta")) is None
    assert find_events(cores_that_never_meet()) is None
    assert find_events(cells(EVERY, event=True)) is None  # no field says which of the four


def test_each_pair_of_queues_has_an_event_of_its_own_and_a_producer_one_number_where_it_can() -> None:
    machine = chip(1, 4, 255, 4)
    events = find_events(machine)
    assert events is not None
    pool = EventPool(machine, events)
    first, second, third = (pool.open(MTE, core * UNITS + MTE) for core in (1, 2, 3))
    others = [pool.open(core * UNITS + MTE, 1 * UNITS + MTE) for core in (2, 3)]
    assert [channel.event if channel else None for channel in (first, second, third, *others)] == [0, 0, 0, 1, 2]
    assert pool.open(2 * UNITS + MME, 1 * UNITS + MTE) is None  # the last one is the ring's
    assert [(c.source, c.target, c.event) for c in pool.ring([0, 2, 3])] == [(0, 8, 3), (8, 12, 3), (12, 0, 3)]
