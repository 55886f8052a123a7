"""A graph run operator by operator gives what it gives as a whole; a constant that changes on the way counts from then on. A network run again
with some inputs changed gives what a whole run gives, and computes no more than what lies behind them."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from tests.graph.imported import F, imported, normal, run
from tests.graph.onnx_builder import model, n, save
from toolchain.graph.importing.load import load_graph
from toolchain.graph.quantisation import stepping
from toolchain.graph.quantisation.stepping import Stepper, open_relay
from toolchain.graph.session import run_session
from toolchain.passes.context import Context
from toolchain.passes.fuse import Fuse
from toolchain.passes.pipeline import run_passes

NODES = [
    n("Conv", ["x", "w"], ["a"], "conv"),
    n("Split", ["a"], ["b", "c"], "split", axis=1, num_outputs=2),
    n("Sin", ["b"], ["d"], "sin"),
    n("Add", ["c", "d"], ["y"], "add"),
]

SIZE = (1, 3, 4, 4)
RELAYED = [
    n("Sin", ["x"], ["a"], "sin"),
    n("Conv", ["a", "w"], ["b"], "conv"),
    n("Split", ["b"], ["c", "d"], "split", axis=1, num_outputs=2),
    n("Mul", ["c", "late"], ["e"], "late"),
    n("Cos", ["d"], ["f"], "aside"),
    n("Add", ["e", "f"], ["y"], "add"),
]


def network(folder: Path) -> ir.Model:
    return imported(folder, NODES, constants={"w": normal(0, 4, 3, 1, 1)})


def test_as_a_whole_and_step_by_step(tmp_path: Path) -> None:
    """Calls of functions among the operators; tensors that are not needed any more are gone."""
    graph, x = run_passes(network(tmp_path), [Fuse()], Context()), normal(1, 3, 1, 3, 4, 4)
    assert [node.op_type for node in graph.graph] == ["conv2d", "slice", "slice", "Sin", "add"]
    stepper = Stepper(graph)
    stepper.feed({"x": x}, 2)
    for node in graph.graph:
        stepper.run(node)
    assert [value.name for value in stepper.values] == ["y"]
    for k, found in enumerate(stepper.values[graph.graph.outputs[0]]):
        np.testing.assert_array_equal(found, run(graph, {"x": x[k]})["y"])


def test_a_constant_that_changes_counts_from_then_on(tmp_path: Path) -> None:
    graph, x = network(tmp_path), normal(1, 1, 1, 3, 4, 4)
    stepper = Stepper(graph)
    stepper.feed({"x": x}, 1)
    first = next(iter(graph.graph))
    assert first.inputs[1] is not None
    first.inputs[1].const_value = ir.Tensor(np.zeros((4, 3, 1, 1), F), name="w")
    for node in graph.graph:
        stepper.run(node)
    assert not np.any(stepper.values[graph.graph.outputs[0]][0])


def test_known_results_stand_for_an_operator(tmp_path: Path) -> None:
    """Tensors that no later operator reads are gone, as after a run; those of the operators behind are the same."""
    graph, x = network(tmp_path), normal(1, 2, 1, 3, 4, 4)
    first, *rest = graph.graph
    whole, taken = Stepper(graph), Stepper(graph)
    for stepper in (whole, taken):
        stepper.feed({"x": x}, 2)
    whole.run(first)
    taken.take(first, [whole.values[value] for value in first.outputs])
    assert [value.name for value in taken.values] == [value.name for value in whole.values] == ["a"]
    for node in rest:
        whole.run(node)
        taken.run(node)
    assert [value.name for value in taken.values] == ["y"]
    np.testing.assert_array_equal(taken.values[graph.graph.outputs[0]], whole.values[graph.graph.outputs[0]])


def test_subgraphs_and_optional_results(tmp_path: Path) -> None:
    """An If reads a tensor of the graph; the first result of the LSTM is left out."""
    body = helper.make_graph([n("Neg", ["a"], ["t"])], "g", [], [onnx.ValueInfoProto(name="t")])
    nodes = [
        n("Relu", ["x"], ["a"], "relu"),
        n("If", ["c"], ["b"], "if", then_branch=body, else_branch=body),
        n("LSTM", ["b", "w", "r"], ["", "h"], "lstm", hidden_size=2),
        n("Neg", ["h"], ["y"], "neg"),
    ]
    proto = model(nodes, {"x": [5, 1, 3]}, {"y": None}, {"w": normal(0, 1, 8, 3), "r": normal(1, 1, 8, 2)})
    proto.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    graph = load_graph(save(proto, tmp_path))
    samples = {"x": normal(2, 2, 5, 1, 3), "c": np.array([True, False])}
    stepper = Stepper(graph)
    stepper.feed(samples, 2)
    for node in graph.graph:
        stepper.run(node)
    for k, found in enumerate(stepper.values[graph.graph.outputs[0]]):
        np.testing.assert_array_equal(found, run(graph, {name: array[k] for name, array in samples.items()})["y"])


def test_a_body_that_reads_a_constant_of_the_graph(tmp_path: Path) -> None:
    """As the body of a Scan in ONNX's own expansion of LinearAttention does."""
    branches = [helper.make_graph([n(kind, ["a", "k"], ["t"], kind.lower())], "g", [], [onnx.ValueInfoProto(name="t")]) for kind in ("Add", "Sub")]
    nodes = [
        n("Relu", ["x"], ["a"], "relu"),
        n("ReduceSum", ["a"], ["s"], "sum", keepdims=0),
        n("Greater", ["s", "zero"], ["positive"], "greater"),
        n("If", ["positive"], ["y"], "choice", then_branch=branches[0], else_branch=branches[1]),
    ]
    constants = {"k": normal(0, 1, 3, 4, 4), "zero": np.zeros((), F)}
    path = save(model(nodes, {"x": [1, 3, 4, 4]}, {"y": [1, 3, 4, 4]}, constants), tmp_path)
    graph, x = load_graph(path), normal(1, 1, 1, 3, 4, 4)
    stepper = Stepper(graph)
    stepper.feed({"x": x}, 1)
    for node in graph.graph:
        stepper.run(node)
    np.testing.assert_array_equal(stepper.values[graph.graph.outputs[0]][0], run(graph, {"x": x[0]})["y"])


