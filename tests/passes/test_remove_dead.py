"""What no output depends on goes, inputs stay."""

from pathlib import Path

import numpy as np
from onnx import helper

from tests.graph.imported import F, normal, run
from tests.graph.onnx_builder import model, save
from toolchain.graph.importing.load import load_graph
from toolchain.passes.context import Context
from toolchain.passes.remove_dead import RemoveDead

n = helper.make_node


def test_chains_that_end_nowhere(tmp_path: Path) -> None:
    nodes = [
        n("Add", ["x", "k"], ["a"], "read"),
        n("Mul", ["x", "m"], ["b"], "dead"),
        n("Neg", ["b"], ["c"], "deader"),
        n("Split", ["a"], ["y", "unread"], "split", axis=0, num_outputs=2),
    ]
    proto = model(nodes, {"x": [2, 3], "unused": [1]}, {"y": None}, {"k": F(1), "m": F(2)})
    graph, x = load_graph(save(proto, tmp_path)), {"x": normal(0, 2, 3), "unused": np.zeros(1, F)}
    wanted = run(graph, x)["y"]
    result = RemoveDead().run(graph, Context())
    assert [node.name for node in result.graph] == ["read", "split"]
    assert list(result.graph.initializers) == ["k"]
    assert [value.name for value in result.graph.inputs] == ["x", "unused"]
    np.testing.assert_array_equal(run(result, x)["y"], wanted)
