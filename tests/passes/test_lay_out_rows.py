"""A new row in the place of another is written with flags that all layers share, with the same results, and becomes the machine's operation."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from tests.graph.imported import node_of, run
from toolchain.graph.importing.load import load_graph
from toolchain.graph.integers.functions import FUSED
from toolchain.operations.library import builtin_kinds
from toolchain.passes.context import Context, Device
from toolchain.passes.fuse import Fuse
from toolchain.passes.lay_out_rows import lay_out_rows

TEXT = """<ir_version: 10, opset_import: ["": 21]>
step (int64[1] place, float[1, 6, 8] keys, float[1, 6, 8] values, float[1, 1, 8] key, float[1, ROWS, 8] value)
  => (float[1, 6, 8] next_keys, float[1, 6, 8] next_values) {
  slots = Constant <value_ints = [0, 1, 2, 3, 4, 5]> ()
  same = Equal (slots, place)
  sizes = Constant <value_ints = [1, 6, 1]> ()
  new = Reshape (same, sizes)
  next_keys = Where (new, key, keys)
  next_values = Where (new, value, values)
}"""


def network(folder: Path, rows: int = 1) -> ir.Model:
    onnx.save(onnx.parser.parse_model(TEXT.replace("ROWS", str(rows))), folder / "step.onnx")
    return load_graph(folder / "step.onnx")


def device(*computes: str) -> Device:
    return Device("mine", lambda node: (), computes=frozenset(computes))  # noqa: ARG005


def feeds(place: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(place)
    shapes = {"keys": (1, 6, 8), "values": (1, 6, 8), "key": (1, 1, 8), "value": (1, 1, 8)}
    return {"place": np.array([place]), **{name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}}


def test_both_caches_read_one_row_of_flags(tmp_path: Path) -> None:
    model = network(tmp_path)
    before = [run(model, feeds(place)) for place in range(6)]
    lay_out_rows(model.graph, device("place_row"))
    for place, wanted in enumerate(before):
        found = run(model, feeds(place))
        assert all(np.array_equal(found[name], array) for name, array in wanted.items())
    flags = node_of(model, "Cast").outputs[0]
    assert [node.op_type for node, _ in flags.uses()] == ["Squeeze", "Squeeze"]


def test_it_becomes_one_operation(tmp_path: Path) -> None:
    """The truths of the comparison inside are none of the machine's tensors."""
    model = network(tmp_path)
    lay_out_rows(model.graph, device("place_row"))
    context = Context("step", device=device("place_row"), kinds=builtin_kinds())
    fused = Fuse().run(model, context)
    calls = [node for node in fused.graph if node.domain == FUSED]
    assert len(calls) == 2
    assert {call.op_type.split("__")[0] for call in calls} == {"place_row"}
    wanted, found = run(network(tmp_path), feeds(4)), run(fused, feeds(4))
    assert all(np.array_equal(found[name], array) for name, array in wanted.items())


@pytest.mark.parametrize("machine", [None, device("append_rows")])
def test_without_a_kernel_they_stay(tmp_path: Path, machine: Device | None) -> None:
    model = network(tmp_path)
    lay_out_rows(model.graph, machine)
    assert not any(node.op_type == "Cast" for node in model.graph)


def test_as_many_new_rows_as_old_ones_are_no_row_in_its_place(tmp_path: Path) -> None:
    model = network(tmp_path, rows=6)
    lay_out_rows(model.graph, device("place_row"))
    assert [node.op_type for node in model.graph].count("Greater") == 1
