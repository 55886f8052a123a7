"""A part of a model computes what it does inside the whole, bit for bit.

A piece of a model computes its result from what it is fed as the model does.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.graph.imported import F, imported, normal, run
from tests.graph.onnx_builder import n
from toolchain.graph import equivalence
from toolchain.graph.equivalence import find_mismatch
from toolchain.graph.files import write_proto
from toolchain.graph.pieces import LEAST, OPERAND, Crop, Pieces, SourceModel, cropped, enough, extract_model, reads_of
from toolchain.graph.rewrite import add_constant, known_shape
from toolchain.graph.session import open_session, run_session
from toolchain.spec.errors import UserError

FLOAT = TensorProto.FLOAT
RNG = np.random.default_rng(0)


def info(name: str, shape: list[Any] | None = None, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def branch(name: str, scale: float) -> onnx.GraphProto:
    """Reads `b` and `w` of the graph around it."""
    nodes = [
        helper.make_node("Constant", [], [f"{name}.s"], value_float=scale),
        helper.make_node("Mul", ["b", f"{name}.s"], [f"{name}.m"]),
        helper.make_node("Add", [f"{name}.m", "w"], [f"{name}.y"]),
    ]
    return helper.make_graph(nodes, name, [], [info(f"{name}.y", [2, 4])])


def small_network() -> onnx.ModelProto:
    """x -> a -> b -> (an If that reads b and w) -> f (a function of the model's own) -> y; c beside, and a constant among the outputs."""
    twice = helper.make_function("own", "Twice", ["p"], ["q"], [helper.make_node("Add", ["p", "p"], ["q"])], [helper.make_opsetid("", 17)])
    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="act"),
        helper.make_node("If", ["flag"], ["f"], name="choice", then_branch=branch("yes", 2.0), else_branch=branch("no", -1.0)),
        helper.make_node("Twice", ["f"], ["g"], domain="own"),
        helper.make_node("Add", ["g", "c"], ["y"], name="last"),
        helper.make_node("Sqrt", ["k"], ["c"], name="side"),
    ]
    constants = [numpy_helper.from_array(RNG.normal(size=shape).astype(np.float32), name) for name, shape in (("v", (3, 4)), ("w", (2, 4)))]
    constants.append(numpy_helper.from_array(np.full((2, 4), 9, np.float32), "k"))
    inputs = [info("x", [2, 3]), info("flag", [], TensorProto.BOOL)]
    graph = helper.make_graph(nodes, "net", inputs, [info("y", [2, 4]), info("w", [2, 4])], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=[twice])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("extract") / "net.onnx"
    onnx.save(small_network(), str(found))
    return found


@pytest.fixture(scope="module")
def values(path: Path) -> dict[str, Any]:
    """Every tensor of the small_network on one sample."""
    model = onnx.load(str(path))
    model.graph.output.extend(info(name) for name in ("a", "b", "f", "g", "c"))
    sample = {"x": RNG.normal(size=(2, 3)).astype(np.float32), "flag": np.array(True)}
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    return {**constants, **sample, **run_session(open_session(model.SerializeToString(), optimise=False), sample)}


def refused(path: Path, inputs: list[str], outputs: list[str]) -> str:
    with pytest.raises(UserError) as caught:
        extract_model(path, inputs, outputs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def attempted(path: Path, inputs: list[str], outputs: list[str]) -> onnx.ModelProto | str:
    """The part, or why there is none."""
    try:
        return extract_model(path, inputs, outputs)
    except UserError as error:
        return str(error)


NAMES = ["x", "a", "b", "flag", "f", "g", "c", "y", "v", "w", "k"]


@settings(max_examples=35, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(NAMES), max_size=3, unique=True), st.lists(st.sampled_from(NAMES), max_size=3, unique=True))
def test_a_part_computes_what_it_does_in_the_whole(path: Path, values: dict[str, Any], inputs: list[str], outputs: list[str]) -> None:
    """Whatever is asked for: the part is right, or refused in one line with one of three codes."""
    part = attempted(path, inputs, outputs)
    if isinstance(part, str):
        assert part[part.index("E09") :][:5] in ("E0931", "E0932")
        assert "\n" not in part
        return
    assert [entry.name for entry in part.graph.output] == (outputs or ["y", "w"])
    assert not inputs or [entry.name for entry in part.graph.input] == inputs
    onnx.checker.check_model(part, full_check=True)
    session = open_session(part.SerializeToString(), optimise=False)
    found = run_session(session, {entry.name: values[entry.name] for entry in part.graph.input})
    assert all(np.array_equal(array, values[name]) for name, array in found.items())


