"""Concatenations that repeat others take their results; what is joined stays what it was."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.graph.onnx_builder import model, save
from toolchain.graph.importing.load import load_graph
from toolchain.graph.running.graph_session import open_model
from toolchain.graph.running.session import open_session, run_session

n = helper.make_node
NAMES = "abcd"
SHAPES = {name: [1, k + 1, 2, 3] for k, name in enumerate(NAMES)}


def operands(path: Path) -> list[list[str]]:
    return [[value.name or "" for value in node.inputs if value is not None] for node in load_graph(path).graph]


def test_a_dense_block(tmp_path: Path) -> None:
    nodes = [n("Concat", list(NAMES[:count]), [f"t{count}"], axis=1) for count in (2, 3, 4)]
    path = save(model(nodes, SHAPES, {"t2": None, "t3": None, "t4": None}), tmp_path)
    assert operands(path) == [["a", "b"], ["t2", "c"], ["t3", "d"]]


def test_other_axes_orders_and_whole_copies_stay(tmp_path: Path) -> None:
    pairs = [("u", ["a", "b"], 1), ("v", ["a", "b", "a"], 3), ("w", ["b", "a", "a"], 1), ("x", ["a", "b"], 1)]
    inputs = {"a": [1, 2, 2, 2], "b": [1, 2, 2, 2]}
    nodes = [n("Concat", given, [name], axis=axis) for name, given, axis in pairs]
    path = save(model(nodes, inputs, {name: None for name, _, _ in pairs}), tmp_path)
    assert operands(path) == [given for _, given, _ in pairs]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.lists(st.integers(0, 7), min_size=1, max_size=5), st.sampled_from([1, 2])), min_size=1, max_size=4))
def test_results_stay(tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[list[int], int]]) -> None:
    folder, known = tmp_path_factory.mktemp("concats"), dict.fromkeys(NAMES, (1, 2, 2, 2))
    nodes = []
    for k, (places, axis) in enumerate(drawn):
        names = list(known)
        chosen = [names[place % len(names)] for place in places]
        fitting = [name for name in chosen if all(known[name][d] == known[chosen[0]][d] for d in range(4) if d != axis)]
        nodes.append(n("Concat", fitting, [f"y{k}"], axis=axis))
        known[f"y{k}"] = tuple(sum(known[name][d] for name in fitting) if d == axis else known[fitting[0]][d] for d in range(4))
    path = save(model(nodes, {name: [1, 2, 2, 2] for name in NAMES}, {f"y{k}": None for k in range(len(drawn))}), folder)
    x = {name: np.random.default_rng(k).normal(size=(1, 2, 2, 2)).astype(np.float32) for k, name in enumerate(NAMES)}
    wanted, found = (run_session(session, x) for session in (open_session(path), open_model(load_graph(path))))
    assert wanted.keys() == found.keys()
    assert all(np.array_equal(wanted[name], found[name]) for name in wanted)
