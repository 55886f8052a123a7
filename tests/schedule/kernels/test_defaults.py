"""Kernels name the extents of pictures alike, whatever the operation calls them. Operands and results that a kernel does not state. Windows
read off an operation's meaning are the ranges that the meaning reads. Places are told apart by the dimensions that their loads name. Views
of DRAM are found in the instructions' semantics."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operations.needed_parts import needed
from toolchain.operations.kind import Operand
from toolchain.operations.library import builtin_kinds
from toolchain.operations.numbers import complete
from toolchain.schedule.kernels.defaults import (
    PICTURE,
    array_indices,
    derived_window,
    dimensions_named,
    dram_views,
    folded,
    picture_extents,
    picture_numbers,
    sum_numbers,
    told_apart,
)
from toolchain.schedule.kernels.kernel import Dimension, Window
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.problem import window_names
from toolchain.spec.errors import Source
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Const, Name
from toolchain.spec.load import load_machine
from toolchain.spec.model import Layout
from toolchain.spec.model.quantisation import Numerics, Range
from toolchain.spec.yaml_nodes import parse_yaml

KINDS = builtin_kinds()

KERNELS = load_kernels(load_machine("vta"))

ONE = Const(1)
DIMS = (*(Dimension(name, ONE, None, None, False) for name in ("n", "oc", "oh")), Dimension("ic", ONE, None, None, True))
WINDOWS = (Window("h", "oh", ONE, ONE, ONE, ONE, ONE),)
TEXT = """
shapes:
  rows:
    doc: oh says nothing here
    arguments: {first: oc_at, count: oc, unused: ic}
    size: count * 2
    names: {top: h_first}
    load: {MOVE: {at: n_at + first}}
    store: {MOVE: {at: oh}}
  stays: {size: oc}
places:
  x: {shape: rows}
  every: {shape: rows, first: 0, count: 1}
  handed: {shape: rows, onto: x}
  scratch: {shape: stays}
  w: {memory: wgt, size: 1}
  t: {memory: wgt, size: 1}
  y: {shape: rows}
steps:
  - {load: w, do: [{MOVE: {at: ic_at * oc}}, {MOVE: {at: w_slot}}]}
  - {load: t, template: t.asm.j2}
  - {compute: y, do: {MOVE: {at: n}}}
