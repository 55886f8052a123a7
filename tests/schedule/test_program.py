"""A compiled region: one order of all its instructions, an operation for each, and host tensors that survive DRAM. The order of a schedule:
its groups one after the other, the steps of shared ones in turn, every stream's instructions as its program has them.

Programs that are kept for those who want them again: as if each were written anew.
"""

from functools import cache

import numpy as np
import pytest

from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from tests.schedule.many_cores import chip
from tests.schedule.test_compile_region import KERNELS as ALL_KERNELS
from tests.schedule.test_compile_region import MACHINES, images, three_convolutions, two_convolutions
from toolchain.abi.dram_map import Shape
from toolchain.isa.encode import encode_program
from toolchain.schedule import emit, program
from toolchain.schedule.compile_region import compile_region, plan_region
from toolchain.schedule.dram_allocation import PlacedRegion
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.program import CompiledRegion, ordered_steps, state_before, turned, write_program
from toolchain.schedule.regions.region import Bound, Region
from toolchain.schedule.tiling.slots import find_rings


@cache
def compiled(name: str) -> CompiledRegion:
    return compile_region(MACHINES[name], ALL_KERNELS[name], two_convolutions())


@pytest.mark.parametrize("name", ["vta", "dpuv3"])
def test_all_instructions_run_once_and_operations_one_after_the_other(name: str) -> None:
    found = compiled(name)
    assert np.sort(found.order).tolist() == list(range(len(found.program)))
    owners = found.owner[found.order]
    computed = owners[np.isin(found.order, np.flatnonzero(found.origins.does("compute")))]
    assert np.array_equal(computed, np.sort(computed))
    assert set(computed.tolist()) == {0, 1}


@pytest.mark.parametrize("name", ["vta", "dpuv3"])
def test_a_tensor_is_read_as_it_was_written(name: str) -> None:
    found, given = compiled(name), images(two_convolutions(), 3)
    state = found.state(given)
    np.testing.assert_array_equal(found.result(state, "x"), given["x"])
    assert not np.array_equal(found.result(found.state({"x": given["x"] ^ 1}), "x"), given["x"])


def test_labels_name_the_owner_and_cycles_are_those_of_the_clock() -> None:
    found = compiled("vta")
    names = [bound.operation.name for bound in found.region.operations]
    for label, owner in zip(found.listing, found.owner.tolist(), strict=True):
        assert owner < 0 or label.startswith(f"{names[owner]} ")
    assert found.cycles == found.timeline.cycles > 0
    depths = {memory.name: sum(memory.depths) for memory in MACHINES["vta"].memories}
    assert all(0 < peak <= depths[memory] for memory, peak in found.peak.items())


def test_operations_of_one_stream_are_done_one_after_the_other() -> None:
    """Though units take the second one's work where it is ready before the first one's."""
    compiled = compile_region(MACHINES["vta"], ALL_KERNELS["vta"], two_convolutions())
    owners = compiled.owner[compiled.order]
    owned = owners[owners >= 0]
    assert np.array_equal(np.sort(compiled.order), np.arange(len(compiled.program)))
    assert np.array_equal(owned, np.sort(owned))
    assert not np.array_equal(compiled.owner[compiled.owner >= 0], owned)
    for operation in (0, 1):
        assert (np.diff(compiled.order[owners == operation]) > 0).all()


def test_operations_of_several_streams_are_done_one_after_the_other() -> None:
    machine = chip(1, 4)
    compiled = compile_region(machine, load_kernels(machine), three_convolutions(6), Options(streams=3, timed_streams=False))
    assert np.array_equal(np.sort(compiled.order), np.arange(len(compiled.program)))
    owners = compiled.owner[compiled.order]
    owned = owners[owners >= 0]
    assert np.array_equal(owned, np.sort(owned))
    assert not np.array_equal(compiled.owner[compiled.owner >= 0], owned)
    streams = compiled.program.stream[compiled.order]
    for stream in range(machine.streams):
        own = compiled.order[streams == stream]
        assert np.array_equal(own, np.sort(own))


MACHINE = load_machine("vta")
KERNELS = load_kernels(MACHINE)


def region(seed: int, channels: int = 16) -> Region:
    """A convolution with weights of its own."""
    bound = Bound(convolution((1, 16, 6, 6), (channels, 3, 3), seed, pads=(1, 1, 1, 1)), {"x": "x", "y": "y"})
    return Region("one", {"x": Shape(1, 16, 6, 6), "y": Shape(1, channels, 6, 6)}, ("x",), ("y",), (bound,), {})


REGIONS = [region(0), region(1), region(0, 32), region(0)]


def built() -> list[tuple[tuple[bytes, ...], tuple[str, ...], dict[str, bytes]]]:
    found = (compile_region(MACHINE, KERNELS, each) for each in REGIONS)
    return [(encode_program(each.program), each.listing, dict(each.constants)) for each in found]


def test_a_program_that_was_written_before_is_the_same() -> None:
    first = built()
    for kept in (emit._built, emit._synchronised, program._state):  # pyright: ignore[reportPrivateUsage]
        kept.cache_clear()
    assert built() == first
    assert first[0] == first[3]
    assert first[0][2] != first[1][2]


def test_a_state_is_shared_by_programs_with_the_same_constants_in_the_same_places() -> None:
    placed = list[PlacedRegion]()
    for each in REGIONS:
        plan = turned(plan_region(MACHINE, KERNELS, each))
        placed.append(write_program(MACHINE, plan, ordered_steps(plan, find_rings(plan.problems)))[0])
    first = state_before(MACHINE, placed[0])
    assert state_before(MACHINE, placed[3]) is first
    other = state_before(MACHINE, placed[1])
    assert any(not np.array_equal(memory, first.memories[name]) for name, memory in other.memories.items())
    assert np.array_equal(state_before(MACHINE, placed[0]).memories["dram"], first.memories["dram"])
