"""Graphs in float16: the same border, rounded constants where an operator computes with them, and results as ONNX's evaluator has them. A
region as JSON: every operator, attribute and constant, the same text each time."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.graph_networks import engine, regions, samples
from toolchain.codegen.generators import GENERATORS
from toolchain.codegen.json_graph import graph_cycles, graph_text, half_region
from toolchain.graph.regions import GraphRegion, GraphTensor, onnx_of
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine


def test_the_border_stays_and_what_is_between_is_half() -> None:
    first, _ = regions()
    made = half_region(first)
    assert (made.inputs, made.outputs) == (first.inputs, first.outputs)
    operators = [node.op_type for node in first.nodes]
    assert [node.op_type for node in made.nodes] == [*["Cast"] * len(first.inputs), *operators, *["Cast"] * len(first.outputs)]
    weights = [name for name, array in first.constants.items() if array.dtype == np.float32]
    assert all(made.constants[f"{name}.half"].dtype == np.float16 for name in weights)
    assert not any(name in made.constants for name in weights)
    assert all(made.constants[name] is array for name, array in first.constants.items() if array.dtype == np.int64)


def test_the_model_is_valid_and_near() -> None:
    first, _ = regions()
    whole, half = onnx_of(first), onnx_of(half_region(first))
    onnx.checker.check_model(half, full_check=True)
    given = {"x": samples(1)[0]}
    expected, found = (ReferenceEvaluator(model).run(None, given) for model in (whole, half))
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == np.float32
        assert np.allclose(one, other, rtol=0.02, atol=0.005)
        assert not np.array_equal(one, other)


def test_factors_of_a_resize_stay_float32() -> None:
    x, y = GraphTensor("x", (1, 2, 4, 4), "float32"), GraphTensor("y", (1, 2, 8, 8), "float32")
    constants = {"roi": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32)}
    proto = helper.make_node("Resize", ["x", "roi", "scales"], ["y"], "up", mode="nearest")
    made = half_region(GraphRegion("region0", (x,), (y,), (ir.serde.deserialize_node(proto),), constants, 18))
    assert [value.name for value in made.nodes[1].inputs if value] == ["x.half", "roi", "scales"]
    assert made.constants == constants
    onnx.checker.check_model(onnx_of(made), full_check=True)


def test_a_constant_of_two_uses_is_there_twice() -> None:
    x, y = GraphTensor("x", (1, 1, 4, 4), "float32"), GraphTensor("y", (1, 1, 4, 4), "float32")
    nodes = (helper.make_node("Add", ["x", "c"], ["a"], "add"), helper.make_node("Resize", ["a", "", "c"], ["y"], "up", mode="nearest"))
    region = GraphRegion("r", (x,), (y,), tuple(map(ir.serde.deserialize_node, nodes)), {"c": np.ones(4, np.float32)}, 18)
    made = half_region(region)
    assert {name: array.dtype.name for name, array in made.constants.items()} == {"c": "float32", "c.half": "float16"}
    assert half_region(replace(region, constants={**region.constants, "spare": np.ones(1, np.float32)})).constants.keys() == made.constants.keys()


def test_a_machine_in_half_precision_says_how_far_it_is_off(tmp_path: Path) -> None:
    assert load_machine("graphengine").allowance is None
    machine = load_machine("graphengine:fp16")
    assert machine.half
    assert machine.allowance is not None
    assert machine.timing.peak_macs == 2 * (load_machine("graphengine").timing.peak_macs or 0)
    path = tmp_path / "e.yaml"
    path.write_text("target: {name: e, summary: s}\ncodegen: json\nhalf: 1\ntiming: {clock_khz: {value: 1, source: s}}\noperators: {Relu: []}\n")
    with pytest.raises(UserError, match="E0109 missing key 'tolerance'"):
        load_machine(str(path))


def test_the_graph_is_json_with_all_that_it_needs() -> None:
    first, _ = regions()
    code = GENERATORS["json"].generate(engine(), first)
    assert code == GENERATORS["json"].generate(engine(), first)
    held = json.loads(code.blob)
    assert [node["operator"] for node in held["nodes"]] == ["Conv", "Clip", "LeakyRelu", "Reshape"]
    assert held["nodes"][0]["attributes"]["strides"] == {"ints": [2, 2]}
    assert np.float32(held["nodes"][2]["attributes"]["alpha"]["float"]) == np.float32(0.1)
    assert held["inputs"] == [{"name": "x", "shape": [2, 3, 8, 8], "dtype": "float32"}]
    for entry in held["constants"]:
        array, offset = first.constants[entry["name"]], entry["offset"]
        assert offset % 64 == 0
        assert code.constants["constants"][offset : offset + array.nbytes] == array.tobytes()
    assert code.cycles == graph_cycles(engine(), first) > 0
    assert code.map.tensors["x"].bytes == 4 * 2 * 3 * 8 * 8


def test_equal_constants_stand_once() -> None:
    first, _ = regions()
    twice = replace(first, constants={**first.constants, "copy": first.constants["w"]})
    held = json.loads(GENERATORS["json"].generate(engine(), twice).blob)
    places = {entry["name"]: entry["offset"] for entry in held["constants"]}
    assert places["copy"] == places["w"]


def test_strange_names_stay_json() -> None:
    first, _ = regions()
    odd = replace(first, name='a"b\n{{ evil }}')
    assert json.loads(graph_text(odd, dict.fromkeys(first.constants, 0)))["name"] == odd.name


def test_an_attribute_that_json_does_not_hold() -> None:
    first, _ = regions()
    strange = ir.Node("", "Relu", [], [ir.AttrTensor("value", ir.tensor(np.zeros(1)))], name="strange")
    with pytest.raises(UserError, match="E1010 attribute 'value' of 'strange' is a tensor"):
        graph_text(replace(first, nodes=(strange,)), dict.fromkeys(first.constants, 0))
