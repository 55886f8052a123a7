"""A product whose parts alone are read becomes a product for each, with the same results."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.graph.imported import normal, run
from tests.graph.onnx_builder import n
from toolchain.graph.importing.load import load_graph

Array = np.ndarray
WIDTH = 12


def network(folder: Path, cuts: list[tuple[int, int, int]], bias: bool = False, handed_out: bool = False) -> Path:
    """x [2, 3, 4] times weights [4, 12], of which columns are cut out: the first, the stop and the step of each."""
    nodes = [n("MatMul", ["x", "w"], ["p"], "p"), *([n("Add", ["b", "p"], ["q"], "q")] if bias else [])]
    whole, constants = nodes[-1].output[0], {"w": normal(1, 4, WIDTH), "b": normal(2, WIDTH), "axis": np.array([-1])}
    for number, cut in enumerate(cuts):
        ends = [f"{number}.{word}" for word in ("start", "stop", "step")]
        constants |= {name: np.array([value]) for name, value in zip(ends, cut, strict=True)}
        nodes.append(n("Slice", [whole, ends[0], ends[1], "axis", ends[2]], [f"y{number}"], f"cut{number}"))
    names = [f"y{number}" for number in range(len(cuts))] + ([whole] if handed_out else [])
    graph = helper.make_graph(
        nodes,
        "parts",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 4])],
        [onnx.ValueInfoProto(name=name) for name in names],
        [numpy_helper.from_array(array, name) for name, array in constants.items() if bias or name != "b"],
    )
    path = folder / "parts.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


@pytest.mark.parametrize("bias", [False, True])
def test_each_part_has_a_product_of_its_own(tmp_path: Path, bias: bool) -> None:
    path = network(tmp_path, [(0, 6, 1), (6, 9, 1), (9, WIDTH, 1)], bias)
    model, feeds = load_graph(path), {"x": normal(0, 2, 3, 4)}
    wanted, found = run(path, feeds), run(model, feeds)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-6, atol=1e-6)
    kinds = [node.op_type for node in model.graph]
    assert sorted(kinds) == ["Add"] * 3 * bias + ["MatMul"] * 3
    assert sorted(
        value.const_value.shape[-1] for value in model.graph.initializers.values() if value.const_value and len(value.const_value.shape) == 2
    ) == [3, 3, 6]


@pytest.mark.parametrize(
    ("cuts", "handed_out"),
    [([(0, 6, 1)], False), ([(0, 6, 1), (5, WIDTH, 1)], False), ([(0, 6, 2), (6, WIDTH, 1)], False), ([(0, 6, 1), (6, WIDTH, 1)], True)],
    ids=["one", "overlapping", "strided", "handed out"],
)
def test_others_stay(tmp_path: Path, cuts: list[tuple[int, int, int]], handed_out: bool) -> None:
    model = load_graph(network(tmp_path, cuts, handed_out=handed_out))
    assert [node.op_type for node in model.graph].count("MatMul") == 1
