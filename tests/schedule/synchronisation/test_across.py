"""Barriers: one wait takes the tokens of several streams, only where it can take no others. Streams that meet at events: nothing races,
nothing deadlocks, memory is as in the order given, and no token is for nothing.

Cores that the host stops and starts: what they share is exact, nothing runs across a barrier, and each barrier costs the price of the host."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.laws import assert_leaves, assert_ordered, complaints
from tests.schedule.many_cores import Line, chip, cores_that_never_meet, in_rounds, memory, program, programs, token_pairs, without
from tests.schedule.test_options import cores, exact, random_region, two_convolutions
from toolchain.analysis.state import new_state
from toolchain.emulator import numpy_engine
from toolchain.isa.assembly import assemble
from toolchain.isa.program import Program
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.program import CompiledRegion
from toolchain.schedule.synchronisation.across import stopping_events, synchronise_streams
from toolchain.schedule.synchronisation.synchronise import Synchronised
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

ALL = 0b1111
ROUNDS = st.lists(st.tuples(st.integers(1, ALL), st.integers(1, ALL)), min_size=1, max_size=3)
SHAPES = {"a cluster": (1, 4), "shallow": (1, 4, 3), "few events": (1, 4, 255, 3)}


def amounts(made: Program) -> list[int]:
    """Of every wait for an event."""
    waits = [i for i, kind in enumerate(made.kind.tolist()) if made.machine.instructions[kind].name == "WAIT"]
    return [made.field(i, "amount") for i in waits]


def rounds(machine: Machine, *found: tuple[int, int]) -> list[int]:
    return amounts(derive(machine, in_rounds(4, found)).program)


def test_each_core_of_a_barrier_signals_once_and_waits_once() -> None:
    found = derive(chip(1, 4), in_rounds(4, [(ALL, ALL)]))
    assert amounts(found.program) == [3] * 4
    signals = [text.split()[-1] for text in spelled(found) if "SIGNAL" in text]
    assert signals == [f"{ALL & ~(1 << core):b}" for core in range(4)]


def test_barriers_follow_each_other_on_one_event() -> None:
    """The second round's stores wait for the loads of the first, so nobody posts for the second before all have posted for the first."""
    made = derive(chip(1, 4), in_rounds(4, [(ALL, ALL)] * 3)).program
    waits = [i for i, kind in enumerate(made.kind.tolist()) if made.machine.instructions[kind].name == "WAIT"]
    for stream in range(4):
        own = [(made.field(i, "event"), made.field(i, "amount")) for i in waits if made.stream[i] == stream]
        several = [event for event, amount in own if amount > 1]
        assert len(several) >= 3
        assert all(one == other for one, other in pairwise(several))


def test_tokens_that_could_be_taken_for_others_keep_events_of_their_own() -> None:
    """Cores 0 and 1 store for core 3, core 1 twice: its second token does not wait for core 0's first, so one wait for both would believe it."""
    store, load = "STORE space=llb local=0 remote={}", "LOAD space=llb local=0 remote={} width=2"
    lines = [(0, store.format(0)), (1, store.format(1)), (3, load.format(0)), (2, store.format(4)), (1, store.format(5)), (3, load.format(4))]
    assert amounts(derive(chip(1, 4), lines).program) == [2, 1, 1]


def test_no_event_takes_more_tokens_than_it_holds() -> None:
    assert rounds(chip(1, 4, 2), (ALL, ALL)) == [1] * 12
    assert rounds(chip(1, 4, 3), (ALL, ALL)) == [3] * 4


def test_without_an_event_for_it_pairs_meet_alone() -> None:
    assert rounds(chip(1, 4, 255, 3), (ALL, ALL)) == [1] * 12


@pytest.mark.parametrize("shape", SHAPES)
@given(found=ROUNDS)
@settings(max_examples=8, deadline=None)
def test_nothing_races_and_the_result_is_that_of_the_order_given(shape: str, found: list[tuple[int, int]]) -> None:
    derive(chip(*SHAPES[shape]), in_rounds(4, found))


@given(found=ROUNDS)
@settings(max_examples=8, deadline=None)
def test_every_token_is_missed(found: list[tuple[int, int]]) -> None:
    machine = chip(1, 4)
    made, order = program(machine, in_rounds(4, found))
    synced = synchronise_streams(made, order, memory(machine)).program
    ends = np.flatnonzero(synced.kind == 0)
    for pair in (pair for pair in token_pairs(synced) if pair[2] not in ends):
        assert complaints(without(synced, pair), memory(machine)), pair


