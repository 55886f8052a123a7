"""Weights that wait in the memory of a cluster: chosen where DRAM is the bottleneck, exact, and through DRAM once."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise

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
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Bound, Region
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine


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
