"""Tables of rotary positions: which name each angle twice, and what is made of them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from tests.graph.imported import imported, normal, run
from tests.graph.onnx_builder import n
from toolchain.passes.rotary_tables import Tables, is_doubled, table_shape

TWICE = np.array([[0.5, 1.0, 0.5, 1.0], [2.0, 3.0, 2.0, 3.0]], np.float32)
SIDE = np.array([[0.5, 0.5, 1.0, 1.0], [2.0, 2.0, 3.0, 3.0]], np.float32)
JOINED = [n("Concat", ["x", "x"], ["c"], "c", axis=-1)]
STACKED = [
    n("Unsqueeze", ["x", "last"], ["u"], "u"),
    n("Concat", ["u", "u"], ["s"], "s", axis=-1),
    n("Reshape", ["s", "size"], ["c"], "c"),
]
BEHIND = [n("Cos", ["c"], ["d"], "d"), n("Mul", ["d", "half"], ["e"], "e"), n("Unsqueeze", ["e", "first"], ["y"], "y")]
CONSTANTS = {"last": np.array([-1]), "first": np.array([1]), "size": np.array([1, 3, 8]), "half": np.array(0.5, np.float32)}


def graph(nodes: Sequence[onnx.NodeProto], folder: Path) -> ir.Model:
    """Of x [1, 3, 4] to y [1, 1, 3, 8]."""
    used = {name for node in nodes for name in node.input}
    return imported(folder, nodes, (1, 3, 4), {name: array for name, array in CONSTANTS.items() if name in used})


@pytest.mark.parametrize("interleaved", [False, True])
def test_of_computed_tables_each_angle_once(interleaved: bool, tmp_path: Path) -> None:
    model, x = graph([*(STACKED if interleaved else JOINED), *BEHIND], tmp_path), {"x": normal(0, 1, 3, 4)}
    value = model.graph.outputs[0]
    assert is_doubled(value, interleaved)
    assert not is_doubled(value, not interleaved)
    tables = Tables(model.graph)
    once = tables.of(value, (1, 3, 4), interleaved)
    assert tables.of(value, (1, 3, 4), interleaved) is once
    model.graph.outputs.append(once)
    found = run(model, x)
    np.testing.assert_array_equal(found[once.name or ""], found["y"][:, 0, :, ::2] if interleaved else found["y"][:, 0, :, :4])


def test_other_sums_and_other_axes_are_not_doubled(tmp_path: Path) -> None:
    other = [n("Concat", ["x", "z"], ["c"], "c", axis=-1), *BEHIND]
    assert not is_doubled(graph([n("Neg", ["x"], ["z"], "z"), *other], tmp_path).graph.outputs[0], False)
    rows = imported(tmp_path, [n("Concat", ["x", "x"], ["y"], "y", axis=1)], (1, 3, 4))
    assert not is_doubled(rows.graph.outputs[0], False)


@pytest.mark.parametrize(("array", "interleaved"), [(TWICE, False), (SIDE, True)])
def test_of_constants_each_angle_once(array: np.ndarray, interleaved: bool, tmp_path: Path) -> None:
    model = imported(tmp_path, [n("Add", ["x", "table"], ["y"], "y")], (1, 2, 4), {"table": array[None]})
    value = model.graph.initializers["table"]
    assert (is_doubled(value, interleaved), is_doubled(value, not interleaved)) == (True, False)
    once, again = (Tables(model.graph).of(value, (1, 2, 2), interleaved) for _ in range(2))
    assert again is once
    model.graph.outputs.append(once)
    np.testing.assert_array_equal(run(model, {"x": normal(0, 1, 2, 4)})[once.name or ""], [[[0.5, 1.0], [2.0, 3.0]]])


def test_the_shape_of_tables() -> None:
    def of(*shape: int, by_heads: bool = True) -> tuple[int, int, int] | None:
        return table_shape(ir.Value(name="t", shape=ir.Shape(shape)), 2, 5, 4, by_heads)

    assert [of(5, 8), of(1, 1, 5, 8), of(2, 1, 5, 4), of(2, 5, 1, 4, by_heads=False)] == [(1, 5, 4), (1, 5, 4), (2, 5, 4), (2, 5, 4)]
    assert [of(1, 3, 5, 8), of(1, 1, 1, 8), of(3, 1, 5, 8), of(2, 1, 5, 4, by_heads=False)] == [None] * 4
