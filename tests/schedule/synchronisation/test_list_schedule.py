"""A stream whose queues are short holds its instructions in the order in which they start. Units take their work as it gets ready, those that
reach DRAM where no queue is short, and the results are those of the program's own order."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.random_programs import random_program, random_state
from tests.schedule.cells import EVERY, Op, cells, copies, memory, program
from tests.schedule.laws import assert_leaves, assert_ordered, derive
from tests.schedule.test_programs import SMALL
from tests.targets.dpuv3_operations import kernel, machine
from tests.targets.test_dpuv3_kept import SLOTS, Buffer, kept_of, last_rows
from toolchain.analysis.checks import prepare_program
from toolchain.analysis.dependences import accesses_by_memory
from toolchain.analysis.footprints import footprints
from toolchain.analysis.state import State, new_state
from toolchain.emulator import numpy_engine
from toolchain.isa.assembly import assemble
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Program
from toolchain.schedule.compile_operation import emit_alone, pack_tensors
from toolchain.schedule.kernels.problem import keep_on_chip, state_problem
from toolchain.schedule.synchronisation.list_clock import Followers
from toolchain.schedule.synchronisation.list_schedule import find_work, free_units, list_order
from toolchain.schedule.synchronisation.plan import durations
from toolchain.schedule.synchronisation.synchronise import Synchronised, synchronise
from toolchain.schedule.tiling.tiles import rank_tilings
from toolchain.spec.errors import Source
from toolchain.spec.load import load_machine
from toolchain.timing.cost import instruction_costs
from toolchain.timing.simulate import time_program, time_state

A, B, C = range(3)

FAR = [Op(A, 0, k) for k in (1, 2, 3, 4)] + [Op(B, k, 5 + k) for k in (9, 1, 2, 3)]
"""Four instructions of a, then four of b, the first of which needs none of them."""

ON_CHIP = cells(EVERY, depth=8, kind="scratchpad")
OUTSIDE = cells(EVERY, depth=8)
BEHIND = [Op(A, 15, 1), Op(B, 1, 2), Op(B, 9, 3), Op(C, 3, 4), Op(C, 12, 5)]
"""b first needs the long copy of a; its next one, and all that c does, could begin at once."""


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_what_starts_early_is_not_fetched_late(depth: int) -> None:
    machine = cells(EVERY, depth=depth)
    found = derive(program(machine, FAR), memory(machine), (None, 1, 2))
    assert (list(found.source) == sorted(found.source)) == (not depth)
    checked = prepare_program(found.program, memory(machine))
    free = cells(EVERY)
    ideal = derive(program(free, FAR), memory(free), (None,)).program
    least = prepare_program(ideal, memory(free))
    times = [time_program(p, c.footprints, c.provenance, c.tokens).cycles for p, c in ((found.program, checked), (ideal, least))]
    assert times[0] == times[1]


def test_an_interlock_goes_by_the_order_of_the_stream() -> None:
    machine = cells(EVERY, depth=1, nops="abc", interlock="{pairs: [{from: a, to: b}]}")
    assert list(derive(program(machine, FAR), memory(machine)).source) == list(range(len(FAR) + 1))


def cycles(given: Program) -> float:
    checked = prepare_program(given, memory(given.machine))
    return time_program(given, checked.footprints, checked.provenance, checked.tokens).cycles


def test_work_that_is_ready_goes_first() -> None:
    found, other = (derive(program(m, BEHIND), memory(m), moves=True) for m in (ON_CHIP, OUTSIDE))
    assert cycles(found.program) < cycles(other.program)
    queue = found.program.unit == B
    assert found.source[queue].tolist() == [2, 1]
    assert other.source[other.program.unit == B].tolist() == [1, 2]


def test_a_reader_waits_for_none_but_its_writer() -> None:
    """The copy of c that reads what the second one of b writes begins before the first one of b, which stood before both."""
    found: list[int] = derive(program(ON_CHIP, BEHIND), memory(ON_CHIP), moves=True).source.tolist()
    assert found.index(3) < found.index(1)


def test_work_that_a_unit_with_its_own_order_needs_goes_first() -> None:
    """Both copies of b are ready; the second one feeds c, and ends the sooner."""
    made = program(ON_CHIP, [Op(B, 8, 9), Op(B, 2, 3), Op(C, 3, 4)])
    order = np.arange(len(made))
    provenance = Provenance(made, memory(ON_CHIP), order)
    prints = footprints(made, memory(ON_CHIP), order, provenance)
    work = replace(find_work(made, prints.runs, provenance, [*accesses_by_memory(made, prints.runs, provenance)]), free=frozenset({B}))
    assert list_order(work, durations(instruction_costs(made, prints, provenance))).tolist()[:2] == [1, 0]
    alike = replace(work, after=Followers(np.zeros_like(work.after.first), np.empty(0, np.int64)))
    assert list_order(alike, durations(instruction_costs(made, prints, provenance))).tolist() == order.tolist()


def test_nothing_moves_across_events() -> None:
    """A machine with events is free to move the work of programs that use none."""
    quiet, made = cells(EVERY, depth=8, kind="scratchpad", event=True), load_machine("dnnvm:zu9")
    found = derive(program(quiet, BEHIND), memory(quiet), moves=True)
    assert found.source[found.program.unit == B].tolist() == [2, 1]
    for line, moving in (("STOP cores=10", False), ("", True)):
        given = assemble(made, Source("stop.asm", f".stream 0\n{line}\nEND\n.stream 1\nEND\n.stream 2\nEND\n"))
        order, state = np.arange(len(given)), new_state(made)
        provenance = Provenance(given, state, order)
        assert bool(free_units(given, footprints(given, state, order, provenance).runs, provenance)) == moving


def test_bundles_that_wait_for_each_other_keep_the_programs_order() -> None:
    """Latches of dpuv3's misc unit whose reader stands behind work of other units that needs what is between them."""
    name = next(name for name in SMALL if "dpuv3" in name)
    machine = load_machine(name, overrides=SMALL[name])
    derive(random_program(machine, 280, 24, chained=1e-9), random_state(machine, 280), moves=True)


