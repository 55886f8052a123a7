"""Nodes that become one call compute the same, wherever they are cut out."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.imported import run
from tests.graph.onnx_builder import save
from tests.passes.random_networks import ANYTHING, inputs, random_network
from toolchain.graph.importing.load import load_graph
from toolchain.passes.convex import convex_groups
from toolchain.passes.outline import outline


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_any_convex_part_of_a_network(tmp_path_factory: pytest.TempPathFactory, seed: int, choice: int) -> None:
    net, rng = random_network(seed, ANYTHING, 7), np.random.default_rng(choice)
    model = load_graph(save(net.model(), tmp_path_factory.mktemp("o")))
    x, nodes = {"x": inputs(net, seed, 1)[0]}, list(model.graph)
    wanted, names = run(model, x), {value.name: value.shape for node in nodes for value in node.outputs}
    numbers = {node: k for k, node in enumerate(nodes)}
    before = [sorted({numbers[maker] for value in node.inputs if value is not None and (maker := value.producer()) is not None}) for node in nodes]
    groups = convex_groups(before, [bool(rng.integers(2)) for _ in nodes])
    calls = [outline(model, [nodes[k] for k in group], "parts", f"part{k}", {"label": str(k)}) for k, group in enumerate(groups)]
    model.graph.sort()
    for name, array in run(model, x).items():
        np.testing.assert_array_equal(array, wanted[name])
    for call, group in zip(calls, groups, strict=True):
        function = model.functions[call.op_identifier()]
        assert call.metadata_props["label"] == function.metadata_props["label"]
        assert len(function) == len(group)
        assert [value.name for value in function.outputs] == [value.name for value in call.outputs]
        assert all(value.shape == names[value.name] for value in call.outputs)


def test_constants_come_after_tensors_and_stay_in_the_graph(tmp_path: Path) -> None:
    net = random_network(7, ANYTHING, 9)
    model = load_graph(save(net.model(), tmp_path))
    held = dict(model.graph.initializers)
    call = outline(model, list(model.graph), "parts", "all", {})
    kinds = [value is not None and value.is_initializer() for value in call.inputs]
    assert kinds == sorted(kinds)
    assert dict(model.graph.initializers) == held
    assert isinstance(model.functions[call.op_identifier()], ir.Function)