def derive(machine: Machine, lines: list[Line], seeds: tuple[int | None, ...] = (None, 1, 2)) -> Synchronised:
    """Synchronises, has the result checked, and runs it in several orders: memory is as after the order given."""
    made, order = program(machine, lines)
    state = memory(machine)
    found = synchronise_streams(made, order, state)
    assert_ordered(found.program, state)
    kept = found.source[found.source >= 0]
    np.testing.assert_array_equal(kept, np.arange(len(made)))
    np.testing.assert_array_equal(made.kind[kept], found.program.kind[found.source >= 0])
    expected = state.copy()
    numpy_engine.run(made, expected, order)
    assert_leaves(found.program, state, expected, seeds)
    return found


CHIPS = {"a cluster": (1, 3), "two clusters": (2, 2), "one event": (1, 3, 255, 1), "few events": (2, 2, 255, 2), "shallow": (2, 2, 1, 16)}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("shape", CHIPS)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_on_no_chip_anything_races_and_the_result_is_that_of_the_order_given(shape: str, data: st.DataObject) -> None:
    machine = chip(*CHIPS[shape])
    derive(machine, data.draw(programs(machine)))


@pytest.mark.parametrize("shape", ["a cluster", "two clusters"])
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_every_token_is_needed(shape: str, data: st.DataObject) -> None:
    machine = chip(*CHIPS[shape])
    found = derive(machine, data.draw(programs(machine, 12)), ()).program
    ends = np.flatnonzero(found.kind == 0)
    inside = [pair for pair in token_pairs(found) if pair[2] not in ends]  # an end comes last in its own queue anyway
    for pair in inside:
        assert complaints(without(found, pair), memory(machine)), pair


def spelled(found: Synchronised) -> list[str]:
    """What was added, by stream: signals with their event and masks, waits with theirs."""
    made, names = found.program, [i.name for i in found.program.machine.instructions]
    texts: list[str] = []
    for i in np.flatnonzero(found.source < 0).tolist():
        name = names[int(made.kind[i])]
        masks = f" {made.field(i, 'clusters'):b} {made.field(i, 'cores'):b}" if name == "SIGNAL" else ""
        texts.append(f"{made.stream[i]} {name} {made.field(i, 'queue')} {made.field(i, 'event')}{masks}")
    return texts


def test_one_signal_reaches_all_that_read_and_none_goes_to_who_knows() -> None:
    """A core fills two lines of L1 of three cores; each adds them, where one wait tells of both."""
    lines = [(0, "LOAD space=ddr local=0 remote=0 cores=1110 width=2"), *((core, "ADD a=0 b=1 target=2 width=1") for core in (1, 2, 3))]
    found = derive(chip(1, 4), lines)
    assert spelled(found) == ["0 SIGNAL 0 0 0 1110", "1 WAIT 3 0", "2 WAIT 3 0", "3 WAIT 3 0"]


def test_cores_of_other_clusters_are_a_rectangle_or_several() -> None:
    written, read = (0, "STORE space=ddr local=0 remote=0"), "LOAD space=ddr local=0 remote=0"
    for readers, masks in (((3, 5, 6, 8), ["110 101"]), ((3, 5, 6), ["10 101", "100 1"]), ((3, 4), ["10 11"]), ((3, 6), ["110 1"])):
        found = derive(chip(3, 3), [written, *((core, read) for core in readers)])
        assert [text.split(maxsplit=4)[4] for text in spelled(found) if "SIGNAL" in text] == masks, readers


def test_what_a_later_relay_says_of_more_still_waits_for_what_the_first_was_told() -> None:
    """The load needs the store through the second core, and what that core's own unit makes: one signal tells of both, behind both waits."""
    lines = [
        (1, "REQUANT acc=3 target=3 params=64 width=1"),
        (0, "STORE space=llb local=2 remote=2"),
        (2, "LOAD space=llb local=3 remote=2 cores=111"),
    ]
    derive(chip(1, 3, 255, 1), lines)


def test_tokens_go_round_by_others_where_events_are_few() -> None:
    """With one event a core hears of its predecessor alone: what the first one stores, the third learns of through the second."""
    found = derive(chip(1, 3, 255, 1), [(0, "STORE space=ddr local=0 remote=0"), (2, "LOAD space=ddr local=1 remote=0")])
    assert spelled(found) == ["0 SIGNAL 0 0 0 10", "1 WAIT 0 0", "1 SIGNAL 0 0 0 100", "2 WAIT 0 0"]