@given(ops=copies(most=40), depth=st.sampled_from([1, 2, 8]))
@settings(max_examples=60, deadline=None)
def test_results_are_those_of_the_programs_own_order(ops: list[Op], depth: int) -> None:
    made = cells(EVERY, depth=depth, kind="scratchpad")
    derive(program(made, ops), memory(made), (None, 1, 2), moves=True)


def test_an_instruction_and_those_that_set_its_registers_stay_together() -> None:
    operation = last_rows(14, (3, 3, 1))
    problem = state_problem(machine(), kernel("conv2d"), operation)
    buffers = {"x": Buffer((4, 40, 14, 14), 40, 0), "y": Buffer(operation.output, 260, 0)}
    kept = {name: found for name, buffer in buffers.items() if (found := kept_of(problem, name, buffer, SLOTS[name]))}
    problem = keep_on_chip(problem, kept, False, problem.pools)
    made = emit_alone(problem, rank_tilings(problem, 2, 1)[0], pack_tensors(problem)).program
    names = np.array([instruction.name for instruction in made.machine.instructions])[made.kind]
    work = names[made.unit == [unit.name for unit in made.machine.units].index("misc")].tolist()
    assert work
    assert work == ["ELEWINIT", "ELEW"] * (len(work) // 2)


@given(ops=copies(most=40), kind=st.sampled_from(["scratchpad", "dram"]))
@settings(max_examples=60, deadline=None)
def test_a_program_without_short_queues_is_never_slower_in_another_order(ops: list[Op], kind: str) -> None:
    made = cells(EVERY, kind=kind)
    given = program(made, ops)
    own, moved = (synchronise(given, memory(made), moving) for moving in (False, True))
    assert_ordered(moved.program, memory(made))
    assert_leaves(moved.program, memory(made), reference_state(given), (None, 1, 2))
    assert cycles(moved.program) <= cycles(own.program)


def reference_state(given: Program) -> State:
    expected = memory(given.machine)
    numpy_engine.run(given, expected, np.arange(len(given)))
    return expected


def assert_times(found: Synchronised, state: State) -> None:
    """Times that were found while an order was chosen are those of the program, and so are the footprints and costs that came with it."""
    assert found.timeline is not None
    wanted, given = time_state(found.program, state), found.timeline
    assert given.program is found.program
    assert given.cycles == wanted.cycles
    for name in ("start", "end", "released", "freed"):
        np.testing.assert_array_equal(getattr(given.result, name), getattr(wanted.result, name))
    for name in ("instruction", "memory", "write", "start", "stop"):
        np.testing.assert_array_equal(getattr(given.footprints.runs, name), getattr(wanted.footprints.runs, name))
    for name in ("setup", "cycles", "latency", "first", "port", "bytes", "work", "rank"):
        np.testing.assert_array_equal(getattr(given.costs, name), getattr(wanted.costs, name))
    np.testing.assert_array_equal(given.footprints.traffic_read, wanted.footprints.traffic_read)


@given(ops=copies(most=40))
@example(ops=BEHIND)
@settings(max_examples=30, deadline=None)
def test_times_of_an_order_that_was_chosen(ops: list[Op]) -> None:
    made = cells(EVERY, kind="scratchpad")
    found = synchronise(program(made, ops), memory(made), moving=True)
    if ops == BEHIND or found.timeline is not None:
        assert_times(found, memory(made))