"""


def test_what_an_operation_lacks_is_named() -> None:
    found = picture_numbers(KINDS["add"])
    assert found == {"in_channels": Name("channels"), "out_channels": Name("channels"), "out_height": Name("height"), "out_width": Name("width")}
    assert picture_numbers(KINDS["conv2d"]) == {}


def test_numbers_are_the_extents_of_the_picture() -> None:
    for kind in KINDS.values():
        for name, expr in picture_numbers(kind).items():
            assert name not in kind.numbers
            assert expr == Const(1) or (isinstance(expr, Name) and expr.id in kind.numbers)


def test_rows_of_a_sequence_have_their_channels_behind() -> None:
    found = picture_extents(KINDS["dense"].operand["x"])
    assert list(found) == list(PICTURE)
    assert picture_extents(KINDS["concat"].operands[0]) == {}


def test_sums_lie_between_their_numbers() -> None:
    average, add = (sum_numbers(KINDS[name], Numerics()) for name in ("average_pool", "add"))
    ends = [constant(average[name], {"kh": 3, "kw": 2, "multiply": -5}) for name in ("sum_least", "sum_most")]
    assert ends == [6 * 127 * -5, 6 * -128 * -5]
    ends = [constant(add[name], {"multiply_x": 3, "multiply_z": -2}) for name in ("sum_least", "sum_most")]
    assert ends == [-128 * 3 - 127 * 2, 127 * 3 + 128 * 2]
    stored = sum_numbers(KINDS["add"], Numerics(activation=Range(0, 255)))
    assert constant(stored["sum_most"], {"multiply_x": 3, "multiply_z": -2}) == 255 * 3


def test_sums_that_weights_or_zero_points_move_have_no_such_numbers() -> None:
    assert sum_numbers(KINDS["conv2d"], Numerics()) == sum_numbers(KINDS["add"], Numerics(zero_points=True)) == sum_numbers(KINDS["add"], None) == {}


def test_operands_and_the_result_stand_in_the_layout_that_the_machine_writes() -> None:
    found = {tensor.name: tensor for tensor in KERNELS["add"].tensors}
    assert {name for name, tensor in found.items() if tensor.layout == "activations"} == {"x", "y", "z"}
    assert [name for name, tensor in found.items() if tensor.written] == ["y"]
    assert found["y"].extents == (Name("batch"), Name("channels"), Name("height"), Name("width"))


def test_the_extents_are_in_the_order_of_the_layout() -> None:
    kernel = load_kernels(load_machine("dpuv3"))["conv2d"]
    (x,) = (tensor for tensor in kernel.tensors if tensor.name == "x")
    assert x.extents == (Name("batch"), Name("height"), Name("width"), Name("in_channels"))


def test_what_no_step_reaches_is_passed_on_chip() -> None:
    assert KERNELS["add_onto_x"].passed == ("x",)
    assert KERNELS["add_both"].passed == ("x", "z")
    assert {tensor.name for tensor in KERNELS["add_onto_x"].tensors} == {"w", "y", "z"}


def test_a_result_is_made_upon_a_tile_that_was_left_or_beside_it() -> None:
    kernels = load_kernels(load_machine("stcp920"))
    assert [name for name, kernel in kernels.items() if kernel.passed and not kernel.in_place] == [
        "conv2d_passed",
        "depthwise_passed",
        "max_pool_passed",
    ]
    assert kernels["conv2d_passed"].passed == ("x",)
    assert all(kernel.in_place for kernel in KERNELS.values() if kernel.passed)


@pytest.mark.parametrize(
    ("axes", "indices", "wanted"),
    [
        ("oiuv", "oihw", "oiuv"),
        ("oiuv", "ohwi", "ouvi"),
        ("cuv", "chw", "cuv"),
        ("o", "c", "o"),
        ("oiuv", "nc", ""),
    ],
)
def test_an_array_is_stored_by_indices_of_the_same_name_and_in_the_same_order(axes: str, indices: str, wanted: str) -> None:
    layout = Layout("l", tuple(indices), tuple(indices.upper()), (), ())
    found = array_indices(Operand("weight", {axis: axis.upper() for axis in axes}), layout)
    assert found == dict(zip(indices, wanted, strict=bool(wanted)))


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 2), st.integers(0, 3), st.integers(0, 5), st.integers(1, 5))
def test_a_derived_window_is_what_the_meaning_reads(kernel: int, stride: int, apart: int, before: int, first: int, size: int) -> None:
    kind, extent = KINDS["max_pool"], 20
    before = min(before, kernel - 1)
    named = {"batch": 1, "channels": 1, "height": extent, "width": extent, "kh": kernel, "kw": 1, "sh": stride, "dh": apart, "pad_top": before}
    numbers = complete(kind, named)
    rows = range(min(first, numbers["out_height"] - 1), min(first + size, numbers["out_height"]))
    window = Window("h", "oh", **{"step": Const(1), **derived_window(kind, "h")})
    found, (wanted,) = window_names(window, rows.start, len(rows), numbers), needed(kind, numbers, {"p": rows})["x"][2:3]
    assert (found["h_first"], found["h_count"], found["h_before"]) == (wanted.first, wanted.count, wanted.before)
    assert found["h_after"] == wanted.after


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 5), st.integers(0, 4), st.integers(1, 30), st.integers(0, 5), st.integers(1, 4))
def test_folded_rows_are_all_that_hold_a_row_of_the_window(
    fold: int, steps: int, reach: int, before: int, extent: int, first: int, size: int
) -> None:
    window = {"stride": Const(fold * steps), "reach": Const(reach), "before": Const(before), "extent": Const(extent)}
    stride, whole, front, rows = (constant(folded(window, Const(fold))[key], {}) for key in ("stride", "reach", "before", "extent"))
    low, high = first * fold * steps - before, (first + size - 1) * fold * steps - before + reach
    assert first * stride - front == low // fold
    assert (first + size - 1) * stride - front + whole == -(-high // fold)
    assert rows == -(-extent // fold)


@pytest.mark.parametrize(("operation", "axis"), [("upsample", "h"), ("conv2d", "c"), ("concat", "h")])
def test_another_index_has_no_window(operation: str, axis: str) -> None:
    assert derived_window(KINDS[operation], axis) == {}


def test_an_element_for_an_element_is_a_window_of_one() -> None:
    for operation in ("add", "prelu"):
        found = derived_window(KINDS[operation], "w")
        assert (found["stride"], found["reach"], found["before"]) == (Const(1), Const(1), Const(0))


def test_a_kernel_that_states_none_has_those_of_the_axes_it_cuts() -> None:
    kernels = load_kernels(load_machine("vta"))
    assert [(window.name, window.of) for window in kernels["add"].windows] == [("h", "oh"), ("w", "ow")]
    assert kernels["dense"].windows == ()


@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        ("x", ("n", "oc", "oh")),
        ("every", ("n", "oh")),
        ("handed", ("n", "oc", "oh")),
        ("scratch", ("n", "oc", "oh")),
        ("w", ("oc", "ic")),
        ("t", ("n", "ic")),
        ("y", ("n", "oc", "oh")),
    ],
)
def test_what_a_load_names_tells_tiles_apart(place: str, wanted: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "t.asm.j2").write_text("MOVE at={{ ic_at + n }}\n")
    root = parse_yaml(Source("kernels.yaml", TEXT))
    words = told_apart(place, dict(root.members("places"))[place], root, dict(root.members("shapes")), "y", tmp_path)
    assert dimensions_named(words, DIMS, WINDOWS) == wanted


@pytest.mark.parametrize(
    ("machine", "kernel", "views"),
    [
        ("vta", "conv2d", {"x": "dram.inp", "w": "dram.wgt", "bias": "dram.wgt", "addend": "dram.acc", "one": "dram.inp", "y": "dram.out"}),
        ("dpuv3", "conv2d", {"x": "ddr.word", "w": "ddr.row", "bias": "ddr.row", "y": "ddr.word"}),
        ("dnnvm", "conv2d", {"x": "ddr.word", "w": "ddr.tile", "bias": "ddr.bias", "y": "ddr.word"}),
        ("stcp920", "add", {"x": "ddr", "z": "ddr", "y": "ddr"}),
    ],
)
def test_a_tensor_has_the_view_of_what_loads_or_stores_it(machine: str, kernel: str, views: dict[str, str]) -> None:
    assert {tensor.name: tensor.view for tensor in load_kernels(load_machine(machine))[kernel].tensors} == views


def test_what_works_on_chip_reaches_no_view() -> None:
    machine = load_machine("dpuv3")
    for step in load_kernels(machine)["conv2d"].steps:
        assert not isinstance(step.code, str)
        assert bool(dram_views(machine, step.code)) == (step.kind == "store" or (step.kind == "load" and step.place not in ("t", "p")))


def test_a_tensor_may_stand_on_chip_where_its_instructions_say_so() -> None:
    kernels = load_kernels(load_machine("stcp920"))
    assert {tensor.name: tensor.shared for tensor in kernels["add"].tensors} == {"x": "llb", "z": "llb", "y": "llb"}
    assert {tensor.name: tensor.shared for tensor in kernels["conv2d"].tensors} == {"x": "llb", "w": "", "p": "", "y": "llb"}
    assert {tensor.name: (tensor.view, tensor.shared) for tensor in kernels["fetch"].tensors} == {"x": ("ddr", ""), "y": ("ddr", "llb")}  # by `when`
    assert not any(tensor.shared for tensor in load_kernels(load_machine("vta"))["add"].tensors)
