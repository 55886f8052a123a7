"""Units that reach no DRAM take their work as it gets ready, and the results are those of the program's own order."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.cells import EVERY, Op, cells, copies, memory, program
from tests.schedule.laws import derive
from tests.targets.dpuv3_operations import kernel, machine
from tests.targets.test_dpuv3_kept import SLOTS, Buffer, kept_of, last_rows
from toolchain.analysis.checks import prepare_program
from toolchain.analysis.footprints import footprints
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Program
from toolchain.schedule.compile import emit_alone, pack_tensors
from toolchain.schedule.kernels.problem import keep_on_chip, state_problem
from toolchain.schedule.synchronisation.list_schedule import find_work, list_order
from toolchain.schedule.synchronisation.plan_clock import durations
from toolchain.schedule.tiling.tiles import rank_tilings
from toolchain.timing.simulate import time_program

A, B, C = range(3)
ON_CHIP = cells(EVERY, depth=8, kind="scratchpad")
OUTSIDE = cells(EVERY, depth=8)
BEHIND = [Op(A, 15, 1), Op(B, 1, 2), Op(B, 9, 3), Op(C, 3, 4), Op(C, 12, 5)]
"""b first needs the long copy of a; its next one, and all that c does, could begin at once."""


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
    work = replace(find_work(made, prints.runs, provenance), free=frozenset({B}))
    assert list_order(work, durations(made, prints, provenance)).tolist()[:2] == [1, 0]
    alike = replace(work, after=[[] for _ in work.after])
    assert list_order(alike, durations(made, prints, provenance)).tolist() == order.tolist()


def test_nothing_moves_across_events() -> None:
    made = cells(EVERY, depth=8, kind="scratchpad", event=True)
    found = derive(program(made, BEHIND), memory(made))
    assert found.source[found.program.unit == B].tolist() == [1, 2]


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
