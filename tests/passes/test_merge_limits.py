"""Limits that follow each other become one: the same values, and what is known of a quantised model's own tensor stays known."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.graph.imported import F, imported, node_of, normal, run
from toolchain.graph.equivalence.piecewise import STEP
from toolchain.passes.context import Context
from toolchain.passes.merge_limits import MergeLimits
from toolchain.passes.remove_qdq import RANGE

n = helper.make_node
BOUNDS = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 6.0])
LIMITS = st.one_of(st.none(), st.tuples(BOUNDS, BOUNDS).filter(lambda pair: pair[0] < pair[1]))
"""None is a ReLU."""


@settings(max_examples=30, deadline=None)
@given(st.lists(LIMITS, min_size=1, max_size=4))
def test_a_chain_of_limits(tmp_path_factory: pytest.TempPathFactory, limits: list[tuple[float, float] | None]) -> None:
    nodes, constants = [], {}
    for k, pair in enumerate(limits):
        constants |= {} if pair is None else {f"l{k}": F(pair[0]), f"h{k}": F(pair[1])}
        nodes.append(n("Relu" if pair is None else "Clip", [f"t{k - 1}" if k else "x", *([] if pair is None else [f"l{k}", f"h{k}"])], [f"t{k}"]))
    graph, x = imported(tmp_path_factory.mktemp("m"), nodes, constants=constants), {"x": normal(0, 1, 3, 4, 4) * F(4)}
    (wanted,) = run(graph, x).values()
    (found,) = run(MergeLimits().run(graph, Context()), x).values()
    np.testing.assert_array_equal(found, wanted)
    low, high = max(0 if pair is None else pair[0] for pair in limits), min(np.inf if pair is None else pair[1] for pair in limits)
    if low < high:  # limits that leave one value stay as they are
        assert [node.op_type for node in graph.graph] == ["Relu" if (low, high) == (0, np.inf) else "Clip"]


def test_a_tensor_between_with_another_reader_stays(tmp_path: Path) -> None:
    nodes = [n("Relu", ["x"], ["a"]), n("Clip", ["a", "", "six"], ["b"]), n("Add", ["a", "b"], ["y"])]
    graph = MergeLimits().run(imported(tmp_path, nodes, constants={"six": F(6)}), Context())
    assert [node.op_type for node in graph.graph] == ["Relu", "Clip", "Add"]


def test_limits_that_are_computed_are_left(tmp_path: Path) -> None:
    nodes = [n("ReduceMax", ["x"], ["m"], keepdims=0), n("Clip", ["x", "", "m"], ["a"]), n("Relu", ["a"], ["y"])]
    graph = imported(tmp_path, nodes)
    assert len(MergeLimits().run(graph, Context()).graph) == 3


@pytest.mark.parametrize(("inner", "outer"), [(0.25, None), (None, 0.5), (0.25, 0.5), (None, None)])
def test_both_roundings_are_in_the_result(inner: float | None, outer: float | None, tmp_path: Path) -> None:
    graph = imported(tmp_path, [n("Clip", ["x", "", "six"], ["a"], "first"), n("Relu", ["a"], ["y"], "second")], constants={"six": F(6)})
    for node, step in zip(graph.graph, (inner, outer), strict=True):
        if step is not None:
            node.outputs[0].metadata_props.update({STEP: step.hex(), RANGE: (step * 127).hex()})
    found = node_of(MergeLimits().run(graph, Context()), "Clip").outputs[0].metadata_props
    assert float.fromhex(found.get(STEP, "0x0p+0")) == (inner or 0) + (outer or 0)
    assert float.fromhex(found.get(RANGE, "0x0p+0")) == (outer or inner or 0) * 127
