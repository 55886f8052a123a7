"""Values of kernels' tensors against the layout written out by hand."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from toolchain.schedule.compile_operation import pack_tensors
from toolchain.schedule.kernels.kernel_file import load_kernel
from toolchain.schedule.kernels.problem import state_problem
from toolchain.schedule.placement.tensor_values import box_of, tensor_packing, tensor_values
from toolchain.spec.arrays import Ints
from toolchain.spec.errors import UserError
from toolchain.spec.expr import Binary, Const, Index, Name

MACHINE = load_machine("vta")
OPERATION = convolution((1, 20, 3, 2), (17, 2, 3), pads=(0, 1, 0, 1), bias=200_000)
PROBLEM = state_problem(MACHINE, load_kernel(MACHINE, "conv2d"), OPERATION)
TENSORS = pack_tensors(PROBLEM)


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
