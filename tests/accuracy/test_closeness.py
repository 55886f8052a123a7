"""How close integers are to floating point: the worst counts, no noise is no number, a hopeless output is told."""

import math
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from toolchain.accuracy.closeness import Closeness, closeness_of
from toolchain.accuracy.errors import Errors, Row, measure_errors

ROWS = (Row("w", "conv2d", 12.3456, 0.5, 0.0), Row("v", "add", math.inf, 1.0, 0.0))


def test_the_worst_output_and_the_worst_tensor() -> None:
    found = closeness_of(Errors(ROWS, {"a": 31.2, "b": 35.0, "c": math.inf}))
    assert found == Closeness({"a": 31.2, "b": 35.0, "c": None}, "w", 12.346)
    assert found.text() == "outputs 31.2 dB, worst 12.3 dB (w)"
    assert found.warnings() == []


def test_nothing_to_tell() -> None:
    assert closeness_of(Errors((), {})).text() == ""
    assert closeness_of(Errors((), {"a": math.inf})).text() == "outputs without noise"


@pytest.mark.parametrize(("sqnr", "told"), [(9.99, 1), (10.0, 0), (-40.0, 1), (math.inf, 0)])
def test_below_ten_decibels_there_is_a_warning(sqnr: float, told: int) -> None:
    assert len(closeness_of(Errors((), {"a": sqnr, "b": 50.0})).warnings()) == told


def scaled(factor: float, folder: Path) -> ir.Model:
    """y = factor * x, e = exp(100 * x), which is without end for some x."""
    nodes = [
        helper.make_node("Mul", ["x", "f"], ["y"]),
        helper.make_node("Mul", ["x", "h"], ["big"]),
        helper.make_node("Exp", ["big"], ["e"]),
    ]
    constants = [helper.make_tensor("f", TensorProto.FLOAT, [1], [factor]), helper.make_tensor("h", TensorProto.FLOAT, [1], [100.0])]
    x, *ends = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in ("x", "y", "e"))
    graph = helper.make_graph(nodes, "g", [x], ends, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / f"{factor}.onnx")
    return ir.load(folder / f"{factor}.onnx")


def test_outputs_of_the_whole_model_are_measured(tmp_path: Path) -> None:
    """A tenth too large is 20 dB; what is infinite in both is no noise."""
    x = {"x": np.array([[1, 2, 3, -1], [2, 0, 1, 5]], np.float32)}
    found = measure_errors(scaled(1.0, tmp_path), scaled(1.1, tmp_path), x).outputs
    assert found["y"] == pytest.approx(20, abs=1e-4)
    assert found["e"] == math.inf
    silent = measure_errors(scaled(1.0, tmp_path), scaled(0.0, tmp_path), x).outputs["y"]
    assert silent == pytest.approx(0)
