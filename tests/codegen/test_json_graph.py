"""A region as JSON: every operator, attribute and constant, the same text each time."""

import json
from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

from tests.graph_networks import engine, regions
from toolchain.codegen.generators import GENERATORS
from toolchain.codegen.json_graph import graph_cycles, graph_text
from toolchain.spec.errors import UserError


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
