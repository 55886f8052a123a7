"""Splits of channels become slices, a concat of all parts takes the whole, and a product is made in parts; the numbers stay as they were."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.graph.imported import normal, run
from tests.graph.onnx_builder import model, n, save
from toolchain.graph.importing.load import load_graph
from toolchain.graph.session import open_session, run_session
from toolchain.graph.store import open_model

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


def operators(path: Path) -> list[tuple[str, str, list[str]]]:
    """Operator, name and the tensors that it reads, constants left out."""
    return [
        (node.op_type, node.name or "", [v.name or "" for v in node.inputs if v is not None and not v.is_initializer()])
        for node in load_graph(path).graph
    ]


def split(source: str, results: list[str], sizes: list[int], axis: int = 1) -> list[onnx.NodeProto]:
    return [n("Constant", [], [f"{source}.sizes"], value_ints=sizes), n("Split", [source, f"{source}.sizes"], results, f"split {source}", axis=axis)]


def test_no_two_nodes_share_a_name(tmp_path: Path) -> None:
    """Slices are called after their split, and so are nodes that the model gives the split's name."""
    nodes = [*split("x", ["a", "b", "c"], [2, 3, 3]), *(n("Relu", [name], [f"{name}2"], "split x") for name in ("a", "b", "c"))]
    path = save(model(nodes, {"x": [1, 8, 2, 2]}, {"a2": None, "b2": None, "c2": None}), tmp_path)
    loaded = load_graph(path)
    names = [node.name for node in loaded.graph]
    assert len(names) == len(set(names)) == 6
    open_model(loaded)


def test_a_block_of_a_detector(tmp_path: Path) -> None:
    nodes = [*split("x", ["a", "b"], [3, 5]), n("Relu", ["b"], ["c"], "c"), n("Concat", ["a", "b", "c"], ["y"], "join", axis=1)]
    found = operators(save(model(nodes, {"x": [1, 8, 2, 2]}, {"y": None}), tmp_path))
    assert found == [("Slice", "split x.1", ["x"]), ("Relu", "c", ["b"]), ("Concat", "join", ["x", "c"])]


def cut(source: str, result: str, first: int, end: int, step: int = 1) -> list[onnx.NodeProto]:
    """A slice of channels, as torch's older exporter writes `chunk`."""
    given = {f"{result}.{key}": value for key, value in {"first": first, "end": end, "axis": 1, "step": step}.items()}
    return [*(n("Constant", [], [name], value_ints=[value]) for name, value in given.items()), n("Slice", [source, *given], [result], result)]


def test_slices_that_follow_each_other_are_parts_too(tmp_path: Path) -> None:
    nodes = [*cut("x", "a", 0, 3), *cut("x", "b", 3, 2**40), n("Relu", ["b"], ["c"], "c"), n("Concat", ["c", "a", "b"], ["y"], "join", axis=1)]
    found = operators(save(model(nodes, {"x": [1, 8, 2, 2]}, {"y": None}), tmp_path))
    assert found == [("Slice", "b", ["x"]), ("Relu", "c", ["b"]), ("Concat", "join", ["c", "x"])]


@pytest.mark.parametrize(("a", "b"), [((0, 3, 1), (4, 8, 1)), ((0, 3, 1), (3, 7, 1)), ((1, 3, 1), (3, 8, 1)), ((0, 8, 2), (1, 8, 2))])
def test_slices_that_leave_something_out_stay(a: tuple[int, int, int], b: tuple[int, int, int], tmp_path: Path) -> None:
    nodes = [*cut("x", "a", *a), *cut("x", "b", *b), n("Concat", ["a", "b"], ["y"], "join", axis=1)]
    found = operators(save(model(nodes, {"x": [1, 8, 2, 2]}, {"y": None}), tmp_path))
    assert found[-1] == ("Concat", "join", ["a", "b"])


def test_parts_in_another_order_are_joined_as_they_are(tmp_path: Path) -> None:
    nodes = [*split("x", ["a", "b"], [3, 5]), n("Concat", ["b", "a"], ["y"], "join", axis=-3)]
    found = operators(save(model(nodes, {"x": [1, 8, 2, 2]}, {"y": None}), tmp_path))
    assert found == [("Slice", "split x", ["x"]), ("Slice", "split x.1", ["x"]), ("Concat", "join", ["b", "a"])]


