"""Tensors in DRAM against the layout written out by hand, and back again."""

import numpy as np
import pytest

from tests.schedule.convolutions import convolution, image
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
