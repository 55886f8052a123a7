"""Rotary positions are found in the spellings of exporters, and in no others."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from tests.graph.imported import normal
from tests.graph.importing.test_fused_layers import network, vendor
from tests.graph.llama import Shape, llama
from toolchain.graph.importing.load import load_graph
from toolchain.passes.rotary import Rotary, find_rotary

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
