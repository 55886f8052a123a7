"""One search for operations of the same sizes, whatever their values are."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.schedule.convolutions import convolution
from tests.schedule.many_cores import chip
from toolchain.analysis.checks import prepare_program
from toolchain.analysis.in_place import repeats
from toolchain.schedule.compile import emit_alone, pack_tensors
from toolchain.schedule.kernels.kernel_file import load_kernel, load_kernels
from toolchain.schedule.kernels.problem import state_problem
from toolchain.schedule.tile_choice import TileChoice
from toolchain.schedule.tiling.tiles import Tiling, rank_tilings
from toolchain.spec.load import load_machine

MACHINE = load_machine("vta")
KERNEL = load_kernel(MACHINE, "conv2d")


def test_operations_of_the_same_sizes_share_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = list[str]()

    def counted(*given: object) -> list[Tiling]:
        searched.append("once")
        return rank_tilings(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("toolchain.schedule.tile_choice.rank_tilings", counted)
    choice = TileChoice(2, 1)
    found = [choice.best(state_problem(MACHINE, KERNEL, convolution((1, 32, 9, 9), (32, 3, 3), seed))) for seed in range(3)]
    assert searched == ["once"]
    assert found[0] is found[1] is found[2]
    choice.best(state_problem(MACHINE, KERNEL, convolution((1, 32, 9, 9), (48, 3, 3))))
    assert searched == ["once", "once"]


def test_the_quickest_of_those_timed_is_never_slower() -> None:
    problem = state_problem(MACHINE, KERNEL, convolution((1, 64, 14, 14), (64, 3, 3), pads=(1, 1, 1, 1)))
    timed, ranked = TileChoice(2, 4).best(problem), rank_tilings(problem, 2, 4)
    assert timed in ranked
    assert TileChoice(2, 1).best(problem) == ranked[0]
    assert np.isfinite(timed.estimate)


@pytest.mark.parametrize("apart", [0, 2])
def test_a_tiling_that_keeps_the_steps_of_a_pipeline_apart_goes_first(apart: int) -> None:
    """A dense layer of ten results sums into one block: whether the steps between go elsewhere depends on the tile."""
    machine = load_machine("vta", overrides={"APART": str(apart)})
    problem = state_problem(machine, load_kernel(machine, "conv2d"), convolution((1, 64, 1, 1), (10, 1, 1)))
    found = emit_alone(problem, TileChoice(2, 1).best(problem), pack_tensors(problem))
    strict = load_machine("vta", overrides={"APART": "2"})
    broken = repeats(prepare_program(replace(found.program, machine=strict), found.state()).provenance)
    assert (len(broken) == 0) == (apart > 0)


def test_streams_that_share_the_tiles_get_as_many_and_wait_for_the_port_that_they_share() -> None:
    machine = chip(1, 8)
    conv = convolution((1, 64, 24, 24), (64, 3, 3), pads=(1, 1, 1, 1))
    problem = state_problem(machine, load_kernels(machine)["conv2d"], conv)
    alone, shared = (rank_tilings(problem, 2, 1, streams)[0] for streams in (1, 8))
    tiles = [math.prod(-(-problem.extents[d.name] // found.sizes[d.name]) for d in problem.kernel.loops) for found in (alone, shared)]
    assert tiles[1] >= max(8, tiles[0])
    assert alone.estimate / 8 <= shared.estimate < alone.estimate
    (port,) = (resource for resource in machine.timing.resources if resource.name == "ddr_port")
    slow = replace(machine, timing=replace(machine.timing, resources=(replace(port, bytes_per_cycle=1), *machine.timing.resources[1:])))
    waiting = rank_tilings(replace(problem, machine=slow), 2, 1, 8)[0]
    moved = 2 * 64 * 24 * 24 + 64 * 64 * 9
    assert moved <= waiting.estimate < 8 * moved