def test_where_two_cores_hold_each_other_up_two_tokens_become_one() -> None:
    """Both store two lines before either loads the other's: of events that hold one token, the second posts wait for takers behind them."""
    stores = [(core, f"STORE space=ddr local={line} remote={2 * core + line}") for core in (0, 1) for line in (0, 1)]
    loads = [(core, f"LOAD space=ddr local={2 + line} remote={2 * (1 - core) + line}") for core in (0, 1) for line in (0, 1)]
    deep, shallow = (derive(chip(1, 2, depth), [*stores, *loads]) for depth in (2, 1))
    events = [sum(name.startswith("event") for name, _, _ in token_pairs(found.program)) for found in (deep, shallow)]
    assert events == [4, 3]


def test_what_a_program_had_is_forgotten() -> None:
    machine, lines = chip(1, 2), [(0, "STORE space=ddr local=0 remote=0"), (1, "LOAD space=ddr local=1 remote=0")]
    made, order = program(machine, [lines[0], (0, "SIGNAL event=3 cores=10"), (1, "WAIT event=3"), lines[1]])
    again = synchronise_streams(made, order, memory(machine)).program
    assert again.streams == derive(machine, lines).program.streams


def test_streams_without_events_are_refused_where_they_meet() -> None:
    machine = cores_that_never_meet()
    moved = "reg=result address=0 ddr_address=0 width=1"
    lines = f".stream 0\nSAVE {moved}\nEND\n.stream 1\nLOAD {moved}\nEND\n.stream 2\nEND"
    made = assemble(machine, Source("test.asm", lines))
    with pytest.raises(
        UserError, match="E0520 unit 'load' of stream 1 must wait for #0 SAVE, and no counters lead there from unit 'save' of stream 0"
    ):
        synchronise_streams(made, np.arange(len(made)), new_state(machine))


@cache
def shared() -> CompiledRegion:
    """Two convolutions, the second of which reads rows that the other core made."""
    return compile_region(cores(), load_kernels(cores()), two_convolutions(), Options(streams=2, timed_streams=False))


def named(compiled: CompiledRegion, name: str) -> list[int]:
    kinds = [instruction.name for instruction in compiled.program.machine.instructions]
    return np.flatnonzero(compiled.program.kind == kinds.index(name)).tolist()


@given(seed=st.integers(0, 1 << 30), steps=st.integers(2, 4))
@settings(max_examples=4, deadline=None)
def test_any_region_is_exact_whoever_runs_its_tiles(seed: int, steps: int) -> None:
    region = random_region(cores(), seed, steps)
    if region is not None:
        try:
            compiled = compile_region(cores(), load_kernels(cores()), region, Options(streams=2, timed_streams=False))
        except UserError as error:
            assert error.diagnostics[0].code in ("E1003", "E1004", "E1008"), error  # noqa: PT017 what a kernel refuses is its own matter
        else:
            assert exact(compiled, cores(), None)
            assert exact(compiled, cores(), 1)


def test_all_units_of_a_core_are_done_when_it_stops_and_none_goes_on_before_it_starts() -> None:
    compiled, (start, end) = shared(), (shared().timeline.result.start, shared().timeline.result.end)
    stops, starts = named(compiled, "STOP"), named(compiled, "START")
    assert len(stops) == len(starts) >= 2
    for stop, go in zip(stops, starts, strict=True):
        mine = np.flatnonzero(compiled.program.stream == compiled.program.stream[stop])
        assert go == stop + 1
        assert (end[mine[mine < stop]] <= start[stop]).all()
        assert (start[mine[mine > go]] >= end[go]).all()
        assert (start[go] + 50 * 330 <= end[go]).all()  # microseconds at 330 MHz


def test_a_region_that_the_host_s_price_would_slow_down_stays_on_one_core() -> None:
    one, two = (compile_region(cores(), load_kernels(cores()), two_convolutions(), Options(streams=count)) for count in (1, 2))
    assert two.cycles == one.cycles < shared().cycles
    assert two.schedule == one.schedule
    assert not named(two, "STOP")


def test_only_what_a_machine_s_file_says_stands_still() -> None:
    assert stopping_events(cores()) is not None
    assert stopping_events(load_machine("stcp920")) is None
