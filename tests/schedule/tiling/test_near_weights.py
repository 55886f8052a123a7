"""Weights that wait in the memory of a cluster: chosen where DRAM is the bottleneck, exact, and through DRAM once; their room and their time."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.convolutions import convolution
from tests.schedule.form.edits import read
from tests.schedule.form.test_shares import read_bytes
from tests.schedule.test_options import exact
from toolchain.abi.dram_map import Shape
from toolchain.schedule.compile_region import compile_region, find_schedule
from toolchain.schedule.form.files import write_schedule
from toolchain.schedule.form.plan import Schedule
from toolchain.schedule.kernels.kernel_file import load_kernels, read_kernels
from toolchain.schedule.kernels.problem import Problem, state_problem
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Bound, Region
from toolchain.schedule.tiling.near_weights import bringing_cycles, is_near, near_rooms, near_size, reloads, waiting, whole_size, with_room
from toolchain.schedule.tiling.tiles import Tiling
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine
from toolchain.timing.class_cost import part_of_ports

ROOT = Path(__file__).resolve().parents[3]


@cache
def slow() -> Machine:
    """Two clusters of two cores with little memory for weights, on a quarter of DRAM's rate."""
    return load_machine("stcp920", "paper", {"CLUSTERS": "4", "CORES": "2", "L1_KIB": "32", "LOG_LLB": "19", "LOG_DDR": "24"})


