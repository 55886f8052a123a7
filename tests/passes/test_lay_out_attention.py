"""The pass lays attention out for the machine that it is for: heads become whole blocks of a machine that has kernels for both halves.

Caches by heads become rows of sequences, with the same results, and their states stay by heads. A new row in the place of another is written with
flags that all layers share, with the same results, and becomes the machine's operation."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from tests.graph.encoder import encoder
from tests.graph.imported import node_of, run
from tests.passes.test_attention import BLOCKS, BOTH, device, loaded_from, softmax_of
from toolchain.graph.importing.load import load_graph
from toolchain.graph.integers.functions import FUSED
from toolchain.graph.rewrite import known_shape
from toolchain.graph.states import carried_pairs
from toolchain.operations.library import builtin_kinds
from toolchain.passes.attention import find_attention
from toolchain.passes.context import Context, Device
from toolchain.passes.fuse import Fuse
from toolchain.passes.lay_out_attention import LayOutAttention, lay_out_caches, lay_out_rows, spare_for


def queries_of(model: ir.Model) -> tuple[int, ...] | None:
    found = find_attention(softmax_of(model))
    assert found is not None
    return known_shape(found.queries)


@pytest.mark.parametrize(
    ("context", "channels"),
    [(BLOCKS, 128), (Context(), 96), (device(BOTH), 96), (device(frozenset({"linear"})), 96)],
    ids=["blocks of 32", "no machine", "no blocks", "no kernels"],
)
def test_heads_become_whole_blocks_of_a_machine_with_kernels(context: Context, channels: int, tmp_path: Path) -> None:
    model = loaded_from(encoder(width=96), tmp_path)
    LayOutAttention().run(model, context)
    assert queries_of(model) == (1, 16, channels)


def test_spare_zeros_fill_up_the_last_block_of_keys(tmp_path: Path) -> None:
    found = find_attention(softmax_of(loaded_from(encoder(rows=21), tmp_path)))
    assert found is not None
    assert (spare_for(BLOCKS.device, found), spare_for(None, found), spare_for(device(BOTH).device, found)) == (11, 0, 0)


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


def able_to(*computes: str) -> Device:
    return Device("mine", lambda node: (), computes=frozenset(computes))  # noqa: ARG005


FEEDS = {
    name: np.random.default_rng(k).normal(size=shape).astype(np.float32)
    for k, (name, shape) in enumerate({"past": (1, 2, 6, 4), "row": (1, 1, 8), "heads": (1, 2, 1, 4), "query": (1, 2, 1, 4)}.items())
}


@pytest.mark.parametrize("new", ["turned", "new", "heads"])
def test_rows_move_up_on_the_sequence(tmp_path: Path, new: str) -> None:
    model = network(tmp_path, new)
    wanted = run(model, FEEDS)
    lay_out_caches(model.graph, able_to("append_rows"))
    found = run(model, FEEDS)
    assert all(np.array_equal(found[name], array) for name, array in wanted.items())
    (join,) = [node for node in model.graph if node.op_type == "Concat"]
    assert join.attributes["axis"].as_int() == 1
    assert (join.inputs[1].name == "row") == (new == "turned")  # no heads are split and joined again
    assert carried_pairs(model.graph, {"past": "next"}) == {"next.past": "next.sequence"}


def test_readers_have_heads_of_their_own(tmp_path: Path) -> None:
    """So that attention finds a chain that nothing else reads."""
    model = network(tmp_path)
    lay_out_caches(model.graph, able_to("append_rows"))
    columns = next(node for node in model.graph if node.name == "columns" or node.outputs[0].name == "columns")
    assert columns.inputs[0] is not None
    assert len(columns.inputs[0].uses()) == 1
    assert not columns.inputs[0].is_graph_output()


@pytest.mark.parametrize("machine", [None, able_to("matmul")])
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
    lay_out_caches(model.graph, able_to("append_rows"))
    assert next(node for node in model.graph if node.op_type == "Concat").attributes["axis"].as_int() == 2
    assert Context("x").device is None


STEP = """<ir_version: 10, opset_import: ["": 21]>
step (int64[1] place, float[1, 6, 8] keys, float[1, 6, 8] values, float[1, 1, 8] key, float[1, ROWS, 8] value)
  => (float[1, 6, 8] next_keys, float[1, 6, 8] next_values) {
  slots = Constant <value_ints = [0, 1, 2, 3, 4, 5]> ()
  same = Equal (slots, place)
  sizes = Constant <value_ints = [1, 6, 1]> ()
  new = Reshape (same, sizes)
  next_keys = Where (new, key, keys)
  next_values = Where (new, value, values)
}"""


def step_network(folder: Path, rows: int = 1) -> ir.Model:
    onnx.save(onnx.parser.parse_model(STEP.replace("ROWS", str(rows))), folder / "step.onnx")
    return load_graph(folder / "step.onnx")


def feeds(place: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(place)
    shapes = {"keys": (1, 6, 8), "values": (1, 6, 8), "key": (1, 1, 8), "value": (1, 1, 8)}
    return {"place": np.array([place]), **{name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}}


def test_both_caches_read_one_row_of_flags(tmp_path: Path) -> None:
    model = step_network(tmp_path)
    before = [run(model, feeds(place)) for place in range(6)]
    lay_out_rows(model.graph, able_to("place_row"))
    for place, wanted in enumerate(before):
        found = run(model, feeds(place))
        assert all(np.array_equal(found[name], array) for name, array in wanted.items())
    flags = node_of(model, "Cast").outputs[0]
    assert [node.op_type for node, _ in flags.uses()] == ["Squeeze", "Squeeze"]


def test_a_row_in_its_place_becomes_one_operation(tmp_path: Path) -> None:
    """The truths of the comparison inside are none of the machine's tensors."""
    model = step_network(tmp_path)
    lay_out_rows(model.graph, able_to("place_row"))
    context = Context("step", device=able_to("place_row"), kinds=builtin_kinds())
    fused = Fuse().run(model, context)
    calls = [node for node in fused.graph if node.domain == FUSED]
    assert len(calls) == 2
    assert {call.op_type.split("__")[0] for call in calls} == {"place_row"}
    wanted, found = run(step_network(tmp_path), feeds(4)), run(fused, feeds(4))
    assert all(np.array_equal(found[name], array) for name, array in wanted.items())


@pytest.mark.parametrize("machine", [None, able_to("append_rows")])
def test_without_a_kernel_rows_stay(tmp_path: Path, machine: Device | None) -> None:
    model = step_network(tmp_path)
    lay_out_rows(model.graph, machine)
    assert not any(node.op_type == "Cast" for node in model.graph)


def test_as_many_new_rows_as_old_ones_are_no_row_in_its_place(tmp_path: Path) -> None:
    model = step_network(tmp_path, rows=6)
    lay_out_rows(model.graph, able_to("place_row"))
    assert [node.op_type for node in model.graph].count("Greater") == 1
