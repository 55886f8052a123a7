"""Other tilings fit, differ from the best and from each other, and compute the same."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from tests.operations import made
from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution, direct, image
from toolchain.analysis.checks import check_program
from toolchain.emulator import engine_named
from toolchain.schedule.compile_operation import TileChoice, emit_alone, pack_tensors
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel_file import load_kernel, load_kernels
from toolchain.schedule.kernels.problem import Problem, state_problem
from toolchain.schedule.tiling.other_tilings import DEALS, DEEPEST, SIZES, other_tilings
from toolchain.schedule.tiling.tiles import Tiling, rank_tilings

OPERATION = convolution((1, 256, 14, 14), (256, 3, 3), pads=(1, 1, 1, 1))


def problem_on(name: str) -> Problem:
    machine = load_machine(name)
    return state_problem(machine, load_kernel(machine, "conv2d"), OPERATION)


def others_of(problem: Problem) -> tuple[Tiling, list[Tiling]]:
    (best,) = rank_tilings(problem, 2, 1)
    return best, other_tilings(problem, best, 2)


def taken(problem: Problem, tiling: Tiling) -> dict[str, int]:
    """By memory, elements of all slots."""
    found: dict[str, int] = {}
    for name, slots in tiling.places.items():
        found[problem.memories[name]] = found.get(problem.memories[name], 0) + len(slots) * tiling.room[name]
    return found


@pytest.mark.parametrize("name", ["vta", "stcp920"])
def test_others_fit_and_differ(name: str) -> None:
    problem = problem_on(name)
    best, others = others_of(problem)
    assert 1 < len(others) <= DEALS + SIZES
    kinds = [(tuple(tiling.sizes.items()), tuple(tiling.slots.items())) for tiling in (best, *others)]
    assert len(set(kinds)) == len(kinds)
    for tiling in others:
        assert all(room <= sum(pool.depth for pool in problem.pools[memory]) for memory, room in taken(problem, tiling).items())


def test_more_slots_leave_no_room_for_another() -> None:
    problem = problem_on("stcp920")
    best, others = others_of(problem)
    deals = [tiling for tiling in others if tiling.sizes == best.sizes]
    assert deals
    for tiling in deals:
        for name, slots in tiling.slots.items():
            memory = problem.memories[name]
            room = taken(problem, tiling)[memory] + tiling.room[name]
            tiles = prod(-(-problem.extents[d] // tiling.sizes[d]) for d in problem.kernel.place(name).by)
            assert slots <= min(DEEPEST, tiles)
            assert room > sum(pool.depth for pool in problem.pools[memory]) or slots in (DEEPEST, tiles)


def test_others_compute_the_same() -> None:
    problem, x = problem_on("vta"), image(OPERATION)
    for tiling in others_of(problem)[1]:
        compiled = emit_alone(problem, tiling, pack_tensors(problem))
        state = compiled.state(x=x)
        order = check_program(compiled.program, state).order
        engine_named("fast")(compiled.program, state, order)
        assert np.array_equal(compiled.result(state, "y"), direct(OPERATION, x))


def test_a_number_behind_the_last_is_the_last() -> None:
    problem, choice = problem_on("vta"), TileChoice(2, 1)
    others = choice.others(problem)
    assert [choice.best(replace(problem, retiled=number)) for number in range(1, len(others) + 2)] == [*others, others[-1]]
    assert choice.best(problem) not in others


@pytest.mark.parametrize("name", ["dnnvm", "dpuv3", "gemmini", "stcp920", "vta"])
def test_sums_and_pools_may_have_others(name: str) -> None:
    """Also one whose steps load and store alone, as additions in Gemmini's accumulator."""
    machine = load_machine(name)
    size = (machine.lockstep, 32, 14, 14)
    operations = [made.add("add", size), made.max_pool("pool", size, made.Window((2, 2), (2, 2)))]
    for operation in operations:
        problem = choose_kernel(machine, load_kernels(machine), operation)
        best = TileChoice(2, 1).best(problem)
        assert best not in other_tilings(problem, best, 2)
