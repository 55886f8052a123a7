"""Two float models held against each other: what is the same under another name is the same, what is not is named."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from tests.graph.onnx_builder import model, save
from toolchain.graph.equivalence import find_mismatch
from toolchain.graph.load import load_graph

n = helper.make_node
HEADS = {"past": [1, 4, 3], "new": [1, 2, 3]}
JOINED = n("Concat", ["past", "new"], ["joined"], "join", axis=1)


def loaded(nodes: list, outputs: dict, folder: Path) -> ir.Model:  # type: ignore[type-arg]
    return load_graph(save(model(nodes, HEADS, outputs), folder))


def test_a_value_that_is_handed_out_under_another_name(tmp_path: Path) -> None:
    """The later model reads the output `present` where the earlier one reads what it is a copy of."""
    ends = {"y": [1, 6, 3], "present": [1, 6, 3]}
    copied = n("Identity", ["joined"], ["present"], "copy")
    before = loaded([JOINED, copied, n("Relu", ["joined"], ["y"], "relu")], ends, tmp_path)
    after = loaded([n("Concat", ["past", "new"], ["present"], "join", axis=1), n("Relu", ["present"], ["y"], "relu")], ends, tmp_path)
    assert find_mismatch(before, after, {}) is None
    assert find_mismatch(after, before, {}) is None


def test_another_function_of_the_same_value_is_named(tmp_path: Path) -> None:
    ends = {"y": [1, 6, 3], "present": [1, 6, 3]}
    before = loaded([JOINED, n("Identity", ["joined"], ["present"], "copy"), n("Relu", ["joined"], ["y"], "relu")], ends, tmp_path)
    after = loaded([n("Concat", ["past", "new"], ["present"], "join", axis=1), n("Abs", ["present"], ["y"], "wrong")], ends, tmp_path)
    found = find_mismatch(before, after, {})
    assert found is not None
    assert (found.tensor, found.node, found.operator) == ("y", "wrong", "Abs")


@pytest.mark.parametrize(("factor", "differs"), [(1.0, False), (1.0 + 1e-6, False), (1.01, True)])
def test_rounding_is_no_difference(factor: float, differs: bool, tmp_path: Path) -> None:
    def scaled(factor: float) -> ir.Model:
        proto = model([n("Mul", ["past", "f"], ["y"], "scale")], {"past": [1, 4, 3]}, {"y": [1, 4, 3]}, {"f": np.float32(factor)})
        proto.graph.node[0].input[1] = proto.graph.initializer[0].name = f"f{factor}"
        return load_graph(save(proto, tmp_path))

    assert (find_mismatch(scaled(1.0), scaled(factor), {}) is not None) == differs
