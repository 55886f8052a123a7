"""NaN in an input that becomes integers is an error with its place; other inputs, and infinities, run as they always did."""

import numpy as np
import onnx
import pytest
from onnx import helper, parser

from bench.in_process import Target
from tests import steps_network
from tests.compiled_network import compile_network
from tests.graph.onnx_builder import model
from tests.runtime.small import bundle, images
from tests.runtime.test_executor import opened
from toolchain.runtime.contents import Interface
from toolchain.runtime.stored_inputs import check_numbers, integer_inputs
from toolchain.spec.errors import UserError

TEXT = """<ir_version: 10, opset_import: ["": 21, "tilewright.integer.toy" : 1]>
host (float[4] straight, float[4] moved, float[4] asked, float[4] halves, int64[4] whole) => (int8[4] a) {
  a = tilewright.integer.toy.quantize <scale = 0.5> (straight)
  two = Constant <value = float {2.0}> ()
  half = Div (moved, two)
  turned = Transpose (half)
  b = tilewright.integer.toy.quantize <scale = 0.5> (turned)
  unknown = IsNaN (asked)
  known = Where (unknown, two, asked)
  c = tilewright.integer.toy.quantize <scale = 0.5> (known)
  d = tilewright.integer.toy.quantize (halves)
}"""


def segment() -> onnx.ModelProto:
    return parser.parse_model(TEXT)


def entries() -> list[Interface]:
    return [Interface(each.name, (4,), "int64" if each.name == "whole" else "float32") for each in segment().graph.input]


def test_inputs_that_are_stored_as_they_are_or_after_operators_that_keep_nan() -> None:
    assert integer_inputs(entries(), [segment()]) == {"straight", "moved"}
    assert integer_inputs(entries(), []) == frozenset()


def test_tensors_pass_from_one_segment_to_the_next() -> None:
    first, last = segment(), segment()
    del first.graph.node[3:], last.graph.node[:3]
    assert integer_inputs(entries(), [first, last]) == {"straight", "moved"}
    assert integer_inputs(entries(), [last]) == frozenset()


def test_the_place_of_the_first_is_named_and_the_others_are_counted() -> None:
    array = np.zeros((2, 3), np.float32)
    array[1, 2] = np.nan
    with pytest.raises(UserError, match=r"^E1134 the input 'x' holds NaN at \[1, 2\], and becomes integers, which have no such number; mend"):
        check_numbers({"x": array, "y": array}, frozenset({"x"}))
    array[0, 1] = np.nan
    with pytest.raises(UserError, match=r"holds NaN at \[0, 1\], .*; so does 1 more place;"):
        check_numbers({"x": array}, frozenset({"x"}))
    check_numbers({"x": np.full(3, np.inf, np.float32), "y": array}, frozenset({"x", "z"}))


@pytest.mark.parametrize("target", ["vta", "dpuv3"])
def test_a_bundle_of_integers_refuses_nan_and_takes_infinities(target: str) -> None:
    executor, given = opened(target, bundle(target)), images(3)
    assert executor.integers == {"x"}
    given[2, 0, 1, 1] = np.inf
    greatest = given.copy()
    greatest[2, 0, 1, 1] = np.finfo(np.float32).max
    found, wanted = (executor.run({"x": each}).outputs for each in (given, greatest))
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)
    given[2, 0, 1, 1] = np.nan
    with pytest.raises(UserError, match=r"E1134 the input 'x' holds NaN at \[2, 0, 1, 1\]"):
        executor.run({"x": given})
    with pytest.raises(UserError, match=r"E1134 the input 'x' holds NaN at \[2, 0, 0, 1, 1\]"):
        executor.run_samples({"x": given[:, None]})


def test_a_machine_of_floats_takes_nan() -> None:
    pool = helper.make_node("MaxPool", ["x"], ["y"], "pool", kernel_shape=[2, 2])
    proto = model([pool], {"x": [1, 4, 4, 4]}, {"y": [1, 4, 3, 3]})
    for target in ("clib32", "stcp920:f16"):
        executor = compile_network(proto, "floats", Target(target), np.ones((1, 1, 4, 4, 4), np.float32)).executor
        assert executor.integers == frozenset()
        assert np.isnan(executor.run({"x": np.full((1, 4, 4, 4), np.nan, np.float32)}).outputs["y"]).all()


def test_a_step_with_nan_is_not_taken() -> None:
    session, (inputs, wanted) = steps_network.built("vta").session(), steps_network.built("vta").oracle()[0]
    with pytest.raises(UserError, match=r"E1134 the input 'x' holds NaN at \[1, 3\]"):
        session.run({"x": np.where(np.arange(32).reshape(2, 16) == 19, np.nan, inputs["x"]).astype(np.float32)})
    assert session.steps == 0
    with pytest.raises(UserError, match="E1134"):
        session.step({"x": np.full_like(inputs["x"], np.nan)})
    assert np.array_equal(session.step({"x": inputs["x"]}).outputs["y"], wanted["y"])
