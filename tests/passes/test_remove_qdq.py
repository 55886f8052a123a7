"""Models that were quantised elsewhere: what their integers cut off stays, and what they compute is kept to the bit or its loss is stated."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import Phase, given, reject, settings
from hypothesis import strategies as st
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from tests.graph.imported import F, imported, node_of, normal, run
from tests.graph.onnx_builder import model as onnx_model
from tests.graph.onnx_builder import n, save
from tests.passes.random_networks import QUANTISABLE, Network, inputs, random_network
from toolchain.accuracy.closeness import closeness_of
from toolchain.accuracy.errors import measure_errors
from toolchain.graph.equivalence import STEP
from toolchain.graph.importing.load import load_graph
from toolchain.graph.integers.functions import INTEGER, kind_of
from toolchain.graph.operators import limit
from toolchain.graph.quantisation.ranges import calibration_kind
from toolchain.graph.session import open_session, run_session
from toolchain.graph.store import Store, open_model
from toolchain.passes.build import build_graph, calibration_table, declared_table, default_pipeline, float_passes, united_table
from toolchain.passes.context import Context, Device
from toolchain.passes.pipeline import run_passes
from toolchain.passes.remove_qdq import RANGE, MergeLimits, RemoveQdq, declares_ranges, qdq_table
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.offload import device_of
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics

STORED = Numerics().activation

Array = np.ndarray
SCALES = {"s": F(0.25), "other": F(0.5)}


def pair(source: str, result: str, scale: str = "s", zero: str = "z") -> list[onnx.NodeProto]:
    return [n("QuantizeLinear", [source, scale, zero], [f"{result}.q"]), n("DequantizeLinear", [f"{result}.q", scale, zero], [result])]


def floats(folder: Path, nodes: list[onnx.NodeProto], zero: Array, **constants: Array) -> ir.Model:
    """After the pass."""
    return RemoveQdq().run(imported(folder, nodes, constants={"z": zero, **SCALES, **constants}), Context())


@pytest.mark.parametrize("zero", [np.uint8(0), np.uint8(128), np.int8(-128), np.int8(0), np.int8(7)])
def test_what_zero_point_and_type_cut_off_becomes_a_clip(zero: Array, tmp_path: Path) -> None:
    """A zero point at the least integer stands for a ReLU that the quantiser left out."""
    nodes, x = [*pair("x", "t"), n("Neg", ["t"], ["y"], "neg")], {"x": normal(0, 1, 3, 4, 4) * F(60)}
    model = floats(tmp_path, nodes, zero)
    clip = node_of(model, "Clip")
    info = np.iinfo(zero.dtype)
    assert (limit(clip, 1), limit(clip, 2)) == ((info.min - int(zero)) / 4, (info.max - int(zero)) / 4)
    assert [node.op_type for node in model.graph] == ["Clip", "Neg"]
    given_ = imported(tmp_path, nodes, constants={"z": zero, **SCALES})
    assert np.abs(run(model, x)["y"] - run(given_, x)["y"]).max() <= 0.125
    assert float.fromhex(clip.outputs[0].metadata_props[STEP]) == 0.25


def test_a_clip_that_is_proven_to_cut_nothing_is_none(tmp_path: Path) -> None:
    nodes = [n("Sigmoid", ["x"], ["a"]), *pair("a", "b"), n("Neg", ["b"], ["y"])]
    assert [node.op_type for node in floats(tmp_path, nodes, np.uint8(0)).graph] == ["Sigmoid", "Neg"]
    assert [node.op_type for node in floats(tmp_path, nodes, np.uint8(0), s=F(1 / 512)).graph] == ["Sigmoid", "Clip", "Neg"]


KEPT = {
    "another scale behind": [n("QuantizeLinear", ["x", "s", "z"], ["q"]), n("DequantizeLinear", ["q", "other", "z"], ["y"])],
    "another zero point behind": [n("QuantizeLinear", ["x", "s", "z"], ["q"]), n("DequantizeLinear", ["q", "s", "z2"], ["y"])],
    "no zero point behind": [n("QuantizeLinear", ["x", "s", "z"], ["q"]), n("DequantizeLinear", ["q", "s"], ["y"])],
    "a scale for each channel": [
        n("QuantizeLinear", ["x", "many", "zeros"], ["q"], axis=1),
        n("DequantizeLinear", ["q", "many", "zeros"], ["y"], axis=1),
    ],
    "another reader of the integers": [*pair("x", "t"), n("Cast", ["t.q"], ["c"], to=1), n("Add", ["t", "c"], ["y"])],
    "a scale that is computed": [n("ReduceMax", ["x"], ["m"], keepdims=0), *pair("x", "y", "m")],
}


@pytest.mark.parametrize("case", KEPT)
def test_what_is_no_plain_pair_keeps_its_rounding(case: str, tmp_path: Path) -> None:
    constants = {"z2": np.uint8(3), "many": np.array([0.1, 0.2, 0.3], F), "zeros": np.zeros(3, np.uint8)}
    x = {"x": normal(0, 1, 3, 4, 4)}
    model = floats(tmp_path, KEPT[case], np.uint8(5), **constants)
    assert "QuantizeLinear" in [node.op_type for node in model.graph]
    given_ = imported(tmp_path, KEPT[case], constants={"z": np.uint8(5), **SCALES, **constants})
    np.testing.assert_array_equal(run(model, x)["y"], run(given_, x)["y"])


def test_ranges_go_along_with_what_only_moves(tmp_path: Path) -> None:
    inner = [n("MaxPool", ["a"], ["b"], kernel_shape=[2, 2]), n("Conv", ["b", "w"], ["c"])]
    nodes = [*pair("x", "a"), *inner, *pair("c", "d", "other"), n("Flatten", ["d"], ["y"])]
    model = floats(tmp_path, nodes, np.int8(0), w=normal(0, 2, 3, 1, 1))
    assert declares_ranges(model)
    assert not declares_ranges(imported(tmp_path, nodes, constants={"z": np.int8(0), **SCALES, "w": normal(0, 2, 3, 1, 1)}))
    table = qdq_table(model)
    assert table.samples == 0
    assert {name: seen.spread.maximum for name, seen in table.tensors.items()} == {"a": 127 / 4, "b": 127 / 4, "d": 127 / 2, "y": 127 / 2}
    assert {(seen.spread.least, seen.spread.most) for seen in table.tensors.values()} == {(-128 / 4, 127 / 4), (-128 / 2, 127 / 2)}
    assert RANGE not in node_of(model, "Conv").outputs[0].metadata_props


def tables(path: Path, x: Mapping[str, Array], recorded: bool = False) -> Context:
    """As a build does it: made-up samples, and the model's own ranges where they are not recorded."""
    seen, declared = calibration_table(path, {}, x), None if recorded else declared_table(path, {})
    return Context(str(path), table=united_table(seen, declared) if declared else seen, samples=x, policy="all", recorded=recorded)


