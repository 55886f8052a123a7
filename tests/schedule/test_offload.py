"""Why a machine does not take an integer call, in words; and that it takes what stands beside it."""

from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from tests.graph.imported import F, imported, normal
from tests.graph.onnx_builder import save
from tests.schedule.corners import corners, samples
from tests.slower import slower
from toolchain.graph.integers.functions import INTEGER, kind_of
from toolchain.graph.quantisation.table import calibrate
from toolchain.graph.regions import region_calls, region_function
from toolchain.graph.store import Store
from toolchain.passes.build import build_graph, calibration_table
from toolchain.passes.context import Context, Device
from toolchain.passes.fuse import Fuse
from toolchain.passes.pipeline import run_passes
from toolchain.passes.placement import is_operation
from toolchain.passes.quantize import Quantize
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.offload import channel_block, device_of
from toolchain.spec.load import load_file, load_machine
from toolchain.spec.model import Machine
from toolchain.spec.reasons import texts_of

n = helper.make_node
CONSTANTS = {"w": normal(0, 16, 16, 1, 1), "five": normal(1, 5, 16, 1, 1), "three": normal(2, 16, 16, 3, 3),
             "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "s": np.array([1, 1, 2, 2], F)}  # fmt: skip


@cache
def dpuv3() -> tuple[Machine, Device]:
    machine = load_machine("dpuv3")
    return machine, device_of(machine, load_kernels(machine))


def reasons(folder: Path, *nodes: onnx.NodeProto) -> dict[str, str]:
    """Of every integer operation, by its kind and name."""
    machine, device = dpuv3()
    assert machine.quantisation is not None
    base = imported(folder, list(nodes), (1, 16, 4, 4), CONSTANTS)
    context = Context(numerics=machine.quantisation, table=calibrate(base, {"x": normal(3, 2, 1, 16, 4, 4)}))
    model: ir.Model = run_passes(base, [Fuse(), Quantize()], context)
    return {f"{kind_of(node)} {node.name}": texts_of(device.refuses(node)) for node in model.graph if node.domain == INTEGER and is_operation(node)}


def conv(source: str, result: str, weights: str = "w", **attributes: object) -> onnx.NodeProto:
    return n("Conv", [source, weights], [result], result, **attributes)


def test_an_ordinary_network_is_taken(tmp_path: Path) -> None:
    nodes = [
        conv("x", "a"),
        n("Pad", ["a", "pads"], ["p"], "p"),
        conv("p", "b", "three"),
        n("MaxPool", ["b"], ["c"], "c", kernel_shape=[2, 2]),
        conv("c", "d"),
        n("Add", ["c", "d"], ["e"], "e"),
        n("Concat", ["d", "e"], ["f"], "f", axis=1),
        n("Resize", ["f", "", "s"], ["y"], "y", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    ]
    found = reasons(tmp_path, *nodes)
    assert len(found) == 8
    assert set(found.values()) == {""}


BLOCK = 16
REFUSED = {
    "beginning inside a block": (
        [conv("x", "a", "five"), conv("x", "b"), n("Concat", ["a", "b"], ["y"], "k", axis=1)],
        "concat k", f"'b.int8' would begin at channel 5 of the result, which is no multiple of {BLOCK}",
    ),
    "a tensor twice": ([conv("x", "a"), n("Concat", ["a", "a"], ["y"], "k", axis=1)], "concat k", "one tensor stands in it twice"),
    "part of another already": (
        [conv("x", "a"), conv("x", "b"), n("Concat", ["a", "b"], ["c"], "first", axis=1), n("Concat", ["b", "a"], ["d"], "second", axis=1),
         n("Sub", ["c", "d"], ["y"])],
        "concat second", "'b.int8' is part of what 'first' makes already",
    ),
    "padding for a sum": (
        [conv("x", "a"), n("Pad", ["a", "pads"], ["p"], "p"), n("Add", ["p", "p"], ["y"], "sum")],
        "pad p", "padding goes into a convolution or an average after it, and 'sum' reads this one",
    ),
    "padding for the user": (
        [conv("x", "a"), n("Pad", ["a", "pads"], ["y"], "p")],
        "pad p", "padding goes into a convolution or an average after it, and 'y.dequantize' reads this one",
    ),
    "a wide stride": ([conv("x", "y", strides=[9, 9])], "conv2d y", "a stride is at most 8"),
    "padding for a maximum of what may be negative": (
        [conv("x", "a"), n("Pad", ["a", "pads"], ["p"], "p"), n("MaxPool", ["p"], ["y"], "m", kernel_shape=[3, 3])],
        "pad p", "padding goes into a convolution or an average after it, and 'm' reads this one",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str, tmp_path: Path) -> None:
    nodes, which, reason = REFUSED[case]
    assert reason in reasons(tmp_path, *nodes)[which]


@pytest.mark.parametrize(("width", "wanted"), [(16, ""), (5, "'a.int8' would begin at channel 5 of the result, which is no multiple of 16")])
def test_sequences_are_joined_along_their_channels(width: int, wanted: str, tmp_path: Path) -> None:
    """[n, rows, channels]: what makes them puts them where the joined tensor is read."""
    machine, device = dpuv3()
    assert machine.quantisation is not None
    nodes = [n("MatMul", ["x", "left"], ["b"], "b"), n("MatMul", ["x", "right"], ["a"], "a"), n("Concat", ["b", "a"], ["y"], "y", axis=2)]
    base = imported(tmp_path, nodes, (1, 8, 16), {"left": normal(0, 16, width), "right": normal(1, 16, 16)})
    context = Context(numerics=machine.quantisation, table=calibrate(base, {"x": normal(3, 2, 1, 8, 16)}))
    model = run_passes(base, [Fuse(), Quantize()], context)
    assert {node.name: texts_of(device.refuses(node)) for node in model.graph if is_operation(node)} == {"b": "", "a": "", "y": wanted}


def test_padding_for_a_maximum_of_what_is_never_negative(tmp_path: Path) -> None:
    """Zeros around it are then the same as nothing."""
    nodes = [conv("x", "a"), n("Relu", ["a"], ["r"]), n("Pad", ["r", "pads"], ["p"], "p"), n("MaxPool", ["p"], ["y"], "m", kernel_shape=[3, 3])]
    assert reasons(tmp_path, *nodes)["pad p"] == ""


@pytest.mark.parametrize(("target", "block"), [("dpuv3", BLOCK), ("vta", BLOCK), ("dnnvm", 12), ("dnnvm:zu9", 16), ("stcp920", 32)])
def test_blocks_of_channels_follow_from_the_layouts(target: str, block: int) -> None:
    """Machines write whole words of this many channels, so no tensor begins inside another's word."""
    assert channel_block(load_machine(target)) == block


def test_a_layout_of_shifts_and_masks_is_taken_like_one_of_divisions(tmp_path: Path) -> None:
    path = Path(load_machine("dpuv3").path)
    old, new = "n // 4, h, w, c // 16, n % 4, c % 16", "n >> 2, h, w, c >> 4, n & 3, c & 15"
    text = path.read_text()
    assert text.count(f"map: n h w c -> {old}") == 1
    (tmp_path / path.name).write_text(text.replace(old, new))
    machine = load_file(tmp_path / path.name)
    assert machine.layouts[0].map != load_machine("dpuv3").layouts[0].map
    assert channel_block(machine) == BLOCK


@pytest.mark.parametrize("name", ["vta", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("dpuv3", "dnnvm"))])
def test_how_long_anything_takes_changes_no_stage_of_the_graph(name: str, tmp_path: Path) -> None:
    """The stage `graph` is not run again for another number of the section `timing`: what it leaves must be the same."""
    path, machine = save(corners(), tmp_path), load_machine(name)
    table, left = calibration_table(path, {}, samples(2)), list[object]()
    for one in (machine, slower(machine)):
        device = device_of(one, load_kernels(one))
        context = Context(str(path), numerics=one.quantisation, table=table, device=device, policy="all")
        model = build_graph(path, {}, context, Store(tmp_path / "stages"))
        stages = sorted((tmp_path / "stages").glob("*.onnx"))
        prices = [device.prices(list(region_function(model, call))) for call in region_calls(model)]
        assert prices
        left.append((prices, [stage.read_bytes() for stage in stages]))
    assert left[0] == left[1]
