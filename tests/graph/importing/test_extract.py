"""A part of a model computes what it does inside the whole, bit for bit."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from toolchain.graph.files import write_proto
from toolchain.graph.importing.extract import extract_model
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


def network() -> onnx.ModelProto:
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
    onnx.save(network(), str(found))
    return found


@pytest.fixture(scope="module")
def values(path: Path) -> dict[str, Any]:
    """Every tensor of the network on one sample."""
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


TENSORS = ["x", "a", "b", "flag", "f", "g", "c", "y", "v", "w", "k"]


@settings(max_examples=35, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(TENSORS), max_size=3, unique=True), st.lists(st.sampled_from(TENSORS), max_size=3, unique=True))
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
    model = network()
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