def exact_network(seed: int) -> onnx.ModelProto:
    """A network as a quantiser writes it whose integers a shifting machine has too: int8, zero in the middle, steps that are powers of two."""
    rng = np.random.default_rng(seed)
    net = Network(rng, shapes={"x": (1, int(rng.integers(1, 5)), int(rng.integers(4, 8)), int(rng.integers(4, 8)))})
    zero, steps = net.constant(np.int8(0)), {-k: net.constant(F(2.0**-k)) for k in range(13)}

    def stored(value: str, place: int) -> str:
        made = net.add("QuantizeLinear", [value, steps[place], zero], net.shapes[value])
        return net.add("DequantizeLinear", [made, steps[place], zero], net.shapes[value])

    def layer(x: str, place: int) -> str:
        _, channels, *size = net.shapes[x]
        kernel, filters, weight = [net.integer(1, each) for each in (min(3, size[0]), min(3, size[1]))], net.integer(1, 6), -net.integer(5, 8)
        whole = rng.integers(-127, 128, (filters, channels, *kernel)).astype(np.int8)
        w = net.add("DequantizeLinear", [net.constant(whole), steps[weight], zero], ())
        bias = [net.constant(rng.integers(-9999, 9999, filters).astype(np.int32)), net.constant(F(2.0 ** (place + weight)))]
        made = net.add("Conv", [x, w, net.add("DequantizeLinear", bias, ())], (1, filters, size[0] - kernel[0] + 1, size[1] - kernel[1] + 1))
        return net.add("Relu", [made], net.shapes[made]) if net.flip() else made

    given_ = stored("x", -4)
    places = {stored(layer(given_, -4), -3): -3}
    for _ in range(net.integer(0, 4)):
        x = list(places)[-1] if net.flip(0.7) else list(places)[net.integer(0, len(places) - 1)]
        place, shape, kind = places[x], net.shapes[x], net.integer(0, 4)
        if kind <= 1:
            made, after = layer(x, place), -net.integer(0, 4)
        elif kind == 2:
            alike = [name for name in places if net.shapes[name] == shape]
            made, after = net.add("Add", [x, alike[net.integer(0, len(alike) - 1)]], shape), max(place, -3)
        elif kind == 3:
            alike = [name for name in places if net.shapes[name][2:] == shape[2:] and places[name] == place]
            other = alike[net.integer(0, len(alike) - 1)]
            made, after = net.add("Concat", [x, other], (1, shape[1] + net.shapes[other][1], *shape[2:]), axis=1), place
        elif min(shape[2:]) > 1:
            made, after = net.add("MaxPool", [x], (*shape[:2], shape[2] - 1, shape[3] - 1), kernel_shape=[2, 2]), place
        else:
            continue
        places[stored(made, after)] = after
    return net.model(places)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_integers_that_the_machine_has_too_are_kept_to_the_bit(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """On a machine that rounds as ONNX Runtime does, every output on new inputs, saturation included, equals ONNX Runtime's on the file."""
    folder = tmp_path_factory.mktemp("e")
    path, rng = save(exact_network(seed), folder), np.random.default_rng(seed)
    shape = tuple(dim.dim_value for dim in onnx.load(path).graph.input[0].type.tensor_type.shape.dim)
    samples = {"x": (rng.normal(size=(3, *shape)) * 4).astype(F)}
    context = replace(tables(path, samples), samples=None, numerics=Numerics(rounding="half_even"), device=Device("some", lambda _: ()))
    model = build_graph(path, {}, context, Store(folder / "stages"))
    assert {kind_of(node) for node in model.graph if node.domain == INTEGER} == {"quantize", "dequantize"}
    session, original = open_model(model), open_session(path, optimise=False)
    for x in samples["x"]:
        wanted, found = (run_session(each, {"x": x}) for each in (original, session))
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array)


