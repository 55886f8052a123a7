"""The search: what it offers fits, in the order of its estimate, and the estimate is worth something."""

from dataclasses import replace
from itertools import pairwise
from math import prod
from pathlib import Path

import pytest

from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from toolchain.analysis.checks import prepare_program
from toolchain.schedule.compile_operation import compile_operation, emit_alone, pack_tensors
from toolchain.schedule.kernels.kernel_file import load_kernel
from toolchain.schedule.kernels.pools import Pool
from toolchain.schedule.kernels.problem import Problem, state_problem
from toolchain.schedule.tiling.tile_table import even_sizes
from toolchain.schedule.tiling.tiles import Tiling, rank_tilings
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_text
from toolchain.timing.simulate import time_program

MACHINE = load_machine("vta")
KERNEL = load_kernel(MACHINE, "conv2d")
OPERATION = convolution((1, 64, 28, 28), (128, 3, 3), pads=(1, 1, 1, 1))


@pytest.mark.parametrize("contexts", [1, 2, 3])
def test_slots_fit_into_their_memories_and_estimates_rise(contexts: int) -> None:
    found = rank_tilings(state_problem(MACHINE, KERNEL, OPERATION), contexts, 50)
    assert len(found) == 50
    assert all(a.estimate <= b.estimate for a, b in pairwise(found))
    for tiling in found:
        used: dict[str, int] = {}
        for place in KERNEL.places:
            if place.name in tiling.room:
                used[place.memory] = used.get(place.memory, 0) + tiling.room[place.name] * tiling.slots[place.name]
        assert all(size <= sum(MACHINE.memory[name].depths) for name, size in used.items())


def test_no_tiling_is_offered_twice() -> None:
    found = rank_tilings(state_problem(MACHINE, KERNEL, OPERATION), 2, 50)
    assert len({(tuple(t.sizes.items()), t.order) for t in found}) == 50


def test_fewer_contexts_where_so_many_do_not_fit() -> None:
    machine = load_machine("vta", overrides={"LOG_WGT_BUFF": "12"})
    (tiling,) = rank_tilings(state_problem(machine, load_kernel(machine, "conv2d"), OPERATION), 2, 1)
    assert tiling.slots["w"] == 1


def test_a_memory_of_which_others_have_taken_all_is_told() -> None:
    problem = state_problem(MACHINE, KERNEL, OPERATION)
    memory = problem.memories["x"]
    with pytest.raises(UserError, match=f"E1004 .*: no tile of it .* takes .* elements of '{memory}', which has 0"):
        rank_tilings(replace(problem, pools={**problem.pools, memory: (Pool(0, 0),)}), 2, 1)


def test_time_stays_near_the_estimate() -> None:
    choice = compile_operation(MACHINE, KERNEL, OPERATION, timed=3)
    assert all(abs(cycles / tiling.estimate - 1) < 0.05 for tiling, cycles in choice.tried)


def test_the_last_rows_count_as_what_they_take() -> None:
    """Eight rows take as long as four: of 28 rows in tiles of 24 the last four take a quarter."""
    machine = load_machine("dpuv3")
    problem = state_problem(machine, load_kernel(machine, "conv2d"), convolution((4, 256, 28, 28), (256, 3, 3), pads=(1, 1, 1, 1)))
    found = {tiling.sizes["oh"]: tiling for tiling in reversed(rank_tilings(problem, 2, 1 << 20)) if tiling.sizes["ow"] == 28}
    assert {8, 16, 28} <= set(found)
    for tiling in found.values():
        compiled = emit_alone(problem, tiling, pack_tensors(problem))
        prepared = prepare_program(compiled.program, compiled.state())
        cycles = time_program(compiled.program, prepared.footprints, prepared.provenance, prepared.tokens).cycles
        assert tiling.estimate == pytest.approx(cycles, rel=0.03)


@pytest.mark.parametrize("limit", ["SETUP", "DRAIN"])
def test_tiles_are_larger_where_an_instruction_costs_its_unit_cycles(limit: str) -> None:
    least, most = (
        rank_tilings(state_problem(machine, load_kernel(machine, "conv2d"), OPERATION), 2, 1)[0]
        for machine in (load_machine("dpuv3"), load_machine("dpuv3", overrides={limit: "64" if limit == "SETUP" else "1"}))
    )
    assert prod(least.sizes.values()) < prod(most.sizes.values())


def test_sizes_cut_an_extent_as_evenly_as_any_number_of_tiles() -> None:
    assert all(even_sizes(extent) == sorted({-(-extent // k) for k in range(1, extent + 1)}) for extent in range(1, 400))
    assert len(even_sizes(10**6)) < 2000


def cycles_of(problem: Problem, tiling: Tiling) -> float:
    compiled = emit_alone(problem, tiling, pack_tensors(problem))
    checked = prepare_program(compiled.program, compiled.state())
    return time_program(compiled.program, checked.footprints, checked.provenance, checked.tokens).cycles


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("shape", "weights", "spread", "count"),
    [((1, 64, 14, 14), (256, 1, 1), 1.3, 8), ((1, 32, 56, 56), (128, 1, 1), 1.3, 8), ((1, 32, 28, 28), (32, 5, 5), 1.05, 16)],
)
def test_the_first_tile_is_close_to_the_quickest_where_loads_and_stores_share_a_port(
    shape: tuple[int, int, int, int], weights: tuple[int, int, int], spread: float, count: int
) -> None:
    """Against the exact times of tilings from the best estimate to the worst: few large tiles, many small ones. spread: of the slowest over the
    quickest, at least. count: of tilings, or a few more."""
    text = (Path(__file__).resolve().parents[3] / "targets" / "vta.yaml").read_text()
    shared = text.replace("{write_port: writes(dram)}", "{read_port: writes(dram)}")
    assert shared != text
    wide = {"LOG_BLOCK": "5"}  # products are quick, so the port decides
    kernel = load_kernel(load_machine("vta", overrides=wide), "conv2d")
    operation = convolution(shape, weights, pads=(weights[1] // 2,) * 4)
    problem = state_problem(load_text(shared, "shared.yaml", overrides=wide), kernel, operation)
    every = rank_tilings(problem, 2, 10_000)
    times = [cycles_of(problem, tiling) for tiling in every[:: max(len(every) // count, 1)]]
    assert times[0] <= 1.03 * min(times)
    assert max(times) > spread * min(times)
