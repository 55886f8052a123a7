"""Copies of a region, side by side on streams of their own: each is exact on its own images, and none knows of the others."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.convolutions import convolution
from tests.schedule.form.edits import read
from tests.schedule.made_regions import Builder, expected
from tests.schedule.many_cores import chip
from tests.schedule.test_compile_region import images, three_convolutions
from toolchain.abi.dram_map import Shape
from toolchain.analysis.order import issue_order
from toolchain.emulator import engine_named
from toolchain.runtime.device import Image
from toolchain.runtime.process_device import ProcessDevice
from toolchain.schedule.compile_region import compile_region, find_schedule
from toolchain.schedule.copies import Copies
from toolchain.schedule.form.files import write_schedule
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.program import CompiledRegion
from toolchain.schedule.regions.lowering import channel_block
from toolchain.schedule.regions.region import Bound, Region
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics
from toolchain.timing.class_cost import part_of_ports


@cache
def cores() -> Machine:
    """Two small cores that share DRAM, with registers that say where each one's tensors are."""
    return load_machine("dnnvm", "b512_min", {"CORES": "2", "LOG_DDR": "24"})


@cache
def clusters() -> Machine:
    """Two clusters of two cores, with a memory for each cluster, and addresses that are absolute."""
    return chip(2, 2)


def two_convolutions() -> Region:
    """With biases of one byte, which every machine takes."""
    first = convolution((1, 20, 9, 9), (32, 3, 3), pads=(1, 1, 1, 1), bias=99)
    second = convolution((1, 32, 9, 9), (16, 1, 1), bias=99)
    tensors = {"x": Shape(1, 20, 9, 9), "t": Shape(1, 32, 9, 9), "y": Shape(1, 16, 9, 9)}
    return Region("two", tensors, ("x",), ("y",), (Bound(first, {"x": "x", "y": "t"}), Bound(second, {"x": "t", "y": "y"})), {})


def exact(compiled: CompiledRegion, machine: Machine, seed: int | None, schedules: bool = False) -> bool:
    """Every copy on images of its own, in the order of issue, at random or, with `schedules`, in that of the schedule."""
    copies, held = range(compiled.map.rooms), compiled.map
    given_to = [images(compiled.region, number) for number in copies]
    state = held.state(machine, compiled.constants)
    for number in copies:
        held.room(number).write(machine, state, given_to[number])
    order = compiled.order if schedules else compiled.checked.order if seed is None else issue_order(compiled.program, seed)
    engine_named("fast")(compiled.program, state, order)
    wanted = [expected(compiled.region, own, machine.quantisation or Numerics()) for own in given_to]
    return all(
        np.array_equal(held.room(number).read(machine, state, name), wanted[number][name]) for number in copies for name in compiled.region.outputs
    )


def random_region(machine: Machine, seed: int, steps: int) -> Region | None:
    kinds = {kernel.computes for kernel in load_kernels(machine).values()}
    found = Builder(np.random.default_rng(seed), kinds, 1, bias=99, block=channel_block(machine)).region(steps)
    return found if found.operations else None


