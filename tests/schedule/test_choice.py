"""The kernel of an operation: the first that can do it, or the reason why none can."""

from dataclasses import replace

import pytest

from tests.operations import made
from tests.schedule.convolutions import convolution
from toolchain.schedule.choice import choose_kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine

MACHINE = load_machine("vta")
KERNELS = load_kernels(MACHINE)
CONVOLUTION = convolution((1, 16, 8, 8), (16, 3, 3))


def test_the_first_that_can_is_taken() -> None:
    first, second = KERNELS["conv2d"], replace(KERNELS["conv2d"], name="other")
    assert choose_kernel(MACHINE, {"a": first, "b": second}, CONVOLUTION).kernel.name == first.name
    strict = replace(first, name="strict", requires=tuple(replace(r, that=r.that, message=r.message) for r in first.requires))
    assert choose_kernel(MACHINE, {"a": strict, "b": second}, CONVOLUTION).kernel.name == "strict"


def test_no_kernel_for_a_kind_and_a_reason_for_a_number() -> None:
    with pytest.raises(UserError, match="E1008 machine 'vta' has no kernel for 'upsample'"):
        choose_kernel(MACHINE, {"conv2d": KERNELS["conv2d"]}, made.upsample("up", (1, 16, 4, 4), (2, 2)))
    with pytest.raises(UserError, match=r"E1003 .*the padding is as large as the kernel"):
        choose_kernel(MACHINE, KERNELS, convolution((1, 16, 8, 8), (16, 3, 3), pads=(3, 0, 0, 0)))
