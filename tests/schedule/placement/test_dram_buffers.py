"""Buffers of a region in DRAM: parts stand in the whole, lives by hand, and tensors that two kernels want stored differently."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operations import made
from tests.operations.made import load_machine
from toolchain.abi.dram_map import Shape
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.placement.dram_buffers import Buffer, Storage, lasting, layout_of, plan_storage, stored_bytes
from toolchain.schedule.regions.region import Bound, Region, Slice
from toolchain.spec.errors import UserError

VTA = load_machine("vta")
KERNELS = load_kernels(VTA)
SHAPE = Shape(1, 16, 4, 4)


def region() -> Region:
    """c = a + a and d = a + c are the halves of e; f = e + e."""
    shapes = dict.fromkeys("acd", SHAPE) | dict.fromkeys("ef", Shape(1, 32, 4, 4))
    steps = {"c": ("a", "a"), "d": ("a", "c"), "f": ("e", "e")}
    bound = tuple(Bound(made.add(y, shapes[y]), {"x": x, "z": z, "y": y}) for y, (x, z) in steps.items())
    return Region("r", shapes, ("a",), ("f",), bound, {"c": Slice("e", 0), "d": Slice("e", 16)})


def planned(given_region: Region) -> Storage:
    problems = [choose_kernel(VTA, KERNELS, bound.operation, given_region.alone(bound)) for bound in given_region.operations]
    return plan_storage(VTA, given_region, [p.kernel for p in problems], [p.numbers for p in problems])


def test_parts_stand_in_the_whole_from_its_first_write_to_its_last_read() -> None:
    storage = planned(region())
    assert storage.places == {"a": ("a", 0), "c": ("e", 0), "d": ("e", 16), "e": ("e", 0), "f": ("f", 0)}
    whole = storage.buffers["e"]
    assert (whole.segment, whole.first, whole.last, whole.channels, whole.parts) == ("swap", 0, 2, 32, 3)
    assert [(b.name, b.segment, b.first, b.last) for b in storage.buffers.values() if b.parts == 1] == [("a", "inputs", 0, 1), ("f", "results", 2, 3)]


def test_a_kernel_and_its_region_agree_on_a_shape() -> None:
    wrong = replace(region(), tensors={**region().tensors, "a": Shape(1, 16, 4, 5)})
    with pytest.raises(UserError, match=r"E1007 tensor '[xz]' of the kernel has extents .* the region's has"):
        planned(wrong)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=5), st.data())
def test_a_buffer_lasts_as_long_as_whole_groups(sizes: list[int], data: st.DataObject) -> None:
    groups = [number for number, size in enumerate(sizes) for _ in range(size)]
    first = data.draw(st.integers(0, len(groups) - 1))
    last = data.draw(st.integers(first, len(groups)))
    found = lasting(Buffer("b", "swap", "", "", (), first, last, 1, 1), groups)
    assert groups.index(groups[first]) == found.first
    assert found.last == (len(groups) if last == len(groups) else max(k for k, number in enumerate(groups) if number == groups[last]))


def test_bytes_of_a_tensor_are_those_of_whole_blocks() -> None:
    tensor = next(tensor for tensor in KERNELS["add"].tensors if tensor.name == "y")
    problem = choose_kernel(VTA, KERNELS, made.add("a", (1, 20, 4, 5)), ("x", "z"))
    assert stored_bytes(VTA, tensor, problem.numbers) == 32 * 4 * 5
    assert layout_of(VTA, tensor).name == tensor.layout
