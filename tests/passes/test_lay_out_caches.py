"""Caches by heads become rows of sequences, with the same results, and their states stay by heads."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from tests.graph.imported import run
from toolchain.graph.importing.load import load_graph
from toolchain.graph.state_moves import carried_pairs
from toolchain.passes.context import Context, Device
from toolchain.passes.lay_out_caches import lay_out_caches

TEXT = """<ir_version: 10, opset_import: ["": 21]>
step (float[1, 2, 6, 4] past, float[1, 1, 8] row, float[1, 2, 1, 4] heads, float[1, 2, 1, 4] query)
  => (float[1, 2, 6, 4] next, float[1, 2, 1, 6] scores) {
  first = Constant <value_ints = [FIRST]> ()
  end = Constant <value_ints = [6]> ()
  axis = Constant <value_ints = [AXIS]> ()
  sizes = Constant <value_ints = [0, 0, 2, 4]> ()
  apart = Reshape (row, sizes)
  turned = Transpose <perm = [0, 2, 1, 3]> (apart)
  new = Add (turned, heads)
  kept = Slice (past, first, end, axis)
  next = Concat <axis = AXIS> (kept, NEW)
  columns = Transpose <perm = [0, 1, 3, 2]> (next)
  scores = MatMul (query, columns)
}"""


def network(folder: Path, new: str = "turned", first: int = 1, axis: int = 2) -> ir.Model:
    text = TEXT.replace("NEW", new).replace("FIRST", str(first)).replace("AXIS", str(axis))
    onnx.save(onnx.parser.parse_model(text), folder / "step.onnx")
    return load_graph(folder / "step.onnx")


def device(*computes: str) -> Device:
    return Device("mine", lambda node: (), computes=frozenset(computes))  # noqa: ARG005


FEEDS = {
    name: np.random.default_rng(k).normal(size=shape).astype(np.float32)
    for k, (name, shape) in enumerate({"past": (1, 2, 6, 4), "row": (1, 1, 8), "heads": (1, 2, 1, 4), "query": (1, 2, 1, 4)}.items())
}


@pytest.mark.parametrize("new", ["turned", "new", "heads"])
def test_rows_move_up_on_the_sequence(tmp_path: Path, new: str) -> None:
    model = network(tmp_path, new)
    wanted = run(model, FEEDS)
    lay_out_caches(model.graph, device("append_rows"))
    found = run(model, FEEDS)
    assert all(np.array_equal(found[name], array) for name, array in wanted.items())
    (join,) = [node for node in model.graph if node.op_type == "Concat"]
    assert join.attributes["axis"].as_int() == 1
    assert (join.inputs[1].name == "row") == (new == "turned")  # no heads are split and joined again
    assert carried_pairs(model.graph, {"past": "next"}) == {"next.past": "next.sequence"}


def test_readers_have_heads_of_their_own(tmp_path: Path) -> None:
    """So that attention finds a chain that nothing else reads."""
    model = network(tmp_path)
    lay_out_caches(model.graph, device("append_rows"))
    columns = next(node for node in model.graph if node.name == "columns" or node.outputs[0].name == "columns")
    assert columns.inputs[0] is not None
    assert len(columns.inputs[0].uses()) == 1
    assert not columns.inputs[0].is_graph_output()


@pytest.mark.parametrize("machine", [None, device("matmul")])
def test_without_a_kernel_they_stay(tmp_path: Path, machine: Device | None) -> None:
    model = network(tmp_path)
    before = ir.to_proto(model).SerializeToString(deterministic=True)
    lay_out_caches(model.graph, machine)
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before


def test_rows_that_stay_in_front_are_none_that_move_up(tmp_path: Path) -> None:
    text = TEXT.replace("first, end, axis", "none, last, axis").replace(
        "  end = ", "  none = Constant <value_ints = [0]> ()\n  last = Constant <value_ints = [5]> ()\n  end = "
    )
    onnx.save(onnx.parser.parse_model(text.replace("NEW", "turned").replace("FIRST", "1").replace("AXIS", "2")), tmp_path / "step.onnx")
    model = load_graph(tmp_path / "step.onnx")
    lay_out_caches(model.graph, device("append_rows"))
    assert next(node for node in model.graph if node.op_type == "Concat").attributes["axis"].as_int() == 2
    assert Context("x").device is None
