"""The section `quantisation` bounds what any kernel of a machine is asked to do."""

from dataclasses import replace

import pytest

from tests.operations import made
from tests.schedule.convolutions import convolution
from toolchain.operations.operation import Operation
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.number_limits import check_numbers
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model.quantisation import AverageRule, Numerics, Range

MACHINE = load_machine("vta")
NUMERICS = Numerics(bias=Range(-128, 127), bias_shift=Range(0, 4), shift=Range(1, 20), align=Range(0, 3), average=AverageRule(bits=6))
SHAPE = (1, 4, 3, 3)


def check(operation: Operation, numerics: Numerics | None = NUMERICS) -> None:
    kernel = load_kernels(MACHINE)[operation.kind.name]
    check_numbers(replace(MACHINE, quantisation=numerics), kernel, operation.kind, operation.numbers)


def numbered(**numbers: int) -> Operation:
    operation = convolution((1, 4, 3, 3), (4, 1, 1), bias=0, shift=4)
    return replace(operation, numbers={**operation.numbers, **numbers})


@pytest.mark.parametrize(
    ("operation", "told"),
    [
        (numbered(shift=0), "the shift is 0, outside 1..20"),
        (numbered(shift=21), "the shift is 21, outside 1..20"),
        (numbered(low=-129), "the least result is -129, outside -128..127"),
        (numbered(high=128), "the largest result is 128, outside -128..127"),
        (numbered(bias_most=128, bias_zeros=0), "the largest stored bias is 128, outside -128..127"),
        (numbered(bias_least=-129 << 4, bias_zeros=5), "the least stored bias is -129, outside -128..127"),
        (made.average_pool("a", SHAPE, made.Window((2, 2)), 32, made.Requantise(3)), "the multiplier is 32, outside -32..31"),
        (made.add("a", SHAPE, 1, 9, made.Requantise(3)), "the multiplier of 'z' is 9, outside -8..8"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_lies_outside_is_refused(operation: Operation, told: str) -> None:
    with pytest.raises(UserError, match=f"E1003 .*{told}"):
        check(operation)
    check(operation, None)


@pytest.mark.parametrize(
    "operation",
    [
        numbered(shift=20, bias_least=-128 << 4, bias_most=127 << 4, bias_zeros=4),
        made.average_pool("a", SHAPE, made.Window((2, 2)), 31, made.Requantise(3)),
        made.add("a", SHAPE, 8, 1, made.Requantise(3)),
        made.max_pool("m", SHAPE, made.Window((2, 2))),
    ],
)
def test_what_lies_inside_is_done(operation: Operation) -> None:
    check(operation)
