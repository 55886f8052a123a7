"""Derived cycles are those of the emitted program: of each step of each tile, to the cycle. The estimate of units side by side lies between
the busiest of them and all of them in turn.

Fields that depend on an operation alone are looked at once; no tile that a field does not hold is let through for that."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operations import made
from tests.operations.made import load_machine
from tests.slower import slower
from toolchain.analysis.checks import prepare_program
from toolchain.isa.program import NONE
from toolchain.operations.library import kinds_of
from toolchain.operations.operation import Operation
from toolchain.schedule.compile_operation import CompiledOperation, emit_alone, pack_tensors
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.limits import faults
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.tiling import step_cost
from toolchain.schedule.tiling.order import order_steps
from toolchain.schedule.tiling.step_cost import items_cycles, loading_cycles, overlapped, step_instructions
from toolchain.schedule.tiling.tile_table import even_sizes, tile_names
from toolchain.schedule.tiling.tiles import Tiling, rank_tilings, tile_fits
from toolchain.schedule.writer import part_of, step_frame
from toolchain.timing.cost import instruction_costs
from toolchain.verify.kernel_check import operations_for

MACHINES = {name: load_machine(name) for name in ("dnnvm", "dpuv3", "vta")}
MOST = 40
"""Tiles of a program, so that the tests take seconds."""
KERNELS = [(name, kernel.name) for name, machine in MACHINES.items() for kernel in load_kernels(machine).values() if not kernel.passed]

CYCLES = st.lists(st.integers(0, 1 << 40).map(float), min_size=1, max_size=5)

WEIGHT, BIAS = np.ones((2048, 1024, 3, 3), np.int8), np.zeros(2048, np.int32)
OPERATIONS = [
    made.conv2d("c", (1, 1024, 230, 300), WEIGHT, BIAS, pads=(1, 1, 1, 1), shift=3),
    made.conv2d("c", (1, 1024, 300, 200), WEIGHT, BIAS, strides=(2, 2), shift=3),
    made.add("a", (1, 2048, 300, 400), 2, 1, made.Requantise(4)),
]


def problems(machine: str, kernel: str, count: int) -> list[Problem]:
    """Random operations that the kernel computes."""
    known, found = load_kernels(MACHINES[machine])[kernel], list[Problem]()
    for stated in operations_for(MACHINES[machine], known, kinds_of(MACHINES[machine])[known.computes], np.random.default_rng(7)):
        found += [stated] if stated and tile_fits(stated) else []
        if len(found) == count:
            break
    return found


def charged(compiled: CompiledOperation) -> dict[tuple[int, str], int]:
    """Cycles by instance of a step and unit, as the cycle model counts them for what was emitted."""
    checked = prepare_program(compiled.program, compiled.state())
    costs = instruction_costs(compiled.program, checked.footprints, checked.provenance)
    alone = costs.setup + np.maximum(costs.cycles, [costs.work[a:b].max(initial=0) for a, b in zip(costs.first, costs.first[1:], strict=False)])
    found: Counter[tuple[int, str]] = Counter()
    steps = (compiled.origins.instance != NONE) & ~compiled.origins.does("constants")
    for index in np.flatnonzero(steps):
        unit = compiled.program.machine.units[int(compiled.program.unit[index])].name
        found[int(compiled.origins.instance[index]), unit] += int(alone[index])
    return {key: cycles for key, cycles in found.items() if cycles}


def derived(problem: Problem, tiling: Tiling) -> dict[tuple[int, str], int]:
    """The same from the kernel's instructions alone."""
    part, found = part_of(problem, order_steps(problem, tiling)), dict[tuple[int, str], int]()
    for number, item in enumerate(part.steps):
        assert not isinstance(item.step.code, str)
        places = {number: [0] * len(item.step.constants)}
        frame = step_frame(part, dict.fromkeys(emitted_names(problem), 0), [number], places)
        for unit, cycles in items_cycles(problem.machine, item.step.code, frame).items():
            found[number, unit] = int(np.asarray(cycles).sum())
    return {key: cycles for key, cycles in found.items() if cycles}


