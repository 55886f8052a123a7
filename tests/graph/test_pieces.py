"""A piece of a model computes its result from what it is fed as the model does."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.graph.imported import F, imported, normal, run
from tests.graph.onnx_builder import n
from toolchain.graph import equivalence
from toolchain.graph.equivalence import find_mismatch
from toolchain.graph.pieces import LEAST, OPERAND, Crop, Pieces, Source, cropped, enough, reads_of
from toolchain.graph.rewrite import add_constant, known_shape

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


def test_a_subgraph_that_reads_constants_alone_is_part_of_a_piece(tmp_path: Path) -> None:
    body = helper.make_graph([n("Add", ["k", "k"], ["r"])], "g", [], [onnx.ValueInfoProto(name="r")])
    nodes = [
        n("Relu", ["x"], ["a"], "relu"),
        n("ReduceMax", ["a"], ["m"], "max", keepdims=0),
        n("Greater", ["m", "k"], ["c"], "greater"),
        n("If", ["c"], ["b"], "if", then_branch=body, else_branch=body),
        n("Add", ["b", "a"], ["y"], "add"),
    ]
    model = imported(tmp_path, nodes, constants={"k": normal(0, 1, 1, 1, 1).reshape(())})
    operands, between = Source(model).operands("y", {"a"})
    assert operands == {"a"}
    assert [node.name for node in between] == ["max", "greater", "if", "add"]
    gathered = Pieces(model)
    gathered.add("y", operands, between)
    x = normal(1, 1, 3, 4, 4)
    (found,) = run(gathered.model(), {f"{OPERAND}a": x}).values()
    np.testing.assert_array_equal(found, x + 2 * normal(0, 1))


SHAPE = (1, 3, 40, 60)
CONSTANTS = {
    "w": normal(1, 3, 3, 3, 3), "wide": normal(2, 3, 3, 7, 5), "b": normal(3, 3), "of_channels": normal(4, 3, 1, 1), "of_columns": normal(5, 60),
    "one": F(2), "shape": np.array([1, -1]), **{name: np.abs(normal(k, 3)) + F(0.5) for k, name in enumerate("stmv")},
}  # fmt: skip
CASES = [
    ([n("Conv", ["x", "w"], ["y"])], Crop(LEAST)),
    ([n("Conv", ["x", "wide"], ["y"])], Crop(14)),
    ([n("Conv", ["x", "w"], ["a"], strides=[2, 1]), n("Conv", ["a", "w"], ["y"], strides=[2, 3])], Crop(LEAST, 12)),
    ([n("Conv", ["x", "w"], ["y"], dilations=[4, 4])], Crop(18)),
    ([n("Conv", ["x", "w", "b"], ["a"]), n("BatchNormalization", ["a", *"stmv"], ["c"]), n("Relu", ["c"], ["y"])], Crop(LEAST)),
    ([n("Mul", ["x", "of_channels"], ["a"]), n("Add", ["a", "one"], ["y"])], Crop(LEAST)),
    ([n("Relu", ["x"], ["a"]), n("Add", ["a", "x"], ["y"])], Crop(LEAST)),
    ([n("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]), n("Add", ["a", "x"], ["y"])], Crop()),
    ([n("Mul", ["x", "of_columns"], ["y"])], Crop()),
    ([n("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER")], Crop()),
    ([n("GlobalAveragePool", ["x"], ["y"])], Crop()),
    ([n("Reshape", ["x", "shape"], ["y"])], Crop()),
]


@pytest.mark.parametrize(("nodes", "wanted"), CASES)
def test_what_is_enough(nodes: Sequence[onnx.NodeProto], wanted: Crop, tmp_path: Path) -> None:
    model = imported(tmp_path, nodes, SHAPE, CONSTANTS)
    assert enough(model.graph.inputs, [list(model.graph)], {}) == wanted
    shape = cropped(model.graph.inputs[0], wanted)
    assert all(wanted.size <= few <= all_ and (all_ - few) % wanted.step == 0 for few, all_ in zip(shape[2:], SHAPE[2:], strict=True))
    assert (shape == SHAPE) == (wanted.size == 0)


def test_a_convolution_of_one_operand_and_another_keep_their_sizes(tmp_path: Path) -> None:
    model = imported(tmp_path, [n("Conv", ["x", "w"], ["a"], strides=[2, 2]), n("Relu", ["a"], ["y"])], SHAPE, CONSTANTS)
    assert enough([model.graph.inputs[0], next(iter(model.graph)).outputs[0]], [list(model.graph)], {}) == Crop()
    assert enough([model.graph.inputs[0]] * 2, [list(model.graph)], {}) == Crop()
    assert enough([], [list(model.graph)], {}) == Crop()


@pytest.mark.parametrize("row", range(3))
@pytest.mark.parametrize("column", range(3))
def test_every_tap_of_a_kernel_shows(row: int, column: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[tuple[int, ...]] = []
    made_up = equivalence._made_up  # pyright: ignore[reportPrivateUsage]

    def watched(value: object, shape: tuple[int, ...], *more: object) -> object:
        fed.append(shape)
        return made_up(value, shape, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(equivalence, "_made_up", watched)
    nodes = [n("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1], strides=[2, 2])]
    one, other = (imported(tmp_path, nodes, SHAPE, CONSTANTS) for _ in range(2))
    changed = CONSTANTS["w"].copy()
    changed[2, 1, row, column] += 0.1
    next(iter(other.graph)).replace_input_with(1, add_constant(other.graph, "changed", changed))
    found = find_mismatch(one, other, {})
    assert found is not None
    assert found.tensor == "y"
    assert fed == [(1, 3, 8, 8)]  # LEAST, and what is left out is a multiple of both models' strides


@pytest.mark.parametrize("extent", range(40, 47))
def test_windows_end_where_they_did(extent: int, tmp_path: Path) -> None:
    """Padding behind that no window reaches may be left out by a pass: a few rows less must not bring it back."""
    pads = [[1, 1, behind, behind] for behind in (0, 1, 2)]
    models = [imported(tmp_path, [n("Conv", ["x", "w"], ["y"], pads=each, strides=[3, 3])], (1, 3, extent, extent), CONSTANTS) for each in pads]
    shapes = [known_shape(model.graph.outputs[0]) for model in models]
    for one, shape in zip(models[1:], shapes[1:], strict=True):
        assert (find_mismatch(models[0], one, {}) is None) == (shape == shapes[0])
