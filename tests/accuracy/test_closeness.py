"""How close integers are to floating point: the worst counts, no noise is no number, a hopeless output is told."""

import json
import math
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from toolchain.accuracy.closeness import (
    FEW,
    Closeness,
    Inference,
    OutputCloseness,
    Stated,
    closeness_of,
    inference_text,
    read_inference,
    read_stated,
    stated_text,
)
from toolchain.accuracy.errors import Errors, Output, OutputPart, TensorError, measure_errors
from toolchain.accuracy.measure import Measured
from toolchain.spec.model.quantisation import Numerics
from toolchain.spec.typed_json import from_json

STORED = Numerics().activation

ROWS = (TensorError("n", "relu", 2.9996, 1.0, 0.0), TensorError("w", "conv2d", 12.3456, 0.5, 0.0), TensorError("v", "add", math.inf, 1.0, 0.0))


def whole(sqnr: float, lost: float = 0.0) -> Output:
    return Output(sqnr, 0, (OutputPart(0, sqnr, lost),))


def test_the_worst_output_and_the_worst_tensor() -> None:
    found = closeness_of(
        Errors(ROWS[1:], {"a": whole(31.2), "b": Output(35.0, 2, (OutputPart(7, 20.06, 0.25), OutputPart(0, 40.0, 0.0))), "c": whole(math.inf)})
    )
    ends = {"a": OutputCloseness(31.2, 0, 0, 31.2, 0.0), "b": OutputCloseness(35.0, 2, 7, 20.06, 0.25), "c": OutputCloseness(None, 0, 0, None, 0.0)}
    assert found == Closeness(ends, "w", 12.346, {})
    assert found.text() == "outputs 20.1 dB, worst 12.3 dB (w)"
    assert found.warnings() == []
    assert from_json(Closeness, json.loads(json.dumps(asdict(found)))) == found


def test_nothing_to_tell() -> None:
    assert closeness_of(Errors((), {})).text() == ""
    assert closeness_of(Errors((), {"a": whole(math.inf)})).text() == "outputs without noise"


@pytest.mark.parametrize(("sqnr", "told"), [(9.99, 1), (10.0, 0), (-40.0, 1), (math.inf, 0)])
def test_below_ten_decibels_there_is_a_warning(sqnr: float, told: int) -> None:
    found = closeness_of(Errors((), {"a": whole(sqnr), "b": whole(50.0)}))
    assert len(found.warnings()) == told
    assert found.warnings(trusted=True) == []


def test_a_part_that_is_lost_is_named_with_its_output() -> None:
    (line,) = closeness_of(Errors((), {"boxes": Output(35.0, 1, (OutputPart(4, -0.2, 0.75), OutputPart(0, 40.0, 0.0)))})).warnings()
    assert line.startswith("part 4 of axis 1 of output boxes is far from the float network, -0.2 dB, and 75 % of it is off")


def test_stored_tensors_that_are_noise_are_named_even_where_the_task_is_done() -> None:
    (line,) = closeness_of(Errors(ROWS, {})).warnings(trusted=True)
    assert line == "stored tensors that are mostly noise: n 3.0 dB"


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
    x = {"x": np.array([[[1, 2, 3, -1]], [[2, 0, 1, 5]]], np.float32)}
    found = measure_errors(None, scaled(1.0, tmp_path), scaled(1.1, tmp_path), x, STORED).outputs
    assert found["y"].sqnr == pytest.approx(20, abs=1e-4)
    assert found["e"].sqnr == math.inf
    silent = measure_errors(None, scaled(1.0, tmp_path), scaled(0.0, tmp_path), x, STORED).outputs["y"]
    assert silent.sqnr == pytest.approx(0)


def test_outputs_are_held_against_the_file_as_given(tmp_path: Path) -> None:
    """Not against a stage that the compiler made of it."""
    x = {"x": np.array([[[1, 2, 3, -1]]], np.float32)}
    found = measure_errors(lambda one: {"y": one["x"] * 2, "e": one["x"]}, scaled(1.1, tmp_path), scaled(1.1, tmp_path), x, STORED).outputs
    assert found["y"].sqnr == pytest.approx(20 * math.log10(2 / 0.9), abs=1e-4)


NUMBERS = st.floats(0, 1e9)
NAMES = st.text(max_size=5)
CLOSENESS = st.builds(
    Closeness,
    st.dictionaries(NAMES, st.builds(OutputCloseness, st.none() | NUMBERS, st.integers(0, 9), st.integers(0, 9), st.none() | NUMBERS, NUMBERS)),
    NAMES,
    st.none() | NUMBERS,
    st.dictionaries(NAMES, NUMBERS),
)
INFERENCES = st.builds(
    Inference,
    right=st.fixed_dictionaries({way: st.none() | NUMBERS for way in ("float", "integer", "emulator")}),
    task=st.dictionaries(NAMES, st.builds(Measured, NAMES, NUMBERS, NAMES)),
    closeness=CLOSENESS,
    **dict.fromkeys(("images", "images_per_run", "clock_khz"), st.integers(0, 1 << 40)),
    **dict.fromkeys(("cycles", "machine_ms", "total_ms"), NUMBERS),
)


@given(INFERENCES)
def test_what_is_written_is_read(found: Inference) -> None:
    again = read_inference(inference_text(found))
    assert again == found
    assert [*again.right] == [*found.right]


@given(INFERENCES, st.sampled_from(["images", "right", "closeness"]))
def test_a_file_that_lacks_a_figure_is_refused(found: Inference, name: str) -> None:
    data = json.loads(inference_text(found))
    del data[name]
    with pytest.raises(ValueError, match=f"lacks '{name}'"):
        read_inference(json.dumps(data))


NOISY = Closeness({"y": OutputCloseness(2.0, 0, 0, 2.0, 0.4)}, "t", 1.0, {})
CLOSE = Closeness({"y": OutputCloseness(32.0, 0, 0, 31.2, 0.0)}, "t", 30.0, {})
TASK = Measured("embedding", 0.98, "cosine 0.9800 with the float network's, the worst 0.9500")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Stated(0), ""),
        (Stated(24, "test", 32, None, TASK, CLOSE), f"{TASK.text}; outputs 31.2 dB; on 24 test samples"),
        (Stated(8, "held-out", 40, (0.99, 0.98), None, CLOSE), "98.00 % right, in floating point 99.00 %; outputs 31.2 dB; on 8 samples held out"),
        (Stated(4, "calibration", 4, None, None, CLOSE), "outputs 31.2 dB; on 4 samples that calibrate it"),
    ],
)
def test_one_line(found: Stated, text: str) -> None:
    assert found.text() == text
    assert read_stated(stated_text(found)) == found


def test_few_samples_are_said_to_be_few() -> None:
    assert not list(Stated(24, "test", FEW, None, TASK, CLOSE).warnings())
    (warning,) = Stated(24, "test", FEW - 1, None, TASK, CLOSE).warnings()
    assert warning.startswith(f"{FEW - 1} samples calibrate it, which are few")


def test_noise_that_the_task_does_not_speak_for() -> None:
    (warning,) = Stated(24, "test", 32, None, None, NOISY).warnings()
    assert "cannot be trusted" in warning
    assert not list(Stated(24, "test", 32, None, TASK, NOISY).warnings())


def test_values_that_are_cut_off() -> None:
    (warning,) = Stated(24, "test", 32, None, TASK, CLOSE, "conv1", 0.12).warnings()
    assert warning.startswith("12.0 % of the values of conv1 are cut off")


def test_nothing_is_said_of_what_was_not_measured() -> None:
    assert not list(Stated(0, closeness=NOISY).warnings())
