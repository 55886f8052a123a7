"""Regions read back give, by the integer reference, what ONNX Runtime gives for the whole model; the corners go where they should."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from tests.graph.onnx_builder import save
from tests.passes.test_quantize import branchy
from tests.passes.test_quantize import samples as branchy_samples
from tests.reasons import said
from tests.schedule.corners import corners, samples
from tests.schedule.made_regions import expected
from toolchain.graph.integers.calls import integer_tensors
from toolchain.graph.integers.functions import kind_of
from toolchain.graph.regions import BATCH, KERNEL, REGION, WAY, region_calls, region_function
from toolchain.graph.session import run_session
from toolchain.graph.store import Store, open_model
from toolchain.passes.build import build_graph, calibration_table
from toolchain.passes.context import Context
from toolchain.schedule.kernel_selection import images_per_run
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.offload import device_of
from toolchain.schedule.read_region import read_region
from toolchain.schedule.regions.region import Region, Slice
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine

Samples = Callable[[int], dict[str, np.ndarray]]


def parted(proto: onnx.ModelProto, inputs: Samples, target: str, folder: Path) -> tuple[list[Region], dict[str, str], dict[str, np.ndarray]]:
    """Regions, why what stays on the host does (by node), and what ONNX Runtime finds in every tensor of as many images as a run takes."""
    path, machine = save(proto, folder), load_machine(target)
    kernels, images = load_kernels(machine), images_per_run(machine)
    table = calibration_table(path, {}, inputs(4))
    context = Context(str(path), numerics=machine.quantisation, table=table, device=device_of(machine, kernels), policy="all")
    model = build_graph(path, {}, context, Store(folder / "stages"))
    whole = ir.load(folder / "stages" / "13-quantize.onnx")
    session = open_model(whole, integer_tensors(whole))
    every = [run_session(session, {name: array[k] for name, array in inputs(images).items()}) for k in range(images)]
    found = {name: np.concatenate([one[name] for one in every]) for name in every[0]}
    reasons = {node.name or "": said(node) for node in model.graph if node.domain != REGION and kind_of(node)}
    assert machine.quantisation is not None
    stored = ir.load(folder / "stages" / "14-partition.onnx")
    regions = [read_region(machine, kernels, stored, call) for call in region_calls(stored)]
    for call, region in zip(region_calls(model), regions, strict=True):
        function = region_function(model, call)
        assert [bound.kernel for bound in region.operations] == [node.metadata_props[KERNEL] for node in function if KERNEL in node.metadata_props]
        assert region.outputs == tuple(value.name for value in function.outputs)
        given = {name: found[name].reshape(region.tensors[name]) for name in region.inputs}
        for name, array in expected(region, given, machine.quantisation).items():
            np.testing.assert_array_equal(array, found[name].reshape(region.tensors[name]), err_msg=name)
    return regions, reasons, found


@pytest.mark.parametrize("target", ["vta", "dpuv3"])
def test_every_kind_of_operation(target: str, tmp_path: Path) -> None:
    regions, reasons, _ = parted(branchy(), branchy_samples, target, tmp_path)
    assert {bound.operation.kind.name for region in regions for bound in region.operations} >= {
        "conv2d",
        "add",
        "max_pool",
        "average_pool",
        "upsample",
    }
    assert "depthwise" not in reasons


@pytest.mark.parametrize("target", ["vta", "dpuv3"])
def test_the_corners(target: str, tmp_path: Path) -> None:
    regions, reasons, _ = parted(corners(), samples, target, tmp_path)
    operations = {bound.operation.name: bound for region in regions for bound in region.operations}
    slices = {name: part for region in regions for name, part in region.slices.items()}
    assert operations["after_pad"].operation.numbers["pad_left"] == 2
    assert operations["after_pad"].nodes == ("pad", "after_pad")
    assert operations["grouped"].operation.arrays["weight"].shape == (32, 32, 3, 3)
    assert operations["picture_to_row"].operation.arrays["weight"].shape == (24, 64, 4, 4)
    assert slices["inner.int8"] == Slice("nested.int8", 0)
    assert slices["g.int8"] == Slice("inner.int8", 16)
    assert slices["a.int8"] == Slice("nested.int8", 48)
    assert slices["odd.int8"] == Slice("short.int8", 16)
    assert reasons["off_the_block"] == "'big.int8' would begin at channel 8 of the result, which is no multiple of 16"
    assert "is part of what 'inner' makes already" in reasons["a_part_of_two"]
    assert "'max_of_pad' reads this one" in reasons["pad2"]
    assert operations["max_of_relu"].operation.numbers["pad_left"] == 1
    assert operations["mix"].tensors["y"] == "mixed_up.int8"
    assert operations["mix"].nodes == ("mix", "mixed_up.apart", "mixed_up.swapped", "mixed_up")
    assert "'g.int8' has none" in reasons["g_up"]
    assert reasons["rows_sum"] == "it computes with what was flattened"
    assert "is part of what 'nested' makes already" in reasons["wide"]
    assert not {"row_sum", "last", "dilated", "max_of_pad"} & set(reasons)


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("branchy")
    parted(branchy(), branchy_samples, "vta", folder)
    return folder / "stages" / "14-partition.onnx"


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        (KERNEL, "conv3d", "E1010 .* to kernel 'conv3d', which machine 'vta' does not have"),
        (KERNEL, "add", "E1010 .* to kernel 'add', which computes add"),
        (KERNEL, "", "E1010 .* to kernel ''"),
        (WAY, "7", "E1010 .* in way 7"),
        (WAY, "-1", "E1010 the graph says nothing of 'tilewright.way'"),
        (WAY, "9" * 5000, "E1010 the graph says nothing of 'tilewright.way'"),
        (BATCH, "two", "E1010 the graph says nothing of 'tilewright.batch' for 'region0'"),
    ],
)
def test_an_edited_choice_is_checked(key: str, text: str, words: str, stages: Path) -> None:
    machine, model = load_machine("vta"), ir.load(stages)
    call = region_calls(model)[0]
    function = region_function(model, call)
    holder = function if key == BATCH else next(node for node in function if kind_of(node) == "conv2d")
    holder.metadata_props[key] = text
    with pytest.raises(UserError, match=words):
        read_region(machine, load_kernels(machine), model, call)


def test_reading_a_region_tries_no_tile(stages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tried(problem: object) -> bool:
        raise AssertionError(problem)

    monkeypatch.setattr("toolchain.schedule.kernel_selection.tile_fits", tried)
    machine, model = load_machine("vta"), ir.load(stages)
    assert all(read_region(machine, load_kernels(machine), model, call).operations for call in region_calls(model))