def test_only_what_is_needed_is_taken(path: Path) -> None:
    part = extract_model(path, ["a"], ["b"])
    assert [node.name for node in part.graph.node] == ["act"]
    assert not part.graph.initializer
    assert not part.functions
    assert [dim.dim_value for dim in part.graph.input[0].type.tensor_type.shape.dim] == [2, 4]
    assert [function.name for function in extract_model(path, ["f"], ["g"]).functions] == ["Twice"]


def test_what_a_graph_inside_reads_is_taken(path: Path) -> None:
    part = extract_model(path, ["b", "flag"], ["f"])
    assert [tensor.name for tensor in part.graph.initializer] == ["w"]


def test_a_constant_can_become_an_input(path: Path) -> None:
    part = extract_model(path, ["b", "flag", "w"], ["f"])
    assert [entry.name for entry in part.graph.input] == ["b", "flag", "w"]
    assert not part.graph.initializer


def test_the_same_part_is_the_same_bytes(path: Path, tmp_path: Path) -> None:
    for name in ("one.onnx", "two.onnx"):
        write_proto(extract_model(path, ["b", "flag"], ["g"]), path, tmp_path / name)
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()


def test_mistakes_are_one_line(path: Path) -> None:
    assert "E0930 the model has no tensor 'aa'; did you mean 'a'?" in refused(path, ["aa"], ["b"])
    assert "E0930 the tensor 'yes.m' is inside a graph of node 'choice' (If)" in refused(path, [], ["yes.m"])
    assert "E0931 it also takes the model's input 'flag', which node 'choice' (If) reads; add --from flag" in refused(path, ["b"], ["y"])
    assert "E0932 nothing leads from 'c' to g" in refused(path, ["x", "flag", "c"], ["g"])
    assert "E0932 no node makes a of anything" in refused(path, ["a"], ["a"])
    assert "E0932 no node makes w of anything" in refused(path, [], ["w"])
    assert "E0001" in refused(path.with_name("none.onnx"), [], [])


def test_shapes_that_the_file_has_wrong_are_inferred(tmp_path: Path) -> None:
    model = small_network()
    model.graph.value_info.append(info("b", [7, 7]))
    onnx.save(model, str(tmp_path / "net.onnx"))
    part = extract_model(tmp_path / "net.onnx", ["b", "flag"], ["f"])
    assert [dim.dim_value for dim in part.graph.input[0].type.tensor_type.shape.dim] == [2, 4]


def test_operators_that_onnx_does_not_know_are_typed(tmp_path: Path) -> None:
    nodes = [helper.make_node("Gelu", ["x"], ["a"], domain="com.microsoft"), helper.make_node("Relu", ["a"], ["y"])]
    graph = helper.make_graph(nodes, "net", [info("x", [2, 3])], [info("y", [2, 3])])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(tmp_path / "net.onnx"))
    part = extract_model(tmp_path / "net.onnx", ["a"], ["y"])
    assert part.graph.input[0].type.tensor_type.elem_type == FLOAT


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
    operands, between = SourceModel(model).operands(tensor, stop - {tensor})
    assert operands <= stop | {"x"}
    gathered = Pieces(model)
    gathered.add(tensor, operands, between)
    found = run(gathered.model(), {f"{OPERAND}{name}": values[name] for name in operands})
    np.testing.assert_array_equal(*found.values(), values[tensor])


def test_pieces_share_what_they_are_fed_their_constants_and_equal_operators(tmp_path: Path) -> None:
    model = network(tmp_path)
    gathered = Pieces(model)
    for tensor, stop in (("a", set[str]()), ("e", {"c", "d"}), ("f", {"c", "d"})):
        gathered.add(tensor, *SourceModel(model).operands(tensor, stop))
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
    source = SourceModel(model)
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
    operands, between = SourceModel(model).operands("y", {"a"})
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
