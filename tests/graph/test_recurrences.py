"""Which layers are read, and how their steps stand in loops."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from tests.graph.imported import imported, node_of, normal
from tests.graph.onnx_builder import n
from tests.graph.recurrent import Recurrent
from toolchain.graph.recurrences import (
    RecurrentLayer,
    is_loop,
    layer_of,
    loop_sizes,
    loops_of,
    loops_that_read,
    products_of,
    release,
    starts_of,
    step_of,
)
from toolchain.graph.rewrite import captured, shape_of
from toolchain.graph.work import Recurrence, host_work


def layer(folder: Path, given: Recurrent) -> RecurrentLayer | None:
    return layer_of(node_of(given.model(folder), given.kind))


REFUSED: list[dict[str, Any]] = [
    {"steps": 1},
    {"batch": 2},
    {"direction": "bidirectional", "attributes": {"activations": ["HardSigmoid", "Tanh"] * 2, "activation_alpha": [0.3, 0.2]}},
]


@pytest.mark.parametrize("change", REFUSED)
def test_what_a_bias_or_one_step_cannot_say_is_left(change: dict[str, Any], tmp_path: Path) -> None:
    found = Recurrent("GRU")
    assert layer(tmp_path, found) is not None
    assert layer(tmp_path, replace(found, **change)) is None


def test_computed_weights_and_shorter_sequences_are_left(tmp_path: Path) -> None:
    known = {"w": normal(0, 1, 6, 3), "r": normal(1, 1, 6, 2), "short": np.array([3], np.int32), "whole": np.array([4], np.int32)}
    weights = [n("Reshape", ["x", "size"], ["rows"]), n("MatMul", ["tall", "rows"], ["w2"]), n("GRU", ["x", "w2", "r"], ["y"], hidden_size=2)]
    more = known | {"size": np.array([1, 4, 3]), "tall": normal(2, 6, 4)}
    assert layer_of(node_of(imported(tmp_path, weights, (4, 1, 3), more), "GRU")) is None
    for lengths, taken in (("short", False), ("whole", True)):
        nodes = [n("GRU", ["x", "w", "r", "", lengths], ["y"], hidden_size=2)]
        assert (layer_of(node_of(imported(tmp_path, nodes, (4, 1, 3), known), "GRU")) is not None) == taken


def test_other_operators_are_no_layers(tmp_path: Path) -> None:
    relu = node_of(imported(tmp_path, [n("Relu", ["x"], ["y"])]), "Relu")
    assert layer_of(relu) is None
    assert not is_loop(relu)
    assert not is_loop(None)


def test_a_loop_for_each_direction(tmp_path: Path) -> None:
    given = Recurrent("LSTM", "bidirectional", operands=("bias", "peepholes", "starts"))
    graph, known = given.model(tmp_path).graph, given.constants()
    found = layer_of(next(iter(graph)))
    assert found is not None
    assert found.reversed == (False, True)
    products = ir.Value(name="products", shape=ir.Shape((1, 4, 16)), type=ir.TensorType(ir.DataType.FLOAT))
    loops = loops_of(graph, found, products)
    assert [loop.name for loop in loops] == ["layer", "layer.reverse"]
    assert loops_that_read(products) == loops
    for number, loop in enumerate(loops):
        assert is_loop(loop)
        assert products_of(loop) is products
        assert loop_sizes(loop) == Recurrence(4, 4, 0, 2, 8, 1)
        assert [shape_of(value) for value in loop.outputs] == [(1, 1, 2), (1, 1, 2), (4, 1, 1, 2)]
        step, own = step_of(loop), slice(number, number + 1)
        np.testing.assert_array_equal(step.states, known["r"][own])
        np.testing.assert_array_equal(step.bias, known["bias"][own, 8:])
        np.testing.assert_array_equal(step.peepholes, known["peepholes"][own])
        np.testing.assert_array_equal([value.const_value for value in starts_of(loop)], [known["start"][own], known["cells"][own]])
        assert host_work([loop])["LSTM"].macs == 4 * 8 * (2 + 1)
        assert host_work([loop])["Scan"].steps == 4


def test_a_loop_that_goes_reads_no_constants(tmp_path: Path) -> None:
    graph = Recurrent().model(tmp_path).graph
    found = layer_of(next(iter(graph)))
    assert found is not None
    products = ir.Value(name="products", shape=ir.Shape((1, 4, 8)), type=ir.TensorType(ir.DataType.FLOAT))
    (loop,) = loops_of(graph, found, products)
    constants = captured(loop)
    assert {value.name for value in constants} == {"layer.zero", "layer.none", "layer.states", "layer.bias"}
    release(loop)
    assert not any(value.uses() for value in constants)