def test_operators_between_two_stops_are_one_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening one for each took most of the time of a network of small operators."""
    graph, opened = network(tmp_path), list[int]()
    plain = stepping.open_model
    monkeypatch.setattr(stepping, "open_model", lambda model, **more: opened.append(len(list(model.graph))) or plain(model, **more))
    stepper = Stepper(graph)
    stepper.feed({"x": normal(1, 1, 1, 3, 4, 4)}, 1)
    nodes = list(graph.graph)
    for node in nodes[:-1]:
        stepper.run(node)
    assert {value.name for value in stepper.values} == {nodes[-1].inputs[0].name, nodes[-1].inputs[1].name}
    stepper.run(nodes[-1])
    assert list(stepper.values) == [graph.graph.outputs[0]]
    assert opened == [len(nodes) - 1, 1]


@pytest.mark.parametrize(("changed", "stretches"), [({"late"}, 2), ({"x"}, 7), ({"x", "late"}, 7), (set[str](), 0)])
def test_only_what_lies_behind_is_computed_again(changed: set[str], stretches: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proto = model(RELAYED, {"x": SIZE, "late": (1, 2, 4, 4)}, {"y": None}, {"w": normal(0, 4, 3, 1, 1)})
    graph = load_graph(save(proto, tmp_path))
    found, runs = open_relay(graph, lambda _: 1), list[object]()
    first, new = ({"x": normal(seed, *SIZE), "late": normal(seed + 1, 1, 2, 4, 4)} for seed in (1, 5))
    known = found.run(first)
    np.testing.assert_array_equal(found.results(known)["y"], run(graph, first)["y"])

    def counted(*given: object, **more: object) -> object:
        runs.append(given)
        return run_session(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(stepping, "run_session", counted)
    given = {name: new[name] for name in changed}
    np.testing.assert_array_equal(found.results(found.rerun(known, given))["y"], run(graph, {**first, **given})["y"])
    assert len(runs) == stretches


def test_stretches_are_alike_in_cost(tmp_path: Path) -> None:
    nodes = [n("Sin", [f"t{k}" if k else "x"], [f"t{k + 1}" if k < 99 else "y"], f"n{k}") for k in range(100)]
    found = open_relay(imported(tmp_path, nodes), lambda _: 1)
    assert 13 <= len(found.stretches) <= stepping.STRETCHES
    x = normal(1, *SIZE).astype(F)
    assert found.run({"x": x})["y"].shape == SIZE