@cache
def machine_of(name: str) -> tuple[Machine, Device]:
    machine = load_machine(name)
    return machine, device_of(machine, load_kernels(machine))


POOLS = [
    *pair("x", "a", "wide"),
    n("AveragePool", ["a"], ["b"], kernel_shape=[2, 2]),
    *pair("b", "c", "wide"),
    n("GlobalAveragePool", ["c"], ["d"]),
    *pair("d", "e", "narrow"),
    n("Flatten", ["e"], ["f"]),
    *pair("f", "y", "narrow"),
]
"""Average pools as quantisers write them: the first keeps its operand's scale, the second has a finer one."""


def pools(folder: Path, target: str, recorded: bool = False) -> tuple[ir.Model, float]:
    """In the integers of a machine, and the largest difference from ONNX Runtime on the file."""
    constants = {"z": np.uint8(120), "wide": F(0.037), "narrow": F(0.011)}
    path, samples = save(onnx_model(POOLS, {"x": (1, 3, 6, 6)}, {"y": (1, 3)}, constants, 17), folder), {"x": normal(3, 4, 1, 3, 6, 6)}
    (machine, device), seen = machine_of(target), tables(path, samples, recorded)
    context = Context(seen.place, numerics=machine.quantisation, table=seen.table, samples=samples, device=device, policy="all", recorded=recorded)
    made = build_graph(path, {}, context, Store(folder / "stages"))
    one = {"x": samples["x"][0]}
    wanted, found = (run_session(each, one)["y"] for each in (open_session(path, optimise=False), open_model(made)))
    return made, float(np.abs(wanted - found).max())


