"""Several machines share a graph: each takes what those before it left, in integers of its own."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from tests.graph.onnx_builder import save
from tests.passes.test_quantize import NARROW, branchy, picture, samples
from tests.reasons import against, said
from toolchain.graph.integers.calls import REASON, reasons_of, refusals_of
from toolchain.graph.integers.functions import FUSED, INTEGER, integer_domain, is_integer, kind_of
from toolchain.graph.regions import REGION, TARGET, region_calls, region_function
from toolchain.graph.session import open_session, run_session
from toolchain.graph.store import Store
from toolchain.operations.library import builtin_kinds
from toolchain.passes.build import build_graph, build_turns, calibration_table, default_pipeline
from toolchain.passes.context import Context, Device, Wish, give
from toolchain.passes.fuse import sources_of
from toolchain.passes.leave import absorb_activations, release_activations
from toolchain.passes.pipeline import Pipeline
from toolchain.passes.turns import Offer, Turn, steps_of


def left(folder: Path) -> tuple[ir.Model, Context]:
    """branchy quantised for a machine without convolutions."""
    path, device = save(branchy(), folder), Device("one", lambda node: against("it has none" if kind_of(node) == "conv2d" else ""))
    table = calibration_table(path, {}, samples())
    context = Context(str(path), numerics=NARROW, table=table, device=device, policy="all", further=True)
    model = build_graph(path, {}, context, Store(folder / "stages"), Pipeline(default_pipeline().passes[:-1]))
    return model, replace(context, device=Device("two", lambda _: ()), before=(device,), kinds=builtin_kinds())


def test_layers_are_whole_again_and_say_who_refused_them(tmp_path: Path) -> None:
    model, context = left(tmp_path)
    assert not [node for node in model.graph if node.domain == FUSED and "__" in node.op_type]
    Offer().run(model, context)
    fused = {node.name: node for node in model.graph if node.domain == FUSED}
    assert {name: node.op_type for name, node in fused.items()} == {
        "conv1": "conv2d__relu", "depthwise": "conv2d__clip", "conv3": "conv2d__leaky"
    }  # fmt: skip
    assert all(refusals_of(node) == {"one": against("it has none")} and REASON not in node.metadata_props for node in fused.values())
    assert all(REASON not in node.metadata_props for node in model.graph if not is_integer(node))


def reads(model: ir.Model) -> dict[str, str]:
    """By conversion to integers, the tensor that it converts."""
    return {node.name or "": node.inputs[0].name or "" for node in model.graph if kind_of(node) == "quantize" and node.inputs[0] is not None}


def test_conversions_give_activations_back_and_take_them_again(tmp_path: Path) -> None:
    """Where nobody takes the layer, the conversion to integers does its activation again."""
    model, _ = left(tmp_path)
    absorbed = reads(model)
    release_activations(model)
    assert {name for name, tensor in reads(model).items() if tensor != absorbed[name]} == {"r2.quantize"}
    absorb_activations(model)
    assert reads(model) == absorbed


SECOND = replace(NARROW, rounding="floor")
assert NARROW.rounding != SECOND.rounding


def device(number: int, name: str, takes: Callable[[str], bool]) -> Device:
    """takes: whether it computes operations of a name."""
    return Device(name, lambda node: against("" if takes(kind_of(node)) else f"{name} has none"), domain=integer_domain(number, name))


def built(folder: Path, takes: Callable[[str], bool], wishes: tuple[Wish, ...] = ()) -> ir.Model:
    """branchy on `one`, which takes some operations, and on `two`, which takes all."""
    path = save(branchy(), folder)
    common = Context(str(path), numerics=NARROW, table=calibration_table(path, {}, samples()), policy="all", wishes=wishes)
    passes = default_pipeline().passes
    first = replace(common, device=device(0, "one", takes))
    second = replace(common, device=device(1, "two", lambda _: True), numerics=SECOND)
    return build_turns(path, {}, [Turn(passes, first), Turn(passes, second)], Store(folder / "stages"))


def owners(model: ir.Model) -> dict[str, str]:
    """By node of the user's, the machine that it is on."""
    return {name: call.metadata_props[TARGET] for call in region_calls(model) for node in region_function(model, call) for name in sources_of(node)}


def test_the_order_of_passes() -> None:
    turns = [Turn(default_pipeline().passes, Context(device=device(number, name, bool))) for number, name in enumerate(("a", "b", "c"))]
    steps = steps_of(turns)
    names = [f"{step.name} {context.device.name}" for step, context in steps if context.device]
    assert names[-8:] == ["fuse a", "quantize a", "offer b", "fuse b", "quantize b", "offer c", "fuse c", "quantize c", "partition c"][-8:]
    assert [each.name for each in steps[-1][1].devices] == ["a", "b", "c"]
    assert steps_of(turns[:1]) == tuple((step, turns[0].context) for step in turns[0].passes)


@pytest.mark.parametrize("kind", ["conv2d", "max_pool", "add", "dense", "none"])
def test_every_node_goes_to_the_first_machine_that_takes_it(kind: str, tmp_path: Path) -> None:
    """And regions compute what their operations do, whatever machine they are for."""
    model = built(tmp_path, lambda name: name != kind)
    stages = [*sorted((tmp_path / "stages").glob("*-quantize.onnx"))[1:], *(tmp_path / "stages").glob("*-partition.onnx")]
    whole, divided = (run_session(open_session(stage), picture(7))["y"] for stage in stages)
    np.testing.assert_array_equal(whole, divided)
    for call in region_calls(model):
        nodes = list(region_function(model, call))
        assert {node.domain for node in nodes} == {integer_domain(("one", "two").index(call.metadata_props[TARGET]), call.metadata_props[TARGET])}
        assert all((kind_of(node) == kind) == (call.metadata_props[TARGET] == "two") for node in nodes)
        assert all(refusals_of(node) == {"one": against("one has none")} for node in nodes if kind_of(node) == kind)
    assert ({call.metadata_props[TARGET] for call in region_calls(model)} == {"one", "two"}) == (kind != "none")
    assert all(node.domain == REGION or said(node) for node in model.graph)


def test_functions_of_one_name_have_each_machines_arithmetic(tmp_path: Path) -> None:
    model = built(tmp_path, lambda name: name != "max_pool")
    functions = {key[0]: [n.op_type for n in function] for key, function in model.functions.items() if key[1] == "quantize"}
    assert set(functions) == {INTEGER, f"{INTEGER}.two"}
    assert functions[INTEGER] != functions[f"{INTEGER}.two"]


def test_the_user_gives_nodes_to_a_machine(tmp_path: Path) -> None:
    found = owners(built(tmp_path, lambda _: True, (give(["conv3"], "two"), give(["maxpool"], "one"))))
    assert found["conv3"] == "two"
    assert found["conv1"] == found["maxpool"] == "one"


def test_a_node_for_one_machine_that_refuses_it_stays_on_the_host(tmp_path: Path) -> None:
    model = built(tmp_path, lambda name: name != "max_pool", (give(["MaxPool"], "one"),))
    assert "maxpool" not in owners(model)
    (left,) = [node for node in model.graph if "maxpool" in sources_of(node) and not is_integer(node)]
    assert said(left) == "one has none"


def test_reasons_of_every_machine_stand_beside_a_node_of_the_host(tmp_path: Path) -> None:
    model = built(tmp_path, lambda name: name != "max_pool")
    (left,) = [node for node in model.graph if node.op_type == "Softmax"]
    assert set(refusals_of(left)) == {"one", "two"}
    assert reasons_of(left) == refusals_of(left)["one"]
