"""Buffers of a region in DRAM: parts stand in the whole, lives by hand, and tensors that two kernels want stored differently. Room that is
shared over time: who is needed at one moment stands apart, and nothing is wasted on others.

Values of kernels' tensors against the layout written out by hand."""

from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operations import made
from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from toolchain.abi.dram_map import Shape
from toolchain.schedule.compile_operation import pack_tensors
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel_file import load_kernel, load_kernels
from toolchain.schedule.kernels.problem import state_problem
from toolchain.schedule.placement.dram_buffers import (
    Buffer,
    Need,
    Storage,
    box_of,
    lasting,
    layout_of,
    plan_storage,
    share_room,
    stored_bytes,
    tensor_packing,
    tensor_values,
)
from toolchain.schedule.regions.region import Bound, Region, Slice
from toolchain.spec.arrays import Ints
from toolchain.spec.errors import UserError
from toolchain.spec.expr import Binary, Const, Index, Name

VTA = load_machine("vta")
KERNELS = load_kernels(VTA)
SHAPE = Shape(1, 16, 4, 4)

NEEDS = st.lists(st.builds(lambda size, first, length: Need(size, first, first + length), st.integers(1, 40), st.integers(0, 9), st.integers(0, 5)))

MACHINE = load_machine("vta")
OPERATION = convolution((1, 20, 3, 2), (17, 2, 3), pads=(0, 1, 0, 1), bias=200_000)
PROBLEM = state_problem(MACHINE, load_kernel(MACHINE, "conv2d"), OPERATION)
TENSORS = pack_tensors(PROBLEM)


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


def test_weights_stand_in_tiles_and_missing_channels_are_zero() -> None:
    padded = np.zeros((32, 32, 2, 3), np.int8)
    padded[:17, :20] = OPERATION.arrays["weight"]
    tiles = padded.reshape(2, 16, 2, 16, 2, 3).transpose(0, 2, 4, 5, 1, 3)
    assert TENSORS.stored["w"] == tiles.tobytes()


def test_the_bias_is_a_product_with_the_constant_vector() -> None:
    tiles = np.frombuffer(TENSORS.stored["bias"], np.int8).reshape(2, PROBLEM.numbers["tiles"], 16, 16).astype(np.int64)
    vector = np.frombuffer(TENSORS.stored["one"], np.int8).astype(np.int64)
    sums = (tiles @ vector).sum(axis=1).ravel()
    assert sums[:17].tolist() == (OPERATION.arrays["bias"].astype(np.int64) + OPERATION.numbers["half"]).tolist()
    assert not sums[17:].any()


def test_a_layout_with_a_type_of_its_own_is_stored_in_it() -> None:
    machine = load_machine("dpuv3")
    stored = pack_tensors(state_problem(machine, load_kernel(machine, "conv2d"), OPERATION)).stored["bias"]
    assert np.frombuffer(stored, "<i4")[:17].tolist() == (2 * OPERATION.arrays["bias"]).tolist()


@pytest.mark.parametrize("dilation", [1, 2])
def test_a_choice_that_all_elements_make_alike_gives_what_each_alone_gives(dilation: int) -> None:
    machine = load_machine("dpuv3")
    operation = convolution((1, 3, 9, 9), (5, 3, 2), dilations=(dilation, 1))
    packed = pack_tensors(state_problem(machine, load_kernel(machine, "conv2d"), operation))
    spread = np.zeros((5, 2 * dilation + 1, 2, 3), np.int8)
    spread[:, ::dilation] = operation.arrays["weight"].transpose(0, 2, 3, 1)
    assert np.array_equal(packed.packings["w"].fetch(packed.stored["w"]), spread)


def test_outside_an_array_is_zero() -> None:
    weight = OPERATION.arrays["weight"]
    tensor = next(tensor for tensor in PROBLEM.kernel.tensors if tensor.name == "w")
    indices = tuple(Binary("-", Name(name), Const(int(name in "hw"))) for name in "oihw")
    moved = tensor_values(MACHINE, replace(tensor, values=Index(Name("weight"), indices)), PROBLEM.numbers, OPERATION.arrays)
    wanted = np.zeros_like(weight)
    wanted[:, :, 1:, 1:] = weight[:, :, :-1, :-1]
    assert moved.dtype == weight.dtype
    assert np.array_equal(moved, wanted)


@pytest.mark.parametrize(("extent", "told"), [(0, "E1002 tensor 'w' has an extent of 0"), (-3, "E1002"), (1 << 50, "E1004 tensor 'w' has")])
def test_extents_are_checked_before_an_array_is_made(extent: int, told: str) -> None:
    tensor = next(tensor for tensor in PROBLEM.kernel.tensors if tensor.name == "w")
    tensor = replace(tensor, extents=(Const(extent), *tensor.extents[1:]))
    for asked in (tensor_packing, partial(tensor_values, arrays=OPERATION.arrays)):
        with pytest.raises(UserError, match=told):
            asked(MACHINE, tensor, PROBLEM.numbers)


@settings(deadline=None)
@given(st.data())
def test_a_box_of_an_array_is_what_its_indices_read(data: st.DataObject) -> None:
    array = np.arange(3 * 4 * 5).reshape(3, 4, 5)
    rank, boxes = data.draw(st.integers(3, 4)), data.draw(st.booleans())
    axes = data.draw(st.permutations(range(rank)))[:3] if boxes else [data.draw(st.integers(0, rank - 1)) for _ in range(3)]
    index = list[Ints]()
    for axis, size in zip(axes, array.shape, strict=True):
        first = data.draw(st.integers(0, size - 1))
        run = np.arange(first, data.draw(st.integers(first + 1, size)))
        index.append((run if boxes else data.draw(st.permutations(run.tolist()).map(np.array))).reshape(-1, *(1,) * (rank - 1 - axis)))
    found = box_of(array, index)
    assert found is not None or not boxes
    try:
        wanted = array[tuple(index)]
    except IndexError:  # shapes that do not go together
        return
    if found is not None:
        np.testing.assert_array_equal(found, wanted)
        assert found.base is not None