def deep(*kernels: tuple[int, int, int], size: int = 14, strides: Sequence[int] = ()) -> Region:
    """Convolutions one after the other: inputs, outputs and width of each kernel."""
    tensors, bounds = {"t0": Shape(1, kernels[0][0], size, size)}, list[Bound]()
    for number, ((inputs, outputs, width), stride) in enumerate(zip(kernels, strides or (1,) * len(kernels), strict=True)):
        own = convolution((1, inputs, size, size), (outputs, width, width), pads=(width // 2,) * 4, strides=(stride, stride))
        size = own.output[2]
        tensors[f"t{number + 1}"] = Shape(*own.output)
        bounds.append(Bound(own, {"x": f"t{number}", "y": f"t{number + 1}"}))
    return Region("deep", tensors, ("t0",), (f"t{len(kernels)}",), tuple(bounds), {})


@cache
def found(copies: int, streams: int) -> tuple[Region, Schedule]:
    region = deep((96, 128, 3), (128, 96, 1))
    return region, find_schedule(slow(), load_kernels(slow()), region, Options(copies=copies, streams=streams, timed_streams=False, effort=0))


def rooms(schedule: Schedule) -> list[dict[str, tuple[int, int]]]:
    return [dict(operation.near) for _, operation in schedule.entries()]


def without(schedule: Schedule) -> Schedule:
    """Every load reads DRAM."""
    groups = tuple(replace(group, operations=tuple(replace(each, near={}) for each in group.operations)) for group in schedule.groups)
    return replace(schedule, groups=groups)


@pytest.mark.parametrize(("copies", "streams"), [(8, 1), (4, 2)])
def test_weights_of_several_tiles_of_rows_pass_dram_once_for_each_cluster(copies: int, streams: int) -> None:
    region, schedule = found(copies, streams)
    assert any(rooms(schedule))
    near, far = (compile_region(slow(), load_kernels(slow()), region, None, each) for each in (schedule, without(schedule)))
    assert read_bytes(near) < read_bytes(far)
    assert near.cycles < far.cycles
    for seed in (None, 1, 2):
        assert exact(near, slow(), seed)
    assert exact(near, slow(), None, schedules=True)


def test_the_file_has_the_rooms_and_gives_the_same_program() -> None:
    region, schedule = found(8, 1)
    text = write_schedule(schedule)
    assert "near: {w: [" in text
    assert f"weights: {schedule.copies.weights}" in text
    again = read(text)
    assert again == schedule
    one, two = (compile_region(slow(), load_kernels(slow()), region, None, each) for each in (schedule, again))
    assert one.listing == two.listing


def test_rooms_of_neighbours_lie_apart_behind_those_of_copies() -> None:
    _, schedule = found(8, 1)
    weights = schedule.copies.weights
    start = slow().memory["llb"].bytes // 32 - weights
    spans = [span for each in rooms(schedule) for span in each.values()]
    assert spans
    assert all(start <= first and first + size <= start + weights for first, size in spans)
    for (first, size), (after, more) in pairwise(spans):
        assert first + size <= after or after + more <= first


@given(
    inputs=st.integers(1, 4),
    layers=st.lists(st.tuples(st.sampled_from([40, 64, 128, 200]), st.sampled_from([1, 3]), st.sampled_from([1, 1, 2])), min_size=1, max_size=3),
    size=st.integers(5, 15),
    ways=st.sampled_from([(8, 1), (4, 2), (2, 2), (6, 1)]),
)
@settings(max_examples=8, deadline=None)
def test_any_convolutions_are_exact(inputs: int, layers: list[tuple[int, int, int]], size: int, ways: tuple[int, int]) -> None:
    kernels, strides, before = list[tuple[int, int, int]](), list[int](), 32 * inputs
    for outputs, width, stride in layers:
        kernels.append((before, outputs, width))
        strides.append(stride)
        before = outputs
    region, (copies, streams) = deep(*kernels, size=size, strides=strides), ways
    options = Options(copies=copies, streams=streams, timed_streams=False, effort=0)
    compiled = compile_region(slow(), load_kernels(slow()), region, options)
    assert exact(compiled, slow(), None)
    assert exact(compiled, slow(), 1)


def test_one_core_reads_dram() -> None:
    region = deep((96, 128, 3), (128, 96, 1))
    schedule = find_schedule(slow(), load_kernels(slow()), region, Options(effort=0))
    assert not any(rooms(schedule))
    assert not schedule.copies.weights


def problem(copies: int = 1) -> Problem:
    """128 channels of 3x3 over 96: four blocks of three."""
    machine = part_of_ports(slow(), copies, 1) if copies > 1 else slow()
    return state_problem(machine, load_kernels(slow())["conv2d"], deep((96, 128, 3)).operations[0].operation)


def tiling(order: tuple[str, ...], **sizes: int) -> Tiling:
    whole = {"n": 1, "c": 4, "oh": 14, "ow": 14, "i": 3, "u": 3, "v": 3}
    return Tiling({**whole, **sizes}, order, {}, {})


def test_convolutions_say_where_their_weights_may_wait() -> None:
    (found,) = waiting(problem())
    assert (found[0].name, found[1].memory, found[1].by) == ("w", "llb", "c")
    assert not is_near(problem(), "w")
    assert near_rooms(with_room(problem(), "w", 5, 7)) == {"w": (5, 7)}


@pytest.mark.parametrize(
    ("order", "sizes", "again"),
    [
        (("oh", "c"), {"oh": 7, "c": 1}, True),
        (("c", "oh"), {"oh": 7, "c": 1}, False),
        (("c", "oh"), {"oh": 7, "c": 1, "i": 1}, True),
        (("c", "oh"), {"c": 1, "i": 1}, False),
    ],
)
def test_weights_are_loaded_again_where_another_loop_runs_around_theirs(order: tuple[str, ...], sizes: dict[str, int], again: bool) -> None:
    assert reloads(problem(), tiling(order, **sizes), "w") == again


def test_two_tiles_wait_where_their_dimension_is_the_outermost_loop_and_all_elsewhere() -> None:
    own, ((tensor, waits),) = problem(), waiting(problem())
    whole = whole_size(own, tensor, waits)
    assert whole == 128 * 96 * 9 // 32
    sizes = {"c": 1, "oh": 7, "i": 1}
    assert near_size(own, tiling(("c", "oh", "i"), **sizes), "c", whole, 1) == 2 * whole // 4
    assert near_size(own, tiling(("oh", "c", "i"), **sizes), "c", whole, 1) == whole
    assert near_size(own, tiling(("c", "oh", "i"), **sizes), "c", whole, 2) == whole
    assert near_size(own, tiling(("c", "oh", "i"), oh=7, i=1, c=3), "c", whole, 1) == whole


@pytest.mark.parametrize("copies", [1, 8])
def test_weights_take_the_time_of_drams_port_once(copies: int) -> None:
    own = with_room(problem(copies), "w", 0, 1)
    found = bringing_cycles(own, tiling(("c", "oh"), c=1, oh=7, i=1), "w")
    rate = next(each.bytes_per_cycle for each in slow().timing.resources if each.name == "ddr_port") / copies
    assert found == pytest.approx(128 * 96 * 9 / rate, rel=0.1)


def test_the_time_hardly_depends_on_tiles() -> None:
    own = with_room(problem(), "w", 0, 1)
    assert np.isclose(bringing_cycles(own, tiling(("c", "oh"), c=4, oh=7), "w"), bringing_cycles(own, tiling(("oh", "c"), c=1, oh=7), "w"), rtol=0.1)


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ("{memory: l1, by: c}", "E1002 'waits' names a memory on chip that streams share, for values that are known when compiling"),
        ("{memory: ddr, by: c}", "E1002 'waits' names a memory on chip that streams share"),
        ("{memory: llp, by: c}", "E1002 unknown memory 'llp'; did you mean 'llb'?"),
        ("{memory: llb, by: o}", "E1002 unknown dimension 'o'"),
    ],
)
def test_where_weights_cannot_wait(stated: str, told: str) -> None:
    folder = ROOT / "targets" / "stcp920"
    text = (folder / "kernels.yaml").read_text()
    assert "waits: {memory: llb, by: c}" in text
    with pytest.raises(UserError, match=re.escape(told)):
        read_kernels(slow(), Source("kernels.yaml", text.replace("waits: {memory: llb, by: c}", f"waits: {stated}", 1)), folder)


def test_one_core_reads_the_same_file() -> None:
    assert "conv2d" in load_kernels(load_machine("stcp920", "paper", {"CLUSTERS": "1", "CORES": "1"}))
