"""Tensors in DRAM against the layout written out by hand, and back again."""

import numpy as np
import pytest

from tests.schedule.convolutions import convolution, image
from toolchain.abi.packing import view_packing
from toolchain.schedule.compile import pack_tensors
from toolchain.schedule.kernels.kernel_file import load_kernel
from toolchain.schedule.kernels.problem import state_problem
from toolchain.spec.load import load_machine

MACHINE = load_machine("vta")
OPERATION = convolution((1, 20, 3, 2), (17, 2, 3), pads=(0, 1, 0, 1), bias=200_000)
PROBLEM = state_problem(MACHINE, load_kernel(MACHINE, "conv2d"), OPERATION)
TENSORS = pack_tensors(PROBLEM)


def test_what_is_stored_comes_back() -> None:
    x = image(OPERATION)
    packing = TENSORS.packings["x"]
    stored = packing.store(x)
    assert len(stored) == packing.bytes == 2 * 3 * 2 * 16
    assert np.array_equal(packing.fetch(stored), x)


def test_a_tensor_of_another_shape_or_range_is_refused() -> None:
    with pytest.raises(ValueError, match="the tensor is"):
        TENSORS.packings["x"].store(np.zeros((1, 20, 2, 3), np.int8))
    with pytest.raises(ValueError, match="int8 does not hold"):
        TENSORS.packings["x"].store(np.full((1, 20, 3, 2), 128))


def test_a_part_starts_where_its_first_element_stands() -> None:
    whole = view_packing(load_machine("dpuv3"), "ddr.word", "activations", (4, 8, 3, 40))
    last = whole.part(3, 32, 8)
    assert (whole.start, last.start, last.part(3, 0, 4).start) == (0, 2 * 4 * 16, 2 * 4 * 16)


def test_strips_of_eight_rows_overlap() -> None:
    """Row r of a strip that begins at row 2 * s - 6 and pair p of a row's numbers is element r of the lower or upper half of a word."""
    x = np.random.default_rng(0).integers(-128, 128, (4, 10, 6, 3), np.int8)
    packing = view_packing(load_machine("dpuv3"), "ddr.word", "strips", x.shape)
    stored = np.frombuffer(packing.store(x), np.int8).reshape(packing.shape)
    rows = np.zeros((4, 6 + 10 + 6, 18), np.int8)
    rows[:, 6:16] = x.reshape(4, 10, 18)
    assert stored.shape == (1, 8, 9, 4, 16)
    for strip in range(8):
        numbers = rows[:, 2 * strip : 2 * strip + 8].reshape(4, 8, 9, 2)
        assert np.array_equal(stored[0, strip].reshape(9, 4, 2, 8), numbers.transpose(2, 0, 3, 1))
    assert np.array_equal(packing.fetch(packing.store(x)), x)
    assert packing.start == 0