@pytest.mark.parametrize(("shape", "axis"), [([1, 8, 2], 1), ([1, 8, 2, 2], 2), ([1, 8], 1)])
def test_other_axes_and_ranks_stay(shape: list[int], axis: int, tmp_path: Path) -> None:
    nodes = [*split("x", ["a", "b"], [shape[axis] // 2] * 2, axis), n("Concat", ["a", "b"], ["y"], "join", axis=axis)]
    found = operators(save(model(nodes, {"x": shape}, {"y": None}), tmp_path))
    assert found == [("Split", "split x", ["x"]), ("Concat", "join", ["a", "b"])]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.lists(st.integers(0, 9), min_size=1, max_size=7), st.booleans())
def test_results_stay_parts(tmp_path_factory: pytest.TempPathFactory, sizes: list[int], order: list[int], ended: bool) -> None:
    names, channels = [f"p{k}" for k in range(len(sizes))], sum(sizes)
    joined = [[*names, "x", *names][place % (2 * len(names) + 1)] for place in order]
    nodes = [*split("x", names, sizes), n("Concat", joined, ["y"], "join", axis=1)]
    ends: dict[str, None] = {"y": None} | ({names[-1]: None} if ended else {})
    path = save(model(nodes, {"x": [2, channels, 3, 2]}, ends), tmp_path_factory.mktemp("parts"))
    x = {"x": np.random.default_rng(0).normal(size=(2, channels, 3, 2)).astype(np.float32)}
    wanted, found = (run_session(session, x) for session in (open_session(path), open_model(load_graph(path))))
    assert wanted.keys() == found.keys()
    assert all(np.array_equal(wanted[name], found[name]) for name in wanted)


Array = np.ndarray
WIDTH = 12


def network(folder: Path, cuts: list[tuple[int, int, int]], bias: bool = False, handed_out: bool = False) -> Path:
    """x [2, 3, 4] times weights [4, 12], of which columns are cut out: the first, the stop and the step of each."""
    nodes = [n("MatMul", ["x", "w"], ["p"], "p"), *([n("Add", ["b", "p"], ["q"], "q")] if bias else [])]
    whole, constants = nodes[-1].output[0], {"w": normal(1, 4, WIDTH), "b": normal(2, WIDTH), "axis": np.array([-1])}
    for number, cut in enumerate(cuts):
        ends = [f"{number}.{word}" for word in ("start", "stop", "step")]
        constants |= {name: np.array([value]) for name, value in zip(ends, cut, strict=True)}
        nodes.append(n("Slice", [whole, ends[0], ends[1], "axis", ends[2]], [f"y{number}"], f"cut{number}"))
    names = [f"y{number}" for number in range(len(cuts))] + ([whole] if handed_out else [])
    graph = helper.make_graph(
        nodes,
        "parts",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 4])],
        [onnx.ValueInfoProto(name=name) for name in names],
        [numpy_helper.from_array(array, name) for name, array in constants.items() if bias or name != "b"],
    )
    path = folder / "parts.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


@pytest.mark.parametrize("bias", [False, True])
def test_each_part_has_a_product_of_its_own(tmp_path: Path, bias: bool) -> None:
    path = network(tmp_path, [(0, 6, 1), (6, 9, 1), (9, WIDTH, 1)], bias)
    model, feeds = load_graph(path), {"x": normal(0, 2, 3, 4)}
    wanted, found = run(path, feeds), run(model, feeds)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-6, atol=1e-6)
    kinds = [node.op_type for node in model.graph]
    assert sorted(kinds) == ["Add"] * 3 * bias + ["MatMul"] * 3
    assert sorted(
        value.const_value.shape[-1] for value in model.graph.initializers.values() if value.const_value and len(value.const_value.shape) == 2
    ) == [3, 3, 6]


@pytest.mark.parametrize(
    ("cuts", "handed_out"),
    [([(0, 6, 1)], False), ([(0, 6, 1), (5, WIDTH, 1)], False), ([(0, 6, 2), (6, WIDTH, 1)], False), ([(0, 6, 1), (6, WIDTH, 1)], True)],
    ids=["one", "overlapping", "strided", "handed out"],
)
def test_others_stay(tmp_path: Path, cuts: list[tuple[int, int, int]], handed_out: bool) -> None:
    model = load_graph(network(tmp_path, cuts, handed_out=handed_out))
    assert [node.op_type for node in model.graph].count("MatMul") == 1
