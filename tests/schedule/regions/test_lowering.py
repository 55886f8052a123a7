"""The block of an index is a law of a map's values, whatever its text. Slices of channels are read where their operands stand: nothing is cut
at a Split, and why it would be otherwise.

Integer calls as operations of a machine: padding and slopes merged, filters in the order of shuffled channels, and pictures of tensors.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st
from onnx import helper

from tests.graph.onnx_builder import model
from tests.schedule.test_read_region import parted
from tests.spec.small import small
from toolchain.abi.dram_map import Shape
from toolchain.abi.packing import view_packing
from toolchain.graph.integers.calls import Call, integer_call
from toolchain.operations.library import builtin_kinds
from toolchain.operations.operation import Operation
from toolchain.schedule.regions.lowering import (
    NONE,
    Lowered,
    array_of,
    block_of,
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
from toolchain.schedule.regions.region import Slice
from toolchain.spec.errors import UserError
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics

n = helper.make_node


def machine(image: str, shape: str) -> Machine:
    """The small machine with this map and shape for its layout."""
    written = '    inverse: "n b l -> n, b * LANES + l"\n    written: true\n'
    return small(('"n c -> n, c // LANES, c % LANES"', f'"n c -> {image}"'), ('[N, "ceil_div(C, LANES)", LANES]', shape), (written, ""))


@pytest.mark.parametrize(
    ("image", "shape", "block"),
    [
        ("n, c // 16, c % 16", '[N, "ceil_div(C, 16)", 16]', 16),
        ("n, c >> 4, c & 15", '[N, "ceil_div(C, 16)", 16]', 16),
        ("n, c - (c & 15), c - (c >> 4) * 16", '[N, "align(C, 16)", 16]', 16),
        ("n, c // 12, c % 12", '[N, "ceil_div(C, 12)", 12]', 12),
        ("n, c // 16, c % 16 // 4, c % 4", '[N, "ceil_div(C, 16)", 4, 4]', 16),
        ("n, c", "[N, C]", 1),
        ("n, c", '[N, "align(C, 12)"]', 12),
        ("n, c // 4, c % 4", '[N, "align(ceil_div(C, 4), 6)", 4]', 24),
        ("n, c", '[N, "C + 1"]', NONE),
        ("(n * C + c) // 16, (n * C + c) % 16", '["ceil_div(N * C, 16)", 16]', 16),
        ("n, C - 1 - c", "[N, C]", 1),
        ("n, 0 if c == 0 else C - c", "[N, C]", NONE),
    ],
)
def test_the_block_is_found_however_the_map_is_written(image: str, shape: str, block: int) -> None:
    assert block_of(machine(image, shape).layouts[0], "c") == block


@drawn(st.integers(1, 40), st.integers(0, 3), st.integers(1, 50))
def test_a_tensor_at_a_block_stands_as_if_alone(block: int, blocks: int, count: int) -> None:
    """The law that a concat rests on: a part's elements are those of its own tensor, moved by one step."""
    held = machine(f"n, c // {block}, c % {block}", f'[N, "ceil_div(C, {block})", {block}]')
    found = block_of(held.layouts[0], "c")
    assert found == block
    first = blocks * found
    whole = view_packing(held, "ddr.row", "rows_of", (2, first + count))
    part, alone = whole.part(1, first, count), view_packing(held, "ddr.row", "rows_of", (2, count))
    for axis, (there, here) in enumerate(zip(part.index, alone.index, strict=True)):
        assert len(np.unique(there - here)) == 1, axis


def samples(count: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(0).normal(size=(count, 1, 16, 6, 6)).astype(np.float32)}


def block(first: int) -> onnx.ModelProto:
    """As YOLOv8 has it: a part of a layer's channels goes through two layers, is added to what comes of them, and joins the whole."""
    rng = np.random.default_rng(1)
    rest = 48 - first
    weights = {"w": (48, 16, 1, 1), "v": (rest, rest, 3, 3), "u": (16, 48 + rest, 1, 1)}
    constants = {name: rng.normal(size=shape).astype(np.float32) for name, shape in weights.items()} | {"sizes": np.array([first, rest])}
    nodes = [
        n("Conv", ["x", "w"], ["wide"], "wide"), n("Split", ["wide", "sizes"], ["a", "b"], "split", axis=1),
        n("Conv", ["b", "v"], ["c"], "c", pads=[1, 1, 1, 1]), n("Add", ["b", "c"], ["d"], "d"),
        n("Concat", ["a", "b", "d"], ["e"], "join", axis=1), n("Conv", ["e", "u"], ["y"], "end"),
    ]  # fmt: skip
    return model(nodes, {"x": [1, 16, 6, 6]}, {"y": None}, constants)


@pytest.mark.parametrize("target", ["vta", "dpuv3"])
def test_a_split_inside_a_region(target: str, tmp_path: Path) -> None:
    (region,), reasons, _ = parted(block(16), samples, target, tmp_path)
    assert reasons.keys() <= {f"{name}.{word}" for name in "xy" for word in ("quantize", "dequantize")}
    assert region.slices["b.int8"] == Slice("wide.int8", 16, view=True)
    assert region.slices["wide.int8"] == Slice("e.int8", 0)
    assert region.viewed("b.int8") == "wide.int8"
    assert [bound.operation.name for bound in region.operations] == ["wide", "c", "d", "end"]


def test_a_split_inside_a_block_stays_on_the_host(tmp_path: Path) -> None:
    regions, reasons, _ = parted(block(8), samples, "dpuv3", tmp_path)
    assert reasons["split.1"] == "it begins at channel 8 of 'wide.int8', which is no multiple of 16"
    assert len(regions) == 2


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