def counted(problem: Problem, tiling: Tiling) -> dict[int, int]:
    """Instructions by instance of a step, from the kernel alone."""
    part = part_of(problem, order_steps(problem, tiling))
    frames = (
        step_frame(part, dict.fromkeys(emitted_names(problem), 0), [number], {number: [0] * len(item.step.constants)})
        for number, item in enumerate(part.steps)
    )
    found = {number: int(step_instructions(problem, part.steps[number].step, frame)[0]) for number, frame in enumerate(frames)}
    return {number: count for number, count in found.items() if count}


def emitted_names(problem: Problem) -> list[str]:
    return [f"{tensor.name}_{part}" for tensor in problem.kernel.tensors for part in ("base", "segment", "channels")]


def steps(problem: Problem, tiling: Tiling) -> int:
    return math.prod(-(-problem.extents[name] // size) for name, size in tiling.sizes.items())


@pytest.mark.drawn(10)
@pytest.mark.parametrize(("machine", "kernel"), KERNELS)
def test_a_step_costs_what_its_instructions_are_charged(machine: str, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step by itself: in a program, those that set a register to what it holds are left out."""
    monkeypatch.setattr("toolchain.schedule.writer.repeatable", lambda _: frozenset[str]())
    rng = np.random.default_rng(1)
    for problem in problems(machine, kernel, 1):
        ranked = rank_tilings(problem, 2, 1 << 30)
        small = [number for number, tiling in enumerate(ranked) if steps(problem, tiling) <= MOST]
        for index in {small[0], small[-1], int(rng.choice(small))}:
            compiled = emit_alone(problem, ranked[index], pack_tensors(problem))
            assert derived(problem, ranked[index]) == charged(compiled)
            steps_only = (compiled.origins.instance != NONE) & ~compiled.origins.does("constants")
            assert counted(problem, ranked[index]) == Counter(compiled.origins.instance[steps_only].tolist())


def test_kept_cycles_of_loading_are_those_of_their_own_counts_and_machine() -> None:
    (problem,) = problems("vta", "conv2d", 1)
    loading = problem.kernel.loading
    assert loading is not None
    few, many = (loading_cycles(problem, loading, np.array(counts)) for counts in ([1, 5], [1, 500]))
    assert few[0] == many[0]
    assert few[1] < many[1]
    assert loading_cycles(problem, loading, np.array([1, 5])) is few
    assert loading_cycles(replace(problem, machine=slower(problem.machine)), loading, np.array([1, 5]))[1] > few[1]


@given(busy=CYCLES, ends=st.integers(0, 1 << 20).map(float))
def test_units_hide_behind_the_busiest_one(busy: list[float], ends: float) -> None:
    assert max(busy) + ends <= overlapped(busy, ends) <= sum(busy) + ends
    assert overlapped(busy, ends, 1) == sum(busy)


@given(busy=CYCLES)
def test_tiles_at_once_and_one_by_one_cost_the_same(busy: list[float]) -> None:
    columns = [np.full(3, cycles) for cycles in busy]
    np.testing.assert_array_equal(overlapped(columns, np.zeros(3)), np.full(3, overlapped(busy, 0.0)))


@pytest.mark.parametrize("name", ["vta", "dpuv3", "dnnvm"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=["conv", "stride", "add"])
def test_the_same_tiles_are_refused_as_if_all_fields_were_looked_at(name: str, operation: Operation) -> None:
    machine = load_machine(name)
    problem = choose_kernel(machine, load_kernels(machine), operation, ("x", "z"))
    grid = np.meshgrid(*(np.array(even_sizes(problem.extents[d.name]), np.int64) for d in problem.kernel.tile))
    names = tile_names(problem, {d.name: part.ravel() for d, part in zip(problem.kernel.tile, grid, strict=True)})
    known = step_cost._known(problem, names)  # pyright: ignore[reportPrivateUsage]
    steps = [step.code for step in problem.steps if not isinstance(step.code, str)]
    rows, everything = np.arange(known.frame.count), replace(known, settled=frozenset())
    wanted, found = ({int(row) for code in steps for fault in faults(machine, code, how, rows) for row in fault.rows} for how in (everything, known))
    assert known.settled
    assert found == wanted
    assert 0 < len(wanted) < len(rows) or name == "dnnvm"
