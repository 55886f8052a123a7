"""The model as it was given, with the placement of every node in its metadata."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.reasons import against
from toolchain.report.annotated import annotated
from toolchain.report.costs import CostRow, Costs, Crossings
from toolchain.report.explain import Explanation
from toolchain.report.placement import FOLDED, HOST, MACHINE, Placed, Placement

NONE = Crossings(0, 0.0, 0)
PLACED = (
    Placed("same", "Identity", FOLDED, "", "", "", "taken away by the pass remove_identity", 0, 0),
    Placed("layer", "Conv", MACHINE, "layer", "conv2d", "region0", "", 64, 128, "vta"),
    Placed("gate", "Sigmoid", HOST, "", "", "", "it has no such operation", 0, 64, refusals={"dpuv3": against("nor has this one")}),
)
ROWS = (
    CostRow("region0", MACHINE, "Conv", ("layer",), 1.5, 0.25, 0.5, 0.25, 4.0, 64, 128, "", "vta"),
    CostRow("gate", HOST, "Sigmoid", ("gate",), 0.5, 0.0, 0.0, 0.0, 0.5, 0, 64, "it has no such operation"),
)
FOUND = Explanation("m", "vta", "", Placement(PLACED, 0), Costs(1, True, ROWS, (), NONE, NONE, NONE), (), (), (), (), {})


def stored(folder: Path) -> Path:
    """Its weight stands in a file beside it."""
    nodes = [
        helper.make_node("Identity", ["x"], ["i"], "same"),
        helper.make_node("Conv", ["i", "w"], ["a"], "layer"),
        helper.make_node("Sigmoid", ["a"], ["y"], "gate"),
        helper.make_node("Identity", ["y"], ["z"], "unknown"),
    ]
    x, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, 4, 4]) for name in "xz")
    graph = helper.make_graph(nodes, "g", [x], [z], [numpy_helper.from_array(np.ones((4, 4, 1, 1), np.float32), "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    return folder / "m.onnx"


def test_every_node_says_where_it_is_and_what_it_costs_on_each_side(tmp_path: Path) -> None:
    model = annotated(onnx.load(stored(tmp_path), load_external_data=False), FOUND)
    told = {node.name: {entry.key.removeprefix("tilewright."): entry.value for entry in node.metadata_props} for node in model.graph.node}
    assert told == {
        "same": {"where": "folded", "reason": "taken away by the pass remove_identity", "macs": "0"},
        "layer": {
            "where": "machine", "target": "vta", "region": "region0", "operation": "layer", "computes": "conv2d", "macs": "64",
            "region_ms": "1.5", "region_border_ms": "1", "region_host_ms": "4",
        },
        "gate": {
            "where": "host", "reason": "it has no such operation", "macs": "0", "refusal.dpuv3": "nor has this one", "ms": "0.5", "border_ms": "0",
        },
        "unknown": {},
    }  # fmt: skip
    assert model.graph.doc_string == "m on vta: 3 ms for a run, estimated"


def test_the_file_is_whole_without_the_weights(tmp_path: Path) -> None:
    model = annotated(onnx.load(stored(tmp_path), load_external_data=False), FOUND)
    onnx.checker.check_model(model, full_check=True)
    assert [value.name for value in model.graph.input] == ["x", "w"]
    assert not model.graph.initializer
