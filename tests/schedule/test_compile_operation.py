"""Whatever the search chooses is exact and free of races, on every configuration that the kernel serves. One search for operations of the same
sizes, whatever their values are."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.convolutions import convolution, convolutions, direct, image
from tests.schedule.many_cores import chip
from toolchain.abi.packing import PAGE
from toolchain.analysis.checks import check_program, prepare_program
from toolchain.analysis.in_place import repeats
from toolchain.analysis.order import issue_order
from toolchain.emulator import engine_named
from toolchain.operations.operation import Operation
from toolchain.schedule.compile_operation import TileChoice, TimedOperation, compile_operation, emit_alone, pack_tensors, place_tensors
from toolchain.schedule.kernels.kernel_file import load_kernel, load_kernels
from toolchain.schedule.kernels.problem import state_problem
from toolchain.schedule.tiling.tiles import Tiling, rank_tilings
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine

MACHINE = load_machine("vta")
KERNEL = load_kernel(MACHINE, "conv2d")


def proven(choice: TimedOperation, operation: Operation, engine: str = "fast", seed: int | None = None) -> bool:
    """Checked, run in the usual order or a random one, compared."""
    x = image(operation)
    state = choice.compiled.state(x=x)
    checked = check_program(choice.compiled.program, state)
    order = checked.order if seed is None else issue_order(choice.compiled.program, seed)
    engine_named(engine)(choice.compiled.program, state, order)
    return np.array_equal(choice.compiled.result(state, "y"), direct(operation, x))


@settings(max_examples=30, deadline=None)
@given(convolutions(), st.integers(1, 3))
def test_any_convolution_is_exact(operation: Operation, contexts: int) -> None:
    assert proven(compile_operation(MACHINE, KERNEL, operation, contexts, timed=2), operation)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("config", ["ultra96", "batch4_block8", "block32", "chisel", "hls"])
def test_other_blocks_and_batches_are_exact(config: str) -> None:
    machine = load_machine("vta", config)
    operation = convolution((3, 19, 9, 8), (21, 3, 3), pads=(1, 1, 1, 1), strides=(2, 1))
    assert proven(compile_operation(machine, load_kernel(machine, "conv2d"), operation, timed=2), operation)


def test_the_reference_engine_and_random_orders_agree() -> None:
    operation = convolution((1, 20, 6, 5), (17, 3, 2), pads=(1, 0, 1, 1))
    choice = compile_operation(MACHINE, KERNEL, operation, timed=1)
    assert proven(choice, operation, "reference")
    assert all(proven(choice, operation, seed=seed) for seed in range(3))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("overrides", [{"LOG_INP_BUFF": "9"}, {"LOG_WGT_BUFF": "12"}, {"LOG_ACC_BUFF": "10"}, {"LOG_UOP_BUFF": "9"}])
def test_tensors_many_times_a_buffer_are_exact(overrides: dict[str, str]) -> None:
    machine = load_machine("vta", overrides=overrides)
    operation = convolution((1, 40, 12, 13), (40, 3, 3), pads=(1, 1, 1, 1))
    assert proven(compile_operation(machine, load_kernel(machine, "conv2d"), operation, timed=2), operation)


def test_finite_queues_do_not_deadlock() -> None:
    machine = load_machine("vta", overrides={"QUEUE_DEPTH": "8", "TOKEN_DEPTH": "2"})
    operation = convolution((1, 64, 14, 14), (64, 3, 3), pads=(1, 1, 1, 1))
    assert proven(compile_operation(machine, load_kernel(machine, "conv2d"), operation, timed=2), operation)


def test_two_contexts_hide_what_one_does_not() -> None:
    operation = convolution((1, 512, 7, 7), (512, 3, 3), pads=(1, 1, 1, 1))
    one, two = (compile_operation(MACHINE, KERNEL, operation, contexts, timed=2) for contexts in (1, 2))
    ideal = operation.macs / 256
    assert ideal / one.cycles < 0.65
    assert 0.93 < ideal / two.cycles < 0.9731


def test_the_quickest_of_those_timed_is_taken_and_again_the_same() -> None:
    operation = convolution((1, 32, 14, 14), (48, 3, 3), pads=(1, 1, 1, 1))
    first, second = (compile_operation(MACHINE, KERNEL, operation, timed=4) for _ in range(2))
    assert first.cycles == min(cycles for _, cycles in first.tried)
    assert first.compiled.program.streams == second.compiled.program.streams
    assert first.compiled.listing == second.compiled.listing


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"pads": (3, 0, 0, 0)}, "a window along h lies in the padding as a whole"),
        ({"low": -200}, "the least result is -200, outside -128..127"),
    ],
)
def test_what_the_kernel_cannot_do_is_refused_with_its_reason(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=f"E1003 .*{reason}"):
        compile_operation(MACHINE, KERNEL, convolution((1, 16, 8, 8), (16, 3, 3), **options))


def test_a_reset_that_would_read_outside_a_buffer_is_refused() -> None:
    machine = load_machine("vta", "hls", overrides={"LOG_INP_BUFF": "13"})
    with pytest.raises(UserError, match=r"E1003 .*a reset of this implementation would read outside its buffers"):
        compile_operation(machine, load_kernel(machine, "conv2d"), convolution((1, 16, 8, 8), (16, 3, 3)))


def test_what_does_not_fit_is_refused() -> None:
    machine = load_machine("vta", overrides={"LOG_WGT_BUFF": "9"})
    with pytest.raises(UserError, match=r"E1003 .*GEMM's wgt_factor_out would be 9"):
        compile_operation(machine, load_kernel(machine, "conv2d"), convolution((1, 16, 8, 8), (16, 3, 3)))


def test_places_do_not_meet_and_addresses_count_elements() -> None:
    places = place_tensors(MACHINE, {"a": ("dram.wgt", 300), "b": ("dram.inp", 5000), "c": ("dram.acc", 64)})
    assert [(r.address, r.base) for r in places.values()] == [(PAGE, PAGE // 256), (2 * PAGE, 2 * PAGE // 16), (4 * PAGE, 4 * PAGE // 64)]


def test_a_tensor_larger_than_dram_is_refused() -> None:
    with pytest.raises(UserError, match="E1004 tensor 'a' of"):
        place_tensors(MACHINE, {"a": ("dram.wgt", 1 << 28)})


def test_operations_of_the_same_sizes_share_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = list[str]()

    def counted(*given: object) -> list[Tiling]:
        searched.append("once")
        return rank_tilings(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("toolchain.schedule.compile_operation.rank_tilings", counted)
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
    conv = convolution((1, 64, 16, 16), (32, 3, 3), pads=(1, 1, 1, 1))
    problem = state_problem(machine, load_kernels(machine)["conv2d"], conv)
    alone, shared = (rank_tilings(problem, 2, 1, streams)[0] for streams in (1, 8))
    tiles = [math.prod(-(-problem.extents[d.name] // found.sizes[d.name]) for d in problem.kernel.loops) for found in (alone, shared)]
    assert tiles[1] >= max(8, tiles[0])
    assert alone.estimate / 8 <= shared.estimate < alone.estimate
    (port,) = (resource for resource in machine.timing.resources if resource.name == "ddr_port")
    slow = replace(machine, timing=replace(machine.timing, resources=(replace(port, bytes_per_cycle=1), *machine.timing.resources[1:])))
    waiting = rank_tilings(replace(problem, machine=slow), 2, 1, 8)[0]
    moved = (64 + 32) * 16 * 16 + 64 * 32 * 9
    assert moved <= waiting.estimate < 8 * moved


def test_tiles_depend_on_no_other_request() -> None:
    """An operation that others follow may have other tiles than its like that none follows, whichever is asked for first."""
    operations = [convolution((1, channels, size, size), (channels, 3, 3), pads=(1, 1, 1, 1)) for channels in (32, 64, 128) for size in (14, 28, 56)]
    pairs = [[replace(state_problem(MACHINE, KERNEL, operation), followed=followed) for followed in (False, True)] for operation in operations]
    alone = [[TileChoice(2, 1).best(problem) for problem in pair] for pair in pairs]
    assert any(one != other for one, other in alone)
    for pair, found in zip(pairs, alone, strict=True):
        choice, reverse = TileChoice(2, 1), TileChoice(2, 1)
        assert [choice.best(problem) for problem in pair] == found
        assert [reverse.best(problem) for problem in reversed(pair)] == found[::-1]
