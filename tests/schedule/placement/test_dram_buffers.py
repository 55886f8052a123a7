"""Buffers of a region in DRAM: parts stand in the whole, lives by hand, and tensors that two kernels want stored differently. Room that is
shared over time: who is needed at one moment stands apart, and nothing is wasted on others."""

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operations import made
from tests.operations.made import load_machine
from toolchain.abi.dram_map import Shape
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.placement.dram_buffers import Buffer, Need, Storage, lasting, layout_of, plan_storage, share_room, stored_bytes
from toolchain.schedule.regions.region import Bound, Region, Slice
from toolchain.spec.errors import UserError

VTA = load_machine("vta")
KERNELS = load_kernels(VTA)
SHAPE = Shape(1, 16, 4, 4)

NEEDS = st.lists(st.builds(lambda size, first, length: Need(size, first, first + length), st.integers(1, 40), st.integers(0, 9), st.integers(0, 5)))


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


@given(NEEDS, st.sampled_from([1, 4]))
def test_who_meets_stands_apart(needs: list[Need], step: int) -> None:
    named = {f"n{k}": need for k, need in enumerate(needs)}
    offsets, size = share_room(named, step)
    assert all(offset % step == 0 and offset + named[name].size <= size for name, offset in offsets.items())
    for (a, need), (b, other) in combinations(named.items(), 2):
        if need.meets(other):
            assert offsets[a] + need.size <= offsets[b] or offsets[b] + other.size <= offsets[a]


@given(NEEDS)
def test_the_whole_is_no_larger_than_all_of_them(needs: list[Need]) -> None:
    assert share_room({f"n{k}": need for k, need in enumerate(needs)}, 1)[1] <= sum(need.size for need in needs)


def test_one_after_the_other_takes_the_room_of_the_largest() -> None:
    needs = {"a": Need(10, 0, 1), "b": Need(30, 2, 3), "c": Need(20, 4, 4)}
    assert share_room(needs, 1) == ({"a": 0, "b": 0, "c": 0}, 30)


def test_a_gap_between_two_is_used() -> None:
    needs = {"a": Need(8, 0, 9), "b": Need(6, 0, 4), "c": Need(5, 0, 9), "d": Need(6, 5, 9)}
    assert share_room(needs, 1)[1] == 19
