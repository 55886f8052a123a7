"""A piece of a model computes its result from what it is fed as the model does."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.graph.imported import F, imported, normal, run
from toolchain.graph.equivalence.pieces import OPERAND, Pieces, Source, reads_of

n = helper.make_node
NODES = [
    n("Conv", ["x", "w"], ["a"], "conv"),
    n("Relu", ["a"], ["b"], "relu"),
    n("Split", ["b"], ["c", "d"], "split", axis=1, num_outputs=2),
    n("Add", ["c", "d"], ["e"], "add"),
    n("Mul", ["e", "c"], ["f"], "mul"),
    n("Neg", ["f"], ["y"], "neg"),
]
TENSORS = ["a", "b", "c", "d", "e", "f", "y"]


def network(folder: Path) -> ir.Model:
    return imported(folder, NODES, constants={"w": normal(0, 4, 3, 1, 1)})


def every_tensor(folder: Path, x: np.ndarray) -> dict[str, np.ndarray]:
    proto = ir.to_proto(network(folder))
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in TENSORS[:-1])
    return run(proto, {"x": x}) | {"x": x}


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(TENSORS), st.sets(st.sampled_from(TENSORS)))
def test_any_tensor_from_any_others(tmp_path_factory: object, tensor: str, stop: set[str]) -> None:
    folder = tmp_path_factory.mktemp("p")  # type: ignore[attr-defined]
    model = network(folder)
    values = every_tensor(folder, normal(1, 1, 3, 4, 4))
    operands, between = Source(model).operands(tensor, stop - {tensor})
    assert operands <= stop | {"x"}
    gathered = Pieces(model)
    gathered.add(tensor, operands, between)
    found = run(gathered.model(), {f"{OPERAND}{name}": values[name] for name in operands})
    np.testing.assert_array_equal(*found.values(), values[tensor])


def test_pieces_share_what_they_are_fed_their_constants_and_equal_operators(tmp_path: Path) -> None:
    model = network(tmp_path)
    gathered = Pieces(model)
    for tensor, stop in (("a", set[str]()), ("e", {"c", "d"}), ("f", {"c", "d"})):
        gathered.add(tensor, *Source(model).operands(tensor, stop))
    made = gathered.model()
    assert [value.name for value in made.graph.inputs] == [f"{OPERAND}{name}" for name in "xcd"]
    assert [node.name for node in made.graph] == ["0/conv", "1/add", "2/mul"]
    assert list(made.graph.initializers) == ["w"]
    feeds = {
        f"{OPERAND}{name}": normal(k, *shape) for k, (name, shape) in enumerate({"x": (1, 3, 4, 4), "c": (1, 2, 4, 4), "d": (1, 2, 4, 4)}.items())
    }
    _, e, f = run(made, feeds).values()
    np.testing.assert_array_equal(e, feeds[f"{OPERAND}c"] + feeds[f"{OPERAND}d"])
    np.testing.assert_array_equal(f, e * feeds[f"{OPERAND}c"])


def test_an_operator_with_a_subgraph_ends_a_piece(tmp_path: Path) -> None:
    body = helper.make_graph([n("Add", ["a", "k"], ["r"])], "g", [], [onnx.ValueInfoProto(name="r")])
    nodes = [
        n("Relu", ["x"], ["a"], "relu"),
        n("ReduceMax", ["x"], ["m"], "max", keepdims=0),
        n("Greater", ["m", "k"], ["c"], "greater"),
        n("If", ["c"], ["b"], "if", then_branch=body, else_branch=body),
        n("Neg", ["b"], ["y"], "neg"),
    ]
    model = imported(tmp_path, nodes, constants={"k": F(0)})
    source = Source(model)
    choice = next(node for node in model.graph if node.op_type == "If")
    assert {value.name for value in reads_of(choice)} == {"c", "a"}
    operands, between = source.operands("y", ())
    assert operands == {"b"}
    assert [node.name for node in between] == ["neg"]
