"""A region in parts: the same nodes and tensors, each part a function with the facts of the whole.

Regions are functions that compute the same, take int8 and give int8; what stays on the host says why.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.graph.imported import run
from tests.graph.onnx_builder import model, save
from tests.passes.random_networks import ANYTHING, inputs, random_network
from tests.passes.test_quantize import NARROW, branchy, picture, samples
from tests.reasons import against, said
from tests.runtime import small
from toolchain.graph.importing.load import load_graph
from toolchain.graph.integers.calls import Reasons, reasons_of
from toolchain.graph.integers.functions import kind_of
from toolchain.graph.regions import BATCH, REGION, TARGET, region_calls, region_function
from toolchain.graph.rewrite import constant
from toolchain.graph.session import open_session, run_session
from toolchain.graph.store import Store
from toolchain.passes.build import build_graph, calibration_table, default_pipeline
from toolchain.passes.context import Context, Device, NodeCost, Policy, Price, Tariff
from toolchain.passes.partition import Partition, divide_region, outline
from toolchain.passes.pipeline import Pipeline
from toolchain.passes.placement import convex_groups
from toolchain.spec.errors import UserError
from toolchain.spec.reasons import Why


def two_steps() -> ir.Model:
    """Its first region is two convolutions, its second one."""
    found = ir.from_proto(ir.to_proto(small.network()[1]))
    for call in region_calls(found):
        region_function(found, call).metadata_props[BATCH] = "1"
    return found


def outputs(given: ir.Model) -> list[np.typing.NDArray[np.generic]]:
    found = run_session(open_session(ir.to_proto(given).SerializeToString(), optimise=False), {"x": small.images(1)})
    return [*found.values()]


def test_parts_are_regions_that_hand_over() -> None:
    divided = two_steps()
    calls = divide_region(divided, region_calls(divided)[0], {"a": {"conv1.y"}, "b": {"conv2.y"}})
    assert [call.op_type for call in region_calls(divided)] == ["a", "b", "region1"]
    assert [[value.name for value in call.outputs] for call in calls] == [["conv1.y"], ["conv2.y"]]
    assert calls[1].inputs[0] is calls[0].outputs[0]
    assert [region_function(divided, call).metadata_props[BATCH] for call in calls] == ["1", "1"]
    assert all(np.array_equal(one, other) for one, other in zip(outputs(two_steps()), outputs(divided), strict=True))


@pytest.mark.parametrize("parts", [{"a": {"conv1.y"}}, {"b": {"conv2.y"}}], ids=["reads it", "is read by it"])
def test_a_node_that_makes_no_result_goes_with_its_neighbours(parts: dict[str, set[str]]) -> None:
    """A convolution that no part names stands for such a node: it goes with its reader, or, where none reads it, with the maker of its operand."""
    whole = two_steps()
    calls = divide_region(whole, region_calls(whole)[0], parts)
    assert len(calls) == 1
    assert [kind_of(node) for node in region_function(whole, calls[0])] == ["conv2d", "conv2d"]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_any_convex_part_of_a_network(tmp_path_factory: pytest.TempPathFactory, seed: int, choice: int) -> None:
    net, rng = random_network(seed, ANYTHING, 7), np.random.default_rng(choice)
    model = load_graph(save(net.model(), tmp_path_factory.mktemp("o")))
    x, nodes = {"x": inputs(net, seed, 1)[0]}, list(model.graph)
    wanted, names = run(model, x), {value.name: value.shape for node in nodes for value in node.outputs}
    numbers = {node: k for k, node in enumerate(nodes)}
    before = [sorted({numbers[maker] for value in node.inputs if value is not None and (maker := value.producer()) is not None}) for node in nodes]
    groups = convex_groups(before, [bool(rng.integers(2)) for _ in nodes])
    calls = [outline(model, [nodes[k] for k in group], "parts", f"part{k}", {"label": str(k)}) for k, group in enumerate(groups)]
    model.graph.sort()
    for name, array in run(model, x).items():
        np.testing.assert_array_equal(array, wanted[name])
    for call, group in zip(calls, groups, strict=True):
        function = model.functions[call.op_identifier()]
        assert call.metadata_props["label"] == function.metadata_props["label"]
        assert len(function) == len(group)
        assert [value.name for value in function.outputs] == [value.name for value in call.outputs]
        assert all(value.shape == names[value.name] for value in call.outputs)


def test_constants_come_after_tensors_and_stay_in_the_graph(tmp_path: Path) -> None:
    net = random_network(7, ANYTHING, 9)
    model = load_graph(save(net.model(), tmp_path))
    held = dict(model.graph.initializers)
    call = outline(model, list(model.graph), "parts", "all", {})
    kinds = [value is not None and value.is_initializer() for value in call.inputs]
    assert kinds == sorted(kinds)
    assert dict(model.graph.initializers) == held
    assert isinstance(model.functions[call.op_identifier()], ir.Function)


EVERYTHING: Callable[[ir.Node], Reasons] = lambda _: ()  # noqa: E731


def built(folder: Path, refuses: Callable[[ir.Node], Reasons] | None, fallback: bool = True, proto: onnx.ModelProto | None = None) -> ir.Model:
    path = save(proto or branchy(), folder)
    device = Device("some", refuses) if refuses else None
    context = Context(str(path), numerics=NARROW, table=calibration_table(path, {}, samples()), device=device, policy="all")
    steps = (*default_pipeline().passes[:-1], Partition(fallback=fallback))
    return build_graph(path, {}, context, Store(folder / "stages"), Pipeline(steps))


def results(folder: Path) -> list[np.ndarray]:
    stages = sorted((folder / "stages").glob("*-[qp]*.onnx"))
    return [run_session(open_session(stage), picture(7))["y"] for stage in stages]


@pytest.mark.parametrize("kept", ["nothing", "max_pool", "add", "conv2d"])
def test_the_model_computes_the_same_with_regions_of_any_size(kept: str, tmp_path: Path) -> None:
    model = built(tmp_path, lambda node: against("kept" if kind_of(node) == kept else ""))
    calls = region_calls(model)
    assert len(calls) == {"nothing": 1, "conv2d": 1}.get(kept, len(calls)) > 0
    one, other = results(tmp_path)
    np.testing.assert_array_equal(one, other)
    for call in calls:
        function = region_function(model, call)
        assert call.metadata_props[TARGET] == function.metadata_props[TARGET] == "some"
        data = [value for value in call.inputs if value is not None and constant(value) is None]
        assert {value.dtype for value in (*data, *call.outputs)} == {ir.DataType.INT8}
        assert [value.name for value in function.outputs] == [value.name for value in call.outputs]
    assert all(node.domain == REGION or said(node) for node in model.graph)
    assert {said(node) for node in model.graph if kind_of(node) == kept} == ({"kept"} if kept != "nothing" else set())


@pytest.mark.parametrize("middle", ["region0", "x.quantize", "a.dequantize", "a.int8", "x.int8", "w.folded", "w.folded.int"])
def test_a_model_may_use_the_names_that_passes_make_up(middle: str, tmp_path: Path) -> None:
    """A node and the tensor that it makes, on the host between two regions."""
    rng = np.random.default_rng(0)
    known = {"w": rng.normal(size=(4, 3, 3, 3)), "v": rng.normal(size=(4, 4, 1, 1)), **dict.fromkeys(["scale", "bias", "mean", "var"], np.ones(4))}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "first"),
        helper.make_node("BatchNormalization", ["c", "scale", "bias", "mean", "var"], ["a"], "norm"),
        helper.make_node("Softsign", ["a"], [middle], middle),
        helper.make_node("Conv", [middle, "v"], ["y"], "second"),
    ]
    proto = model(nodes, {"x": [1, 3, 8, 8]}, {"y": None}, {name: array.astype(np.float32) for name, array in known.items()})
    made = built(tmp_path, EVERYTHING, proto=proto)
    assert len(region_calls(made)) == 2
    assert len({node.name for node in made.graph}) == len(list(made.graph))
    one, other = results(tmp_path)
    np.testing.assert_array_equal(one, other)


def test_weights_stay_in_the_files_that_the_stage_before_wrote(tmp_path: Path) -> None:
    built(tmp_path, EVERYTHING)
    stages = tmp_path / "stages"
    before, after = (ir.load(stages / name).graph.initializers for name in ("13-quantize.onnx", "14-partition.onnx"))
    assert {n: v.const_value.location for n, v in before.items() if isinstance(v.const_value, ir.ExternalTensor)} == {
        n: v.const_value.location for n, v in after.items() if isinstance(v.const_value, ir.ExternalTensor)
    }


def test_shapes_and_scales_inside_a_region_are_in_the_file(tmp_path: Path) -> None:
    built(tmp_path, EVERYTHING)
    model = ir.load(tmp_path / "stages" / "14-partition.onnx")
    (call,) = region_calls(model)
    values = [value for node in region_function(model, call) for value in node.outputs]
    assert all(value.shape is not None and value.dtype == ir.DataType.INT8 and "tilewright.scale" in value.metadata_props for value in values)


def test_without_a_machine_everything_stays(tmp_path: Path) -> None:
    model = built(tmp_path, None)
    assert not region_calls(model)
    assert "no machine was named" in {said(node) for node in model.graph}


def test_what_only_moves_is_no_region(tmp_path: Path) -> None:
    model = built(tmp_path, lambda node: against("" if kind_of(node) in ("concat", "flatten", "pad") else "kept"))
    assert not region_calls(model)
    assert "no operation beside it is computed on the machine" in {said(node) for node in model.graph}


def test_without_fallback_the_first_operation_that_stays_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        built(tmp_path, lambda node: against("a pool is too much" if kind_of(node) == "max_pool" else ""), fallback=False)
    text = str(caught.value)
    assert "E0920 node 'maxpool' (max_pool), which makes 'm1' of shape 1x8x2x2, cannot run on the machine: a pool is too much" in text


def dear(name: str) -> Device:
    """A machine that saves a millisecond a call; a tensor crosses for a tenth, but for one, which takes five."""

    def crossing(value: ir.Value) -> float:
        return 5.0 if name in (value.name or "") else 0.1

    def prices(nodes: Sequence[ir.Node]) -> Price:
        read = {value for node in nodes for value in node.inputs if value is not None}
        given = {value for value in read if not value.is_initializer() and value.producer() not in nodes}
        made = {value for node in nodes for value in node.outputs if any(user not in nodes for user, _ in value.uses())}
        return Price(float(len(nodes)), 0.0, sum(map(crossing, given | made)))

    return Device("some", EVERYTHING, prices, tariff=Tariff(lambda _: NodeCost(1.0, 0.0), crossing))


@pytest.mark.parametrize("policy", get_args(Policy))
def test_a_node_whose_result_is_dear_to_carry_away_is_left_to_the_host(policy: Policy, tmp_path: Path) -> None:
    path = save(branchy(), tmp_path)
    context = Context(str(path), numerics=NARROW, table=calibration_table(path, {}, samples()), device=dear("d1"), policy=policy)
    model = build_graph(path, {}, context, Store(tmp_path / "stages"))
    left = {node.op_type for node in model.graph if Why.DEARER() in reasons_of(node)}
    on = {kind_of(node) for call in region_calls(model) for node in region_function(model, call)}
    assert (left, "dense" in on) == (({"dense"}, False) if policy == "least" else (set(), True))
