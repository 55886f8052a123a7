"""Integer calls as operations of a machine: padding and slopes merged, filters in the order of shuffled channels, and pictures of tensors."""

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

from toolchain.abi.dram_map import Shape
from toolchain.graph.integers.calls import Call, integer_call
from toolchain.operations.library import builtin_kinds
from toolchain.operations.operation import Operation
from toolchain.schedule.regions.lowering import (
    Lowered,
    array_of,
    data_of,
    is_call,
    is_placed,
    known_of,
    lower,
    merged_pads,
    operation_of,
    pads_of,
    picture_of,
    shuffle_after,
)
from toolchain.spec.errors import UserError
from toolchain.spec.model.quantisation import Numerics

KINDS = builtin_kinds()
ENDS = {"bias_shift": 2, "shift": 5, "low": -128, "high": 127}
WINDOW = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "group": 1}
WEIGHT = np.arange(6 * 4, dtype=np.int8).reshape(6, 4, 1, 1)


def given(**more: object) -> Lowered:
    call = Call("c", KINDS["conv2d"], "", ("x", "w", "b"), "y", {**WINDOW, **ENDS, **more})
    return Lowered(call, (WEIGHT, np.arange(6, dtype=np.int32)), {"x": Shape(1, 4, 5, 5)})


def first(lowered: Lowered) -> Operation:
    return next(lower(lowered, KINDS))


def test_a_bias_stands_at_the_position_of_the_sum() -> None:
    assert first(given()).arrays["bias"].tolist() == [4 * k for k in range(6)]
    np.testing.assert_array_equal(first(given()).arrays["weight"], WEIGHT)


def test_pads_before_a_call_are_added_to_its_own() -> None:
    plain, padded = first(given()), first(replace(given(), pads=(1, 0, 2, 0)))
    assert (plain.output, padded.output) == ((1, 6, 7, 7), (1, 6, 10, 7))


def test_filters_of_a_shuffle_make_its_channels() -> None:
    """Two groups of three: channel 3 g + i becomes 2 i + g."""
    found = first(replace(given(), shuffle=2)).arrays
    assert found["bias"].tolist() == [4 * k for k in (0, 3, 1, 4, 2, 5)]
    np.testing.assert_array_equal(found["weight"], WEIGHT[[0, 3, 1, 4, 2, 5]])


@pytest.mark.parametrize(("slope", "shift", "wanted"), [(0, 0, (0, 0)), (8, 3, (0, 0)), (3, 4, (3, 4))])
def test_a_slope_is_a_fraction(slope: int, shift: int, wanted: tuple[int, int]) -> None:
    numbers = first(given(slope=slope, slope_shift=shift)).numbers
    assert (numbers["slope"], numbers["slope_shift"]) == wanted


def test_a_slope_above_one_is_refused() -> None:
    with pytest.raises(UserError, match="E1003"):
        first(given(slope=9, slope_shift=3))


def tensor(name: str, shape: tuple[int, ...]) -> ir.Value:
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.INT8))


def constant(name: str, array: np.typing.NDArray[np.generic]) -> ir.Value:
    return ir.Value(name=name, shape=ir.Shape(array.shape), const_value=ir.tensor(array))


def chain() -> tuple[ir.Node, ir.Node, ir.Node]:
    """A pad, a convolution and a shuffle, one after the other, as integer calls of one graph."""
    x = tensor("x", (1, 4, 5, 5))
    model = ir.Model(ir.Graph([x], [], nodes=[], opset_imports={"": 20}), ir_version=10)
    weights = [constant("w", WEIGHT), constant("b", np.zeros(6, np.int32))]
    pad = integer_call(model, KINDS["pad"], "", [x], {"pads": (0, 0, 1, 2, 0, 0, 3, 4)}, "pad", Numerics())
    conv = integer_call(model, KINDS["conv2d"], "", [pad.outputs[0], *weights], {**WINDOW, **ENDS}, "conv", Numerics())
    shuffle = integer_call(model, KINDS["shuffle"], "", [conv.outputs[0]], {"group": 2}, "shuffle", Numerics())
    model.graph.extend((pad, conv, shuffle))
    return pad, conv, shuffle


def test_operands_of_a_call_are_its_tensors_and_then_its_constants() -> None:
    pad, conv, shuffle = chain()
    assert operation_of(conv, KINDS) is KINDS["conv2d"]
    assert operation_of(None, KINDS) is None
    assert data_of(conv, KINDS) == [pad.outputs[0]]
    assert [value.name for value in known_of(conv, KINDS)] == ["w", "b"]
    np.testing.assert_array_equal(array_of(known_of(conv, KINDS)[0]), WEIGHT)
    assert [is_call(node, "pad", "shuffle") for node in (pad, conv, shuffle, None)] == [True, False, True, False]
    assert not is_placed(conv, KINDS)


def test_pads_and_shuffles_merge_into_a_call_with_weights() -> None:
    pad, conv, shuffle = chain()
    assert pads_of(pad, KINDS) == (1, 2, 3, 4)
    assert merged_pads(conv, True, KINDS) == (pad.inputs[0], (1, 2, 3, 4))
    assert merged_pads(conv, False, KINDS) == (pad.outputs[0], (0, 0, 0, 0))
    assert shuffle_after(conv, KINDS) is shuffle
    assert shuffle_after(pad, KINDS) is None


def test_a_row_is_a_picture_of_one_column() -> None:
    assert picture_of(tensor("a", (1, 16, 4, 5)), 4) == Shape(4, 16, 4, 5)
    assert picture_of(tensor("a", (1, 16)), 4) == Shape(4, 16, 1, 1)
    with pytest.raises(UserError, match="E1003"):
        picture_of(tensor("a", (1, 2, 3, 4, 5, 6)), 1)
