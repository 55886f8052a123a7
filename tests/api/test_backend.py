"""ONNX's backend interface: cases of its own tests pass; sizes that a model leaves open come with the inputs; the machine takes what pays."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from bench.node_cases import close, collect_cases, onnx_runtime
from toolchain.api.backend import backend_for
from toolchain.models.load import find_model
from toolchain.spec.errors import UserError

OPERATORS = ("relu", "softmax", "nonzero", "if_")


@pytest.mark.filterwarnings("default")
def test_nodes_of_the_onnx_project() -> None:
    backend = backend_for("dpuv3")
    cases = [case for case in collect_cases(OPERATORS) if "/" not in case.name and "axis" not in case.name]  # softmax of each axis takes a second
    passed = [case for case in cases if onnx_runtime(case) is not None]
    for case in passed:
        found = backend.run_model(case.model, list(case.inputs))
        assert all(close(wanted, other) for wanted, other in zip(case.outputs, found, strict=True)), case.name
    assert len(passed) >= 8


def test_a_network_on_the_machine() -> None:
    model = onnx.load(find_model("digits").parent / "digits" / "digits.onnx")
    prepared = backend_for("vta").prepare(model)
    image = np.zeros((1, 1, 8, 8), np.float32)
    (logits,) = prepared.run([image])
    assert logits.shape == (1, 10)
    assert np.array_equal(prepared.run(image)[0], logits)
    assert prepared.loaded({prepared.inputs[0]: image}).executor.manifest.regions


def test_open_sizes_come_with_the_inputs() -> None:
    entries = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", entries[:1], entries[1:])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])
    prepared = backend_for("vta").prepare(model)
    for rows in (2, 5):
        x = np.linspace(-1, 1, rows * 3, dtype=np.float32).reshape(rows, 3)
        assert np.array_equal(prepared.run({"x": x})[0], np.maximum(x, 0))


def test_one_node() -> None:
    node = helper.make_node("Add", ["a", "b"], ["c"])
    (found,) = backend_for("vta").run_node(node, [np.array([1, 2], np.float32), np.array([3, 4], np.float32)])
    assert found.tolist() == [4.0, 6.0]


def test_a_tensor_that_a_node_reads_twice_comes_twice() -> None:
    a = np.array([1, 2], np.float32)
    (found,) = backend_for("vta").run_node(helper.make_node("Add", ["a", "a"], ["c"]), [a, a])
    assert found.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("count", [1, 3])
def test_another_number_of_inputs_is_refused(count: int) -> None:
    with pytest.raises(UserError, match=f"E1108 the inputs are a, b; given are {count} arrays"):
        backend_for("vta").run_node(helper.make_node("Add", ["a", "b"], ["c"]), [np.array([1], np.float32)] * count)


def test_devices_and_machines() -> None:
    assert backend_for("vta").supports_device("CPU")
    assert not backend_for("vta").supports_device("CUDA:0")
    with pytest.raises(UserError, match="unknown target 'vtb'"):
        backend_for("vtb")
    with pytest.raises(onnx.checker.ValidationError):
        backend_for("vta").prepare(onnx.ModelProto())
