"""Recurrent layers as a product and loops: the same numbers, the same outputs, and whole again where the product is the host's."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import assume, given, settings

from tests.graph.imported import Array, imported, normal, run
from tests.graph.onnx_builder import n
from tests.graph.recurrent import Recurrent, layers
from toolchain.graph.equivalence import find_mismatch
from toolchain.graph.rewrite import add_constant, constant
from toolchain.passes.context import Context, keep
from toolchain.passes.join_recurrent import join_recurrent
from toolchain.passes.split_recurrent import SplitRecurrent

ROUNDING = 1e-5
"""Of a tensor's largest magnitude, or 1. The two forms add the same 20 products at most in another order: sums of about 5 in float32 differ by some
2 ** -22, and each of seven steps hands that on, multiplied by the weights of the states, about 3 together (400 layers: 1.4e-6 at most)."""

LARGEST = 1e3
"""Gates without a limit, such as LeakyRelu, can multiply states from step to step; beyond float32's range both forms say infinity, in places of their
own."""


def operators(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


def agree(found: dict[str, Array], wanted: dict[str, Array]) -> None:
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        assert found[name].shape == array.shape
        np.testing.assert_allclose(found[name], array, rtol=0, atol=ROUNDING * max(1.0, float(np.abs(array).max())))


@settings(max_examples=40, deadline=None)
@given(layers())
def test_a_split_layer_computes_the_same_and_a_joined_one_exactly_that(tmp_path_factory: pytest.TempPathFactory, layer: Recurrent) -> None:
    folder = tmp_path_factory.mktemp("m")
    before, after, x = layer.model(folder), layer.model(folder), {"x": normal(9, *layer.shape)}
    SplitRecurrent().run(after, Context())
    wanted = run(before, x)
    assume(all(float(np.abs(array).max()) < LARGEST for array in wanted.values()))
    assert layer.kind not in operators(after)
    assert "MatMul" in operators(after)
    agree(run(after, x), wanted)
    assert find_mismatch(before, after, {}) is None
    join_recurrent(after, (), Context())
    assert operators(after) == [layer.kind]
    found = run(after, x)
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("change", ["layer.states", "layer.inputs.weights"])
def test_a_wrong_loop_or_product_is_found(change: str, tmp_path: Path) -> None:
    before, after = Recurrent("GRU").model(tmp_path), Recurrent("GRU").model(tmp_path)
    SplitRecurrent().run(after, Context())
    value = after.graph.initializers[change]
    array = constant(value)
    assert array is not None
    wrong = add_constant(after.graph, "wrong", array * np.float32(1.1))
    for user, number in list(value.uses()):
        user.replace_input_with(number, wrong)
    found = find_mismatch(before, after, {})
    assert found is not None
    assert found.tensor == "y"


def test_states_that_are_computed_are_split(tmp_path: Path) -> None:
    known = {"w": normal(0, 2, 6, 3), "r": normal(1, 2, 6, 2), "one": np.array([1]), "part": normal(2, 2, 1, 2)}
    nodes = [
        n("ReduceMax", ["x"], ["m"], keepdims=1),
        n("Mul", ["m", "part"], ["h"]),
        n("GRU", ["x", "w", "r", "", "", "h"], ["y"], "gru", hidden_size=2, direction="bidirectional"),
    ]
    x = {"x": normal(9, 4, 1, 3)}
    before, after = imported(tmp_path, nodes, (4, 1, 3), known), imported(tmp_path, nodes, (4, 1, 3), known)
    SplitRecurrent().run(after, Context())
    assert operators(after) == ["ReduceMax", "Mul", "Reshape", "MatMul", "Split", "Scan", "Scan", "Concat"]
    agree(run(after, x), run(before, x))
    join_recurrent(after, (), Context())
    assert operators(after) == ["ReduceMax", "Mul", "GRU"]
    np.testing.assert_array_equal(run(after, x)["y"], run(before, x)["y"])


def test_one_tensor_may_be_both_states(tmp_path: Path) -> None:
    known = {"w": normal(0, 2, 8, 3), "r": normal(1, 2, 8, 2), "part": normal(2, 2, 1, 2)}
    nodes = [
        n("ReduceMax", ["x"], ["m"], keepdims=1),
        n("Mul", ["m", "part"], ["h"]),
        n("LSTM", ["x", "w", "r", "", "", "h", "h"], ["y"], "lstm", hidden_size=2, direction="bidirectional"),
    ]
    x = {"x": normal(9, 4, 1, 3)}
    before, after = imported(tmp_path, nodes, (4, 1, 3), known), imported(tmp_path, nodes, (4, 1, 3), known)
    SplitRecurrent().run(after, Context())
    assert operators(after).count("Split") == 2
    agree(run(after, x), run(before, x))
    join_recurrent(after, (), Context())
    assert operators(after) == ["ReduceMax", "Mul", "LSTM"]
    np.testing.assert_array_equal(run(after, x)["y"], run(before, x)["y"])


def test_a_layer_that_the_user_places_stays_whole(tmp_path: Path) -> None:
    for pattern, taken in (("LSTM", False), ("lay*", False), ("other", True)):
        model = SplitRecurrent().run(Recurrent().model(tmp_path), Context(wishes=(keep([pattern]),)))
        assert ("Scan" in operators(model)) == taken


def test_layers_that_cannot_be_split_stay_as_they_are(tmp_path: Path) -> None:
    model = replace(Recurrent(), batch=2).model(tmp_path)
    assert operators(SplitRecurrent().run(model, Context())) == ["LSTM"]
