"""Every kind: its operations have a value for each declared name, the shapes that arithmetic gives, and no sum that leaves 32 bits."""

import numpy as np
import pytest

from toolchain.graph.integer_reference import evaluate
from toolchain.graph.numerics import Numerics
from toolchain.schedule.operations.add import Add
from toolchain.schedule.operations.conv2d import Conv2d
from toolchain.schedule.operations.depthwise import Depthwise
from toolchain.schedule.operations.kinds import KINDS
from toolchain.schedule.operations.pool import AveragePool, MaxPool
from toolchain.schedule.operations.requantise import Requantise
from toolchain.schedule.operations.upsample import Upsample
from toolchain.schedule.operations.window import Window
from toolchain.spec.errors import UserError

INPUT = (2, 3, 7, 9)
WINDOW = Window((3, 2), (2, 1), (1, 0, 1, 1))
ZEROS = np.zeros(INPUT, np.int8)
BIAS = np.array([5, -6, 7], np.int32)
SHIFT = Requantise(4, 0, 100)
OPERATIONS = [
    Conv2d("c", INPUT, np.ones((4, 3, 3, 2), np.int8), np.zeros(4, np.int32), (2, 1), (1, 0, 1, 1)),
    Depthwise("d", INPUT, np.ones((3, 3, 2), np.int8), BIAS, WINDOW, SHIFT),
    MaxPool("m", INPUT, WINDOW),
    AveragePool("a", INPUT, WINDOW, 21, SHIFT),
    Add("s", INPUT, 2, 1, SHIFT),
    Upsample("u", INPUT, (2, 3)),
]
ATTRIBUTES = {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1), "shift": 4, "low": 0, "high": 100, "multiply": 21}
MORE = {"multiply_x": 2, "multiply_y": 1, "factors": (2, 3), "group": 3, "dilations": (1, 1), "bias_shift": 0}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: o.kind)
def test_numbers_and_arrays_are_those_of_the_kind(operation):
    kind = KINDS[operation.kind]
    assert tuple(operation.numbers) == kind.numbers
    assert tuple(operation.arrays) == kind.arrays
    assert all(type(value) is int for value in operation.numbers.values())


@pytest.mark.parametrize("operation", OPERATIONS[1:], ids=lambda o: o.kind)
def test_the_result_has_the_shape_that_arithmetic_gives(operation):
    operands = {"depthwise": [ZEROS, np.ones((3, 1, 3, 2), np.int8), BIAS], "add": [ZEROS, ZEROS]}.get(operation.kind, [ZEROS])
    kind = {"depthwise": "conv2d"}.get(operation.kind, operation.kind)
    numerics = Numerics(rounding="half_up")
    assert operation.output == evaluate(kind, "", ATTRIBUTES | MORE, operands, numerics).shape


def test_macs_count_every_tap():
    conv, depthwise = OPERATIONS[0], OPERATIONS[1]
    assert conv.macs == int(np.prod(conv.output)) * 18
    assert depthwise.macs == int(np.prod(depthwise.output)) * 6


@pytest.mark.parametrize(
    "make",
    [
        lambda: Add("s", INPUT, 1 << 23, 1 << 23),
        lambda: AveragePool("a", INPUT, Window((200, 200)), 127 * 4),
        lambda: Depthwise("d", INPUT, np.ones((3, 1, 1), np.int8), np.full(3, 2**31 - 1, np.int32), Window((1, 1)), SHIFT),
        lambda: Depthwise("d", INPUT, np.ones((2, 1, 1), np.int8), BIAS, Window((1, 1)), SHIFT),
        lambda: Conv2d("c", INPUT, np.ones((4, 3, 1, 1), np.int8), np.full(4, 2**31 - 1, np.int32)),
    ],
)
def test_what_32_bits_do_not_hold_or_does_not_fit_is_refused(make):
    with pytest.raises(UserError, match="E1003"):
        make()
