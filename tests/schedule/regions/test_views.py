"""The block of an index is a law of a map's values, whatever its text. Slices of channels are read where their operands stand: nothing is cut
at a Split, and why it would be otherwise."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.graph.onnx_builder import model
from tests.schedule.test_read_region import parted
from tests.spec.small import small
from toolchain.abi.packing import view_packing
from toolchain.schedule.regions.region import Slice
from toolchain.schedule.regions.views import NONE, block_of
from toolchain.spec.model import Machine

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


@given(st.integers(1, 40), st.integers(0, 3), st.integers(1, 50))
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
