"""Recurrent layers as a product and loops: the same numbers, the same outputs, and whole again where the product is the host's. Layers are
whole on the host, and stay split where a machine has their product."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import assume, given, settings
from onnx import helper

from tests.graph.imported import Array, imported, node_of, normal, run
from tests.graph.onnx_builder import n
from tests.graph.recurrent import Recurrent, layers
from toolchain.graph.equivalence import find_mismatch
from toolchain.graph.integers.calls import Reasons, note_reasons, note_refusals, reasons_of, refusals_of
from toolchain.graph.quantisation.table import calibrate
from toolchain.graph.regions import region_calls
from toolchain.graph.rewrite import add_constant, constant
from toolchain.passes.context import Context, Device, keep
from toolchain.passes.fuse import Fuse, sources_of
from toolchain.passes.join_recurrent import SplitRecurrent, join_as, join_recurrent, parts_of
from toolchain.passes.partition import Partition
from toolchain.passes.pipeline import run_passes
from toolchain.passes.quantize import Quantize
from toolchain.spec.model.quantisation import Numerics
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import Why

ROUNDING = 1e-5
"""Of a tensor's largest magnitude, or 1. The two forms add the same 20 products at most in another order: sums of about 5 in float32 differ by some
2 ** -22, and each of seven steps hands that on, multiplied by the weights of the states, about 3 together (400 layers: 1.4e-6 at most)."""

LARGEST = 1e3
"""Gates without a limit, such as LeakyRelu, can multiply states from step to step; beyond float32's range both forms say infinity, in places of their
own."""

BOTH = Recurrent("LSTM", "bidirectional", 5, 4, 3, outputs=("last", "y"))
X = {"x": normal(9, *BOTH.shape)}


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


def partitioned(folder: Path, refusal: Reasons) -> ir.Model:
    """For a machine that refuses everything for a reason, or nothing."""
    model = run_passes(BOTH.model(folder), [SplitRecurrent()], Context())
    table = calibrate(model, {"x": normal(1, 4, *BOTH.shape)})
    device = Device("some", lambda _: refusal, recurrence=lambda node: Why.NO_TEMPLATE(family=f"steps of {node.op_type}"))
    context = Context(numerics=Numerics(), table=table, device=device, policy="all")
    return run_passes(model, [Fuse(), Quantize(), Partition()], context)


def test_a_layer_is_split_where_the_machine_has_its_product(tmp_path: Path) -> None:
    model = partitioned(tmp_path, ())
    assert region_calls(model)
    loops = [node for node in model.graph if node.op_type == "Scan"]
    assert [loop.name for loop in loops] == ["layer", "layer.reverse"]
    assert [reasons_of(loop) for loop in loops] == [(Why.NO_TEMPLATE(family="steps of Scan"),)] * 2
    wanted = run(BOTH.model(tmp_path), X)
    for name, array in run(model, X).items():
        assert 0 < np.abs(array - wanted[name]).max() < 0.1


def test_a_layer_is_whole_where_it_does_not(tmp_path: Path) -> None:
    refusal = Why.RULE(note="no")
    model = partitioned(tmp_path, (refusal,))
    (node,) = model.graph
    assert (node.op_type, node.name) == ("LSTM", "layer")
    assert reasons_of(node) == (Why.NO_TEMPLATE(family="steps of LSTM"), refusal)
    assert sources_of(node) == ["layer"]
    assert {*parts_of(node)} == {
        "layer",
        "layer.reverse",
        "layer.rows",
        "layer.inputs",
        "layer.inputs.sum",
        "layer.directions.0",
        "layer.directions.1",
    }
    wanted, found = run(BOTH.model(tmp_path), X), run(model, X)
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("refusal", [(), (Why.RULE(note="no"),)])
def test_the_stage_before_has_the_layers_that_are_whole(refusal: Reasons, tmp_path: Path) -> None:
    before = SplitRecurrent().run(BOTH.model(tmp_path), Context())
    partition = partitioned(tmp_path, refusal)
    join_as(before, partition)
    operators = [node.op_type for node in before.graph]
    if not refusal:
        assert operators.count("Scan") == 2
        return
    assert operators == ["LSTM"]
    wanted = run(partition, X)
    for name, array in run(before, X).items():
        np.testing.assert_array_equal(array, wanted[name])


def test_a_layer_whose_states_a_machine_takes_apart_stays_split(tmp_path: Path) -> None:
    nodes = [
        n("ReduceMax", ["x"], ["m"], keepdims=1),
        n("Mul", ["m", "part"], ["h"]),
        n("GRU", ["x", "w", "r", "", "", "h"], ["y"], "gru", hidden_size=2, direction="bidirectional"),
    ]
    known = {"w": normal(0, 2, 6, 3), "r": normal(1, 2, 6, 2), "part": normal(2, 2, 1, 2)}
    model = SplitRecurrent().run(imported(tmp_path, nodes, (4, 1, 3), known), Context())
    join_recurrent(model, {node_of(model, "Split")}, Context())
    assert node_of(model, "Split")


@pytest.mark.parametrize(
    ("against", "told"),
    [
        (Why.DEARER(), []),
        (Why.LOSS(operations=1, first="layer.inputs", machine_ms=2, host_ms=1), []),
        (Why.COSTLY_UNPRICED(percent=3), [Why.COSTLY_UNPRICED(percent=3)]),
    ],
)
def test_a_layer_s_own_prices_say_why_its_product_does_not_pay(against: Reason, told: list[Reason], tmp_path: Path) -> None:
    prices = dict.fromkeys(("inputs_machine_ms", "inputs_host_ms", "states_machine_ms", "states_host_ms", "loop_ms"), 1.0)
    own = Why.RECURRENT(steps=5, **prices)
    model = SplitRecurrent().run(BOTH.model(tmp_path), Context())
    note_reasons(model.graph.node("layer.inputs.sum"), against)
    join_recurrent(model, (), Context(device=Device("some", lambda _: (), recurrence=lambda _: own)))
    assert reasons_of(node_of(model, "LSTM")) == (own, *told)


def test_what_machines_said_of_the_product_is_said_of_the_layer(tmp_path: Path) -> None:
    model = SplitRecurrent().run(BOTH.model(tmp_path), Context())
    product, told = model.graph.node("layer.inputs.sum"), {"one": (Why.RULE(note="no"),)}
    note_refusals(product, told)
    join_recurrent(model, (), Context())
    assert refusals_of(node_of(model, "LSTM")) == told


@pytest.mark.parametrize("placed", ["layer.inputs.sum", "layer.inputs", "layer.directions.0"])
def test_a_layer_of_which_a_region_has_a_part_stays_split(placed: str, tmp_path: Path) -> None:
    model = SplitRecurrent().run(BOTH.model(tmp_path), Context())
    before = [node.op_type for node in model.graph]
    join_recurrent(model, {model.graph.node(placed)}, Context())
    assert [node.op_type for node in model.graph] == before


def test_a_loop_of_the_model_s_own_is_none_of_ours(tmp_path: Path) -> None:
    state = [helper.make_tensor_value_info(name, 1, [3]) for name in ("h", "p", "g", "q")]
    body = helper.make_graph([n("Add", ["h", "p"], ["g"]), n("Neg", ["g"], ["q"])], "body", state[:2], state[2:])
    nodes = [n("Scan", ["start", "x"], ["last", "y"], "own", body=body, num_scan_inputs=1)]
    model = imported(tmp_path, nodes, (4, 3), {"start": normal(0, 3)})
    join_recurrent(model, (), Context())
    assert [node.op_type for node in model.graph] == ["Scan"]
