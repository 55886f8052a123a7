"""A Pad before a max pool becomes the pool's own padding where the results stay the same, and only there."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.graph.imported import F, imported, normal, run
from toolchain.passes.context import Context
from toolchain.passes.merge_pads import MergePads

n = helper.make_node
LEAST = float(np.finfo(np.float32).min)


def padded(tmp_path: Path, fill: float, margins: list[int], relu: bool, **pool: object) -> tuple[ir.Model, dict[str, np.ndarray]]:
    nodes = [n("Relu", ["x"], ["r"])] if relu else []
    nodes += [n("Pad", ["r" if relu else "x", "p", "v"], ["a"]), n("MaxPool", ["a"], ["y"], **({"kernel_shape": [3, 3]} | pool))]
    graph = imported(tmp_path, nodes, constants={"p": np.array(margins, np.int64), "v": F(fill)}, x=(1, 3, 6, 6))
    return graph, {"x": normal(0, 1, 3, 6, 6)}


def kinds(graph: ir.Model) -> list[str]:
    return [node.op_type for node in graph.graph]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([LEAST, -np.inf, -1e6, 0.0, 2.0]),
    st.lists(st.integers(0, 3), min_size=4, max_size=4),
    st.booleans(),
    st.lists(st.integers(0, 1), min_size=4, max_size=4),
    st.integers(1, 2),
)
def test_the_results_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, fill: float, sides: list[int], relu: bool, own: list[int], stride: int
) -> None:
    pads = [0, 0, *sides[:2], 0, 0, *sides[2:]]
    graph, x = padded(tmp_path_factory.mktemp("m"), fill, pads, relu, pads=own, strides=[stride, stride])
    (wanted,) = run(graph, x).values()
    made = MergePads().run(graph, Context())
    (found,) = run(made, x).values()
    np.testing.assert_array_equal(found, wanted)
    fits = all(a + b < 3 for a, b in zip(sides, own, strict=True))
    assert ("Pad" in kinds(made)) == (not fits or fill > (0.0 if relu else LEAST))


@pytest.mark.parametrize(
    "pool", [{"dilations": [2, 2], "pads": [0, 0, 0, 0]}, {"auto_pad": "SAME_UPPER"}, {"kernel_shape": [1, 1]}], ids=["dilated", "automatic", "small"]
)
def test_windows_that_could_miss_the_picture_keep_the_pad(tmp_path: Path, pool: dict[str, object]) -> None:
    graph, _ = padded(tmp_path, LEAST, [0, 0, 1, 1, 0, 0, 1, 1], relu=False, **pool)
    assert "Pad" in kinds(MergePads().run(graph, Context()))


def test_padded_channels_and_cropped_rows_stay(tmp_path: Path) -> None:
    for number, pads in enumerate(([0, 1, 0, 0, 0, 0, 0, 0], [0, 0, -1, 0, 0, 0, 0, 0])):
        (folder := tmp_path / str(number)).mkdir()
        graph, _ = padded(folder, LEAST, pads, relu=False)
        assert "Pad" in kinds(MergePads().run(graph, Context()))


def test_a_padded_tensor_with_another_reader_stays(tmp_path: Path) -> None:
    nodes = [n("Pad", ["x", "p", "v"], ["a"]), n("MaxPool", ["a"], ["m"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]), n("Add", ["a", "m"], ["y"])]
    graph = imported(tmp_path, nodes, constants={"p": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64), "v": F(LEAST)})
    assert "Pad" in kinds(MergePads().run(graph, Context()))
