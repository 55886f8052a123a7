"""Rotary positions are found in the spellings of exporters, and in no others; which tables name each angle twice, and their tensors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from tests.graph.imported import imported, normal, run
from tests.graph.importing.test_fused_layers import network, vendor
from tests.graph.llama import Shape, llama
from tests.graph.onnx_builder import n
from toolchain.graph.importing.load import load_graph
from toolchain.passes.rotary import Rotary, Tables, find_rotary, is_doubled, table_shape

SHAPES = {
    "halves": Shape(),
    "interleaved": Shape(interleaved=True),
    "the first channels": Shape(turned=16),
    "the first pairs": Shape(turned=8, interleaved=True),
    "computed": Shape(computed=True),
    "computed and interleaved": Shape(computed=True, interleaved=True),
}


def loaded(model: onnx.ModelProto, folder: Path) -> ir.Model:
    onnx.save(model, folder / "model.onnx")
    return load_graph(folder / "model.onnx")


def found_in(model: ir.Model) -> list[Rotary]:
    found = [each for node in model.graph if (each := find_rotary(node)) is not None]
    return [each for each in found if not any(each.taken[0] in other.taken[1:] for other in found)]


@pytest.mark.parametrize("name", SHAPES)
def test_those_of_exporters(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    found = found_in(loaded(llama(shape), tmp_path))
    assert [each.x.name for each in found] == ["layer0.q.heads", "layer0.k.heads"]
    assert {(each.half, each.interleaved, each.doubled) for each in found} == {(shape.of_turned // 2, shape.interleaved, True)}
    assert {(each.cos.name, each.sin.name) for each in found} == {("cos", "sin")}


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("width", [0, 8])
def test_those_of_one_operator(width: int, interleaved: bool, tmp_path: Path) -> None:
    angles = normal(1, 9, (width or 16) // 2)
    more: dict[str, Any] = {"rotary_embedding_dim": width, "num_heads": 2} if width else {}
    node = vendor("RotaryEmbedding", ["x", "places", "cos", "sin"], interleaved=int(interleaved), **more)
    given = {"x": normal(0, 1, 4, 32), "places": np.array([[0, 1, 2, 3]])}
    (found,) = found_in(loaded(network([node], given, {"cos": np.cos(angles), "sin": np.sin(angles)}), tmp_path))
    assert (found.half, found.interleaved, found.doubled, found.x.shape) == ((width or 16) // 2, interleaved, False, ir.Shape((1, 4, 2, 16)))


def changed(model: onnx.ModelProto, name: str, array: np.ndarray) -> onnx.ModelProto:
    (place,) = [number for number, each in enumerate(model.graph.initializer) if each.name == name]
    model.graph.initializer[place].CopyFrom(numpy_helper.from_array(array, name))
    return model


def test_tables_with_an_angle_for_each_channel_are_no_rotation(tmp_path: Path) -> None:
    shape = Shape()
    table = np.cos(np.arange(shape.rows * shape.inner, dtype=np.float32)).reshape(1, 1, shape.rows, shape.inner)
    assert not found_in(loaded(changed(llama(shape), "cos", table), tmp_path))


@pytest.mark.parametrize(("kind", "other"), [("Neg", "Abs"), ("Add", "Sub")])
def test_other_sums_are_no_rotation(kind: str, other: str, tmp_path: Path) -> None:
    model = llama()
    for node in model.graph.node:
        if node.name in ("layer0.q.minus", "layer0.q.turned", "layer0.k.minus", "layer0.k.turned") and node.op_type == kind:
            node.op_type = other
    assert not found_in(loaded(model, tmp_path))


def test_a_product_that_another_node_reads_stays(tmp_path: Path) -> None:
    model = llama()
    model.graph.output.append(onnx.ValueInfoProto(name="layer0.q.kept"))
    assert [each.x.name for each in found_in(loaded(model, tmp_path))] == ["layer0.k.heads"]


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
