"""Programs that are kept for those who want them again: as if each were written anew."""

import numpy as np

from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from toolchain.abi.dram_map import Shape
from toolchain.isa.encode import encode_program
from toolchain.schedule import emit, program
from toolchain.schedule.compile_region import compile_region, plan_region
from toolchain.schedule.dram_allocation import PlacedRegion
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.program import ordered_steps, state_before, turned, write_program
from toolchain.schedule.regions.region import Bound, Region
from toolchain.schedule.tiling.slots import find_rings

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
