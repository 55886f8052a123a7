"""The whole graph side: every stage is a file that runs, twice the same; the digits network keeps its accuracy; QDQ models come in.

Several machines share a graph: each takes what those before it left, in integers of its own.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from tests.graph.onnx_builder import conv_net, n, save
from tests.hash_seed import printed_elsewhere
from tests.passes.test_quantize import NARROW, RULES, branchy, picture, samples
from tests.reasons import against, said
from toolchain.accuracy.errors import error_table
from toolchain.graph.importing.load import load_graph
from toolchain.graph.integers.calls import reasons_of, refusals_of, run_oracle, run_reference
from toolchain.graph.integers.functions import FUSED, INTEGER, integer_domain, is_integer, kind_of
from toolchain.graph.nodes import REASON
from toolchain.graph.quantisation.table import write_table
from toolchain.graph.regions import REGION, TARGET, region_calls, region_function
from toolchain.graph.session import open_session, run_session
from toolchain.graph.store import Store, open_model
from toolchain.operations.library import builtin_kinds
from toolchain.passes import build as module
from toolchain.passes.build import (
    Offer,
    Turn,
    build_graph,
    build_turns,
    calibration_table,
    declared_table,
    default_pipeline,
    float_passes,
    steps_of,
)
from toolchain.passes.context import Context, Device, Wish, give
from toolchain.passes.equalise import CorrectBias
from toolchain.passes.fuse import sources_of
from toolchain.passes.leave import absorb_activations, release_activations
from toolchain.passes.pipeline import Pipeline, print_pipeline, read_pipeline
from toolchain.spec.errors import Source
from toolchain.spec.fingerprint import Memo
from toolchain.spec.model.quantisation import Numerics


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


STORED = Numerics().activation

DIGITS = Path(__file__).resolve().parents[2] / "models" / "digits"


def test_every_stage_runs_and_two_builds_are_equal(tmp_path: Path) -> None:
    path = save(branchy(), tmp_path)
    table = calibration_table(path, {}, samples())
    for name in ("one", "two"):
        build_graph(path, {}, Context(str(path), numerics=NARROW, table=table), Store(tmp_path / name))
    stages = sorted((tmp_path / "one").iterdir())
    assert [stage.read_bytes() for stage in stages] == [(tmp_path / "two" / stage.name).read_bytes() for stage in stages]
    names = [stage.stem for stage in stages if stage.suffix == ".onnx"]
    assert names == ["00-import", *(f"{number:02}-{step.name}" for number, step in enumerate(default_pipeline().passes, 1))]
    assert names[-3:] == ["12-fuse", "13-quantize", "14-partition"]
    results = [run_session(open_session(stage), picture())["y"] for stage in stages if stage.suffix == ".onnx"]
    for result in results[:-2]:
        np.testing.assert_allclose(result, results[0], rtol=1e-4, atol=1e-5)
    assert np.abs(results[-2] - results[0]).max() < 0.2
    np.testing.assert_array_equal(results[-1], results[-2])


def test_a_float_network_is_held_against_its_file_once_for_each_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, asked = save(branchy(), tmp_path), list[str]()
    monkeypatch.setattr(module, "CHECKED", Memo[None](8))
    monkeypatch.setattr(module, "check_floats", lambda *given: asked.append(given[5]))
    table = calibration_table(path, {}, samples())
    context = Context(str(path), numerics=NARROW, table=table, samples=samples())
    whole, simple = default_pipeline(), Pipeline(tuple(float_passes(default_pipeline().passes)))

    def checks(digest: str = "a", context: Context = context, pipeline: Pipeline = whole) -> int:
        before = len(asked)
        folder = tmp_path / f"stages{len([*tmp_path.iterdir()])}"
        build_graph(path, {}, context, Store(folder, lent={path.absolute(): digest} if digest else {}), pipeline)
        return len(asked) - before

    other = {name: array + 1 for name, array in samples().items()}
    wide = {name: replace(seen, spread=replace(seen.spread, maximum=2 * seen.spread.maximum)) for name, seen in table.tensors.items()}
    assert checks() == 1
    assert checks(context=replace(context, numerics=replace(NARROW, accumulator_bits=30))) == 0
    assert checks("b") == 1, "another model file"
    assert checks(context=replace(context, samples=other)) == 1
    assert checks(context=replace(context, table=replace(table, tensors=wide))) == 1
    assert checks(pipeline=simple) == 1, "another float stage"
    assert [checks(""), checks("")] == [1, 1], "a file that is none of the build's own"


def test_the_default_pipeline_prints_and_reads_back() -> None:
    assert read_pipeline(Source("p", print_pipeline(default_pipeline()))) == default_pipeline()


@pytest.mark.parametrize("rule", ["plain", "narrow", "channel"])
def test_digits_keep_their_accuracy(rule: str, tmp_path: Path) -> None:
    stored = np.load(DIGITS / "digits.npz")
    scale, numerics = np.float32(0.125), RULES[rule]
    table = calibration_table(DIGITS / "digits.onnx", {}, {"image": stored["calibration"][:, None] * scale})
    result = build_graph(DIGITS / "digits.onnx", {}, Context(numerics=numerics, table=table), Store(tmp_path))
    session, float_session = open_model(result), open_session(DIGITS / "digits.onnx")
    images = stored["test"] * scale
    right = [0, 0]
    for index, label in enumerate(stored["labels"]):
        for place, each in enumerate((session, float_session)):
            right[place] += run_session(each, {"image": images[index : index + 1]})["logits"].argmax() == label
    assert right[0] >= right[1] - 3
    assert right[0] >= 0.97 * len(images)
    x = {"image": images[:1]}
    oracle, reference = run_oracle(result, x), run_reference(result, x, numerics)
    assert all(np.array_equal(array, reference[name]) for name, array in oracle.items())


def quantised_elsewhere() -> onnx.ModelProto:
    """conv_net's first layers as other tools write them: int8 weights, and a pair on every activation."""
    proto = conv_net()
    graph = proto.graph
    del graph.node[5:]
    del graph.node[1]
    weights = numpy_helper.to_array(next(t for t in graph.initializer if t.name == "w1"))
    stored = np.clip(np.rint(weights * 64), -127, 127).astype(np.int8)
    extra = {"w1q": stored, "s64": np.float32(1 / 64), "z": np.int8(0), "sx": np.float32(1 / 32), "s1": np.float32(1 / 16)}
    graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for name, array in extra.items())
    nodes = [
        n("QuantizeLinear", ["x", "sx", "z"], ["xq"], "q1"),
        n("DequantizeLinear", ["xq", "sx", "z"], ["xd"], "d1"),
        n("DequantizeLinear", ["w1q", "s64", "z"], ["w1d"], "d2"),
        n("Conv", ["xd", "w1d", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        n("Relu", ["c1"], ["r1"], "relu1"),
        n("QuantizeLinear", ["r1", "s1", "z"], ["rq"], "q2"),
        n("DequantizeLinear", ["rq", "s1", "z"], ["rd"], "d3"),
        n("MaxPool", ["rd"], ["y"], "pool1", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    del graph.node[:]
    graph.node.extend(nodes)
    graph.output[0].type.tensor_type.shape.CopyFrom(helper.make_tensor_value_info("y", 1, ["batch", 8, 4, 4]).type.tensor_type.shape)
    return proto


def test_a_qdq_model_keeps_its_own_scales_and_results(tmp_path: Path) -> None:
    """Its scales are powers of two, so the integers are the model's own."""
    path = save(quantised_elsewhere(), tmp_path)
    table = declared_table(path, {"batch": 1})
    assert table is not None
    assert {name: seen.spread.maximum for name, seen in table.tensors.items()} == {"xd": 127 / 32, "rd": 127 / 16, "y": 127 / 16}
    result = build_graph(path, {"batch": 1}, Context(numerics=Numerics(rounding="half_even"), table=table), Store(tmp_path / "out"))
    assert [node.op_type for node in result.graph] == ["quantize", "conv2d", "max_pool", "dequantize"]
    weights = next(node for node in result.graph if node.op_type == "conv2d").inputs[1].const_value.numpy()
    wanted = next(numpy_helper.to_array(t) for t in quantised_elsewhere().graph.initializer if t.name == "w1q").astype(int)
    assert set(np.unique(weights - wanted * (int(weights.max()) // int(wanted.max())))) == {0}
    x = picture()
    found, expected = run_session(open_model(result), x)["y"], run_session(open_session(path), x)["y"]
    np.testing.assert_array_equal(found, expected)


def test_a_float_model_declares_no_table(tmp_path: Path) -> None:
    assert declared_table(save(conv_net(), tmp_path), {"batch": 1}) is None


@pytest.mark.parametrize("rule", ["plain", "narrow", "channel"])
def test_cross_layer_correction_moves_means_back(rule: str, tmp_path: Path) -> None:
    """Coarse weights, so that there is something to correct; the error of the last layer falls, and both evaluators still agree."""
    import dataclasses

    from toolchain.spec.model.quantisation import Range

    numerics = dataclasses.replace(RULES[rule], weight=Range(-7, 7), leaky=None)
    path = save(branchy(), tmp_path)
    inputs = samples(16)
    table = calibration_table(path, {}, inputs)
    context = Context(numerics=numerics, table=table, samples=inputs)
    plain = build_graph(path, {}, context, Store(tmp_path / "a"))
    corrected = build_graph(path, {}, context, Store(tmp_path / "b"), Pipeline((*default_pipeline().passes, CorrectBias(samples=16))))
    rows = [{row.tensor: row.sqnr for row in error_table(load_graph(path), model, inputs, STORED)} for model in (plain, corrected)]
    assert rows[1]["d1"] > rows[0]["d1"]
    x = picture(4)
    oracle, reference = run_oracle(corrected, x), run_reference(corrected, x, numerics)
    assert all(np.array_equal(array, reference[name]) for name, array in oracle.items() if array.dtype == np.int8)


def write_stages(path: Path, out: Path) -> None:
    """The calibration table and the file of every pass."""
    table = calibration_table(path, {}, {"x": np.random.default_rng(0).normal(size=(4, 1, 3, 8, 8)).astype(np.float32)})
    build_graph(path, {}, Context(numerics=Numerics(), table=table), Store(out))
    write_table(table, out / "table.json")


def test_bytes_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    path = save(branchy(), tmp_path)
    code = "import sys; from pathlib import Path; from tests.passes.test_build import write_stages; write_stages(*map(Path, sys.argv[1:]))"
    printed_elsewhere(code, str(path), str(tmp_path / "1"))
    write_stages(path, tmp_path / "2")
    found = [{file.name: file.read_bytes() for file in sorted((tmp_path / name).iterdir())} for name in ("1", "2")]
    assert len(found[0]) > 10
    assert found[0] == found[1]