def test_average_pools_take_the_scale_behind_them_and_a_flatten_splits_nothing(tmp_path: Path) -> None:
    """The file is of operator set 17, whose average pool is an ulp beside today's: a quarter of its averages lie halfway between two steps."""
    made, difference = pools(tmp_path, "clib")
    regions = [node for node in made.graph if node.domain == "tilewright.region"]
    assert len(regions) == 1
    assert [kind_of(node) for node in made.graph if node.domain == INTEGER] == ["quantize", "dequantize"]
    assert difference <= 1.01 * 0.011
    assert calibration_kind(made) == "kept"


@pytest.mark.parametrize(("target", "recorded", "kind"), [("vta", False, "declared"), ("clib", True, "replaced"), ("vta", True, "replaced")])
def test_a_build_says_whose_scales_it_takes(target: str, recorded: bool, kind: str, tmp_path: Path) -> None:
    assert calibration_kind(pools(tmp_path, target, recorded)[0]) == kind


class Reader(CalibrationDataReader):
    """Samples for ONNX Runtime's quantiser."""

    def __init__(self, samples: Array) -> None:
        self.left: Iterator[dict[str, Array]] = iter([{"x": x} for x in samples])

    def get_next(self) -> dict[str, Array] | None:  # type: ignore[override]
        return next(self.left, None)


FORMS = st.fixed_dictionaries(
    {
        "quant_format": st.sampled_from([QuantFormat.QDQ, QuantFormat.QOperator]),
        "activation_type": st.sampled_from([QuantType.QUInt8, QuantType.QInt8]),
        "per_channel": st.booleans(),
        "extra_options": st.fixed_dictionaries({"ActivationSymmetric": st.booleans(), "WeightSymmetric": st.booleans()}),
    }
)


@settings(max_examples=12, deadline=None, derandomize=True, phases=[Phase.generate])  # a failure takes minutes to make smaller
@given(st.integers(0, 2**32), FORMS, st.sampled_from(["dpuv3", "vta"]), st.booleans())
def test_the_forms_of_onnx_runtime_s_quantiser_lose_no_more_than_is_stated(
    tmp_path_factory: pytest.TempPathFactory, seed: int, form: dict[str, object], target: str, recorded: bool
) -> None:
    """Requantised for a machine that only shifts: the loss on the samples is the one that is reported, and new inputs do not lose much more."""
    folder, net = tmp_path_factory.mktemp("q"), random_network(seed, QUANTISABLE, 5)
    samples, new = {"x": inputs(net, seed, 8)}, {"x": inputs(net, seed + 1, 4)}
    path = folder / "net.onnx"
    logging.getLogger().setLevel(logging.ERROR)  # the quantiser recommends its preparation at every call
    try:
        quantize_static(save(net.model(), folder, "float.onnx"), path, Reader(samples["x"]), weight_type=QuantType.QInt8, **form)  # type: ignore[arg-type]
    except (ValueError, IndexError):
        reject()  # the quantiser does not take every network, a bias of one number for example
    (machine, device), seen = machine_of(target), tables(path, samples, recorded)
    context = Context(seen.place, numerics=machine.quantisation, table=seen.table, samples=samples, device=device, policy="all", recorded=recorded)
    model = build_graph(path, {}, context, Store(folder / "stages"))
    session, original = open_model(model), open_session(path, optimise=False)
    floats_ = run_passes(load_graph(path), float_passes(default_pipeline().passes), Context())
    stated = closeness_of(measure_errors(lambda one: run_session(original, one), floats_, model, samples, STORED))
    for name, output in stated.outputs.items():
        losses = [_loss(original, session, each["x"], name) for each in (samples, new)]
        if output.sqnr is not None:
            assert output.sqnr == pytest.approx(10 * np.log10(losses[0].signal / losses[0].noise), abs=0.01)
        assert losses[1].noise <= max(4 * losses[0].noise, 1e-2 * losses[1].signal, (4 * losses[1].step) ** 2 * losses[1].elements)


