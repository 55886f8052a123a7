"""A machine that takes graphs: which operators it takes, why not the others, and what they cost."""

import numpy as np
import onnx_ir as ir
import pytest

from tests.graph.onnx_builder import model
from toolchain.schedule.graph_offload import GraphRules, graph_device
from toolchain.spec.errors import UserError
from toolchain.spec.load import find_target, load_machine, load_text
from toolchain.spec.reasons import texts_of

from onnx import helper  # isort: skip

F = np.float32
ENGINE = load_machine("graphengine")
SHAPES = {"x": [1, 4, 8, 8], "w": [2, 4, 3, 3]}


def node(operator: str, inputs: dict[str, list[int] | np.ndarray], output: list[int], **attributes: object) -> ir.Node:
    """One operator; arrays are constants."""
    given = {name: value for name, value in inputs.items() if isinstance(value, list)}
    known = {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}
    proto = model([helper.make_node(operator, list(inputs), ["y"], operator, **attributes)], given, {"y": output}, known)
    return next(iter(ir.serde.deserialize_model(proto).graph))


def test_an_operator_that_is_listed_is_taken() -> None:
    rules = GraphRules(ENGINE)
    conv = node("Conv", {"x": [1, 4, 8, 8], "w": np.zeros((2, 4, 3, 3), F)}, [1, 2, 6, 6])
    assert not rules.refusal(conv)
    assert rules.cycles(conv, {}) == pytest.approx(max(2 * 36 * 36 / 512, 4 * (256 + 72 + 72) / 99))


REFUSED = [
    (node("Conv", {"x": [1, 4, 8, 8], "w": [2, 4, 3, 3]}, [1, 2, 6, 6]), "weights have to be known"),
    (node("Conv", {"x": [1, 4, 8], "w": np.zeros((2, 4, 3), F)}, [1, 2, 6]), "the engine convolves pictures alone"),
    (node("CumSum", {"x": [4], "axis": np.array(0)}, [4]), "the machine's file does not list the operator CumSum"),
    (node("Relu", {"x": []}, []), "the shape of 'x' is not known"),
    (node("Reshape", {"x": [4], "shape": np.array([2, 2])}, [2, 2]), ""),
]


@pytest.mark.parametrize(("one", "reason"), REFUSED)
def test_what_is_refused_has_a_reason(one: ir.Node, reason: str) -> None:
    found = texts_of(GraphRules(ENGINE).refusal(one))
    assert (found == "") == (reason == "")
    assert found.startswith(reason)


def test_other_types_are_refused() -> None:
    one = node("Relu", {"x": [4]}, [4])
    one.inputs[0].type = ir.TensorType(ir.DataType.DOUBLE)  # type: ignore[union-attr]
    assert texts_of(GraphRules(ENGINE).refusal(one)) == "'x' is double, and the engine computes in float32"


def test_what_is_no_tensor_is_refused() -> None:
    """A sequence of float32 has float32 as its type of elements, and may have a shape."""
    one = node("Identity", {"x": [4]}, [4])
    one.inputs[0].type = ir.SequenceType(ir.TensorType(ir.DataType.FLOAT))  # type: ignore[union-attr]
    assert texts_of(GraphRules(ENGINE).refusal(one)) == "'x' is no tensor"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  HardSwish: []", "  HardSwitch: []", "E0107 ONNX has no operator 'HardSwitch'"),
        ("that: training_mode == 0", "that: trainig_mode == 0", "E0107 unknown name 'trainig_mode'; did you mean 'training_mode'?"),
        ("that: inputs == 2, message", "that: kernel_shape_0 == 2, message", "E0107 unknown name 'kernel_shape_0'"),
    ],
)
def test_a_mistake_in_the_file_is_told(old: str, new: str, message: str) -> None:
    text = find_target("graphengine").read_text()
    assert old in text
    with pytest.raises(UserError, match=message.split(";")[0]):
        graph_device(load_text(text.replace(old, new, 1), "graphengine.yaml"))


def test_prices_rest_on_the_file() -> None:
    device, conv = graph_device(ENGINE), node("Conv", {"x": [1, 4, 8, 8], "w": np.zeros((2, 4, 3, 3), F)}, [1, 2, 6, 6])
    price = device.prices([conv])
    assert price is not None
    assert price.border == pytest.approx(0.020 + 2 * 0.005 + 4 * (256 + 72) / 20e6)
    assert price.machine == pytest.approx(GraphRules(ENGINE).cycles(conv, {}) / 1377000)
    assert device.floats
    assert device.tariff is not None
    assert device.tariff.node(conv).machine == price.machine