@given(seed=st.integers(0, 1 << 30), steps=st.integers(2, 4))
@settings(max_examples=4, deadline=None)
def test_any_region_is_exact_on_the_images_of_each_copy(seed: int, steps: int) -> None:
    machine = cores()
    region = random_region(machine, seed, steps)
    if region is not None:
        try:
            compiled = compile_region(machine, load_kernels(machine), region, Options(copies=2))
        except UserError as error:
            assert error.diagnostics[0].code in ("E1003", "E1004", "E1008"), error  # noqa: PT017 what a kernel refuses is its own matter
        else:
            assert exact(compiled, machine, None)
            assert exact(compiled, machine, 1)


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("copies", "streams", "parts"), [(4, 1, 2), (3, 1, 2), (2, 2, 1)])
def test_copies_may_have_several_streams_each_and_their_part_of_the_memory_of_their_cluster(copies: int, streams: int, parts: int) -> None:
    machine = load_machine("stcp920", "paper", {"CLUSTERS": "2", "CORES": "2", "L1_KIB": "32", "LOG_LLB": "16", "LOG_DDR": "20"})
    options = Options(streams=streams, copies=copies, timed_streams=False, grouped=False, effort=0)
    compiled = compile_region(machine, load_kernels(machine), three_convolutions(24), options)  # whose tensors no core's own memory holds
    assert (compiled.map.rooms, compiled.map.streams) == (copies, streams)
    assert set(np.unique(compiled.program.stream).tolist()) == set(range(copies * streams))
    rooms = [compiled.map.room(number).segments["llb[0]"] for number in range(copies)]
    size = machine.memory["llb"].bytes // parts
    assert [(room.instance, room.address, room.bytes) for room in rooms] == [(k // parts, k % parts * size, size) for k in range(copies)]
    assert exact(compiled, machine, None)
    assert exact(compiled, machine, 1)


def test_copies_share_constants_and_nothing_else() -> None:
    machine, region = cores(), two_convolutions()
    one, two = (compile_region(machine, load_kernels(machine), region, Options(copies=copies)) for copies in (1, 2))
    assert one.constants == two.constants
    shared = {name for name, segment in two.map.segments.items() if segment.bytes and not segment.pitch}
    assert shared == {"constants"}
    first, second = (two.map.room(number).segments for number in (0, 1))
    assert all(first[name].address < second[name].address for name in ("inputs", "results"))
    assert two.program.streams[0] == two.program.streams[1]  # where registers say it, the very same program


@pytest.mark.parametrize("find", [cores, clusters])
def test_a_copy_alone_with_its_part_of_the_ports_takes_as_long_as_all_together(find: Callable[[], Machine]) -> None:
    machine, region = find(), two_convolutions()
    schedule = replace(find_schedule(machine, load_kernels(machine), region, Options(copies=2)), multicast=False)
    compiled = compile_region(machine, load_kernels(machine), region, None, schedule)
    alone = part_of_ports(machine, 2, 1)
    one = compile_region(alone, load_kernels(alone), region, None, replace(compiled.schedule, copies=Copies()))
    assert compiled.cycles == pytest.approx(one.cycles, rel=0.01)
    assert compiled.cycles < 2 * compile_region(machine, load_kernels(machine), region).cycles


def test_the_schedule_says_it_and_is_read_back() -> None:
    machine, region = clusters(), two_convolutions()
    schedule = find_schedule(machine, load_kernels(machine), region, Options(copies=2, streams=2))
    text = write_schedule(schedule)
    assert "copies: {times: 2, streams: 2}" in text
    assert read(text) == schedule
    for times, streams, fault in ((3, 2, "3 copies on 2 streams each need more than the 4"), (2, 0, "E0116")):
        wrong = text.replace("{times: 2, streams: 2}", f"{{times: {times}, streams: {streams}}}")
        with pytest.raises(UserError, match=fault):
            compile_region(machine, load_kernels(machine), region, None, read(wrong))


def test_a_group_needs_no_more_streams_than_a_copy_has() -> None:
    machine, region = clusters(), two_convolutions()
    schedule = find_schedule(machine, load_kernels(machine), region, Options(streams=2, timed_streams=False))
    with pytest.raises(UserError, match="E1414 the groups are on 2 streams, and each copy has 1"):
        compile_region(machine, load_kernels(machine), region, None, replace(schedule, copies=Copies(2, 1)))


def test_more_copies_than_streams() -> None:
    machine, region = cores(), two_convolutions()
    with pytest.raises(UserError, match="E1007 3 copies of a region on 1 streams each cannot run: the machine runs 2"):
        compile_region(machine, load_kernels(machine), region, Options(copies=3))


def test_a_process_has_one_value_for_each_register() -> None:
    machine, region = cores(), two_convolutions()
    compiled = compile_region(machine, load_kernels(machine), region, Options(copies=2))
    with pytest.raises(UserError, match="E0713 a device in another process gets one address for each register"):
        ProcessDevice((str(Path("/none")),)).load(Image("two", compiled.program, compiled.map, compiled.constants))