class Loss:
    """Of one output over samples; step: what its coarsest stored integer is worth."""

    def __init__(self, wanted: Array, found: Array) -> None:
        self.signal = float((wanted.astype(np.float64) ** 2).sum())
        self.noise = float(((wanted.astype(np.float64) - found) ** 2).sum())
        self.elements = wanted.size
        distinct = np.unique(found)
        self.step = float(np.diff(distinct).min()) if len(distinct) > 1 else float(np.abs(wanted).max(initial=0))


def _loss(original: object, session: object, samples: Array, name: str) -> Loss:
    wanted, found = (np.stack([run_session(each, {"x": x})[name] for x in samples]) for each in (original, session))
    return Loss(wanted, found)


BOUNDS = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 6.0])
LIMITS = st.one_of(st.none(), st.tuples(BOUNDS, BOUNDS).filter(lambda pair: pair[0] < pair[1]))
"""None is a ReLU."""


@settings(max_examples=30, deadline=None)
@given(st.lists(LIMITS, min_size=1, max_size=4))
def test_a_chain_of_limits(tmp_path_factory: pytest.TempPathFactory, limits: list[tuple[float, float] | None]) -> None:
    nodes, constants = [], {}
    for k, pair in enumerate(limits):
        constants |= {} if pair is None else {f"l{k}": F(pair[0]), f"h{k}": F(pair[1])}
        nodes.append(n("Relu" if pair is None else "Clip", [f"t{k - 1}" if k else "x", *([] if pair is None else [f"l{k}", f"h{k}"])], [f"t{k}"]))
    graph, x = imported(tmp_path_factory.mktemp("m"), nodes, constants=constants), {"x": normal(0, 1, 3, 4, 4) * F(4)}
    (wanted,) = run(graph, x).values()
    (found,) = run(MergeLimits().run(graph, Context()), x).values()
    np.testing.assert_array_equal(found, wanted)
    low, high = max(0 if pair is None else pair[0] for pair in limits), min(np.inf if pair is None else pair[1] for pair in limits)
    if low < high:  # limits that leave one value stay as they are
        assert [node.op_type for node in graph.graph] == ["Relu" if (low, high) == (0, np.inf) else "Clip"]


def test_a_tensor_between_with_another_reader_stays(tmp_path: Path) -> None:
    nodes = [n("Relu", ["x"], ["a"]), n("Clip", ["a", "", "six"], ["b"]), n("Add", ["a", "b"], ["y"])]
    graph = MergeLimits().run(imported(tmp_path, nodes, constants={"six": F(6)}), Context())
    assert [node.op_type for node in graph.graph] == ["Relu", "Clip", "Add"]


def test_limits_that_are_computed_are_left(tmp_path: Path) -> None:
    nodes = [n("ReduceMax", ["x"], ["m"], keepdims=0), n("Clip", ["x", "", "m"], ["a"]), n("Relu", ["a"], ["y"])]
    graph = imported(tmp_path, nodes)
    assert len(MergeLimits().run(graph, Context()).graph) == 3


@pytest.mark.parametrize(("inner", "outer"), [(0.25, None), (None, 0.5), (0.25, 0.5), (None, None)])
def test_both_roundings_are_in_the_result(inner: float | None, outer: float | None, tmp_path: Path) -> None:
    graph = imported(tmp_path, [n("Clip", ["x", "", "six"], ["a"], "first"), n("Relu", ["a"], ["y"], "second")], constants={"six": F(6)})
    for node, step in zip(graph.graph, (inner, outer), strict=True):
        if step is not None:
            node.outputs[0].metadata_props.update({STEP: step.hex(), RANGE: (step * 127).hex()})
    found = node_of(MergeLimits().run(graph, Context()), "Clip").outputs[0].metadata_props
    assert float.fromhex(found.get(STEP, "0x0p+0")) == (inner or 0) + (outer or 0)
    assert float.fromhex(found.get(RANGE, "0x0p+0")) == (outer or inner or 0) * 127
