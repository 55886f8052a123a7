"""Slices of channels are read where their operands stand: nothing is cut at a Split, and why it would be otherwise."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.graph.onnx_builder import model
from tests.schedule.test_read_region import parted
from toolchain.schedule.regions.region import Slice

n = helper.make_node


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
