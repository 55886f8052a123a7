"""Quantisation: ONNX Runtime and the numpy reference agree on every stored tensor of whole networks, for every kind of numerics."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.onnx_builder import conv_net, model, n, save
from tests.passes.test_fold import PASSES
from tests.reasons import said
from toolchain.accuracy.errors import error_table, error_text
from toolchain.graph.importing.load import load_graph
from toolchain.graph.integers.calls import ACTIVATION, SCALE, run_oracle, run_reference
from toolchain.graph.integers.functions import FUSED, INTEGER
from toolchain.graph.quantisation.ranges import Spread
from toolchain.graph.quantisation.table import SeenTensor, Table, calibrate, read_table, write_table
from toolchain.graph.session import run_session
from toolchain.graph.store import Store, open_model
from toolchain.passes.context import Context
from toolchain.passes.fuse import Fuse
from toolchain.passes.pipeline import run_passes
from toolchain.passes.quantize import Quantize
from toolchain.spec.errors import UserError
from toolchain.spec.model.quantisation import AverageRule, FirstRounding, Fraction, Numerics, Range

STORED = Numerics().activation

F = np.float32
NARROW = Numerics(
    weight=Range(-128, 127),
    activation=Range(-127, 127),
    bias=Range(-128, 127),
    bias_shift=Range(0, 31),
    shift=Range(0, 63),
    leaky=Fraction(26, 8),
    average=AverageRule(((3, 3, Fraction(7, 6)),)),
)
RULES = {
    "plain": Numerics(),
    "narrow": NARROW,
    "even": Numerics(rounding="half_even", order="shift_first"),
    "away": Numerics(rounding="half_away", one_scale=("concat", "max_pool", "add", "average_pool", "flatten")),
    "floor": Numerics(rounding="floor"),
    "tensor": Numerics(form="multiplier", shift=Range(0, 46)),
    "channel": Numerics(form="multiplier", per_channel=True, multiplier_bits=15, shift=Range(0, 46), rounding="half_even"),
    "twice": Numerics(
        form="multiplier",
        per_channel=True,
        multiplier_bits=31,
        shift=Range(0, 62),
        order="shift_first",
        rounding="half_away",
        first_rounding=FirstRounding(31, "half_up"),
        zero_points=True,
        activation=Range(0, 255),
    ),
    "zeros": Numerics(form="multiplier", shift=Range(0, 46), zero_points=True, accumulator_bits=24),
    "shifts": Numerics(per_channel=True, shift_span=4),
    "short": replace(NARROW, per_channel=True),
    "places": Numerics(zero_points=True, activation=Range(0, 255)),
    "single": Numerics(form="float32", per_channel=True, rounding="half_even", shift=Range(0, 46), zero_points=True, activation=Range(0, 255)),
}


def branchy(seed: int = 3) -> onnx.ModelProto:
    """Every kind of operation once: groups, a sum, both pools, concat, upsample, pad, leaky, clip, flatten, dense, and softmax for the host."""
    rng = np.random.default_rng(seed)
    constants = {
        "w1": rng.normal(size=(8, 3, 3, 3)).astype(F) / 5,
        "b1": rng.normal(size=8).astype(F),
        "w2": rng.normal(size=(8, 1, 3, 3)).astype(F) / 3,
        "w3": rng.normal(size=(8, 8, 1, 1)).astype(F) / 3,
        "w4": rng.normal(size=(10, 24)).astype(F) / 5,
        "b4": rng.normal(size=10).astype(F),
        "lo": F(0),
        "hi": F(6),
        "sc": np.array([1, 1, 2, 2], F),
        "pp": np.array([0, 0, 1, 1, 0, 0, 0, 0]),
    }
    nodes = [
        n("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        n("Relu", ["c1"], ["r1"], "relu1"),
        n("Conv", ["r1", "w2"], ["c2"], "depthwise", group=8, strides=[2, 2], pads=[1, 1, 1, 1]),
        n("Clip", ["c2", "lo", "hi"], ["r2"], "relu6"),
        n("Conv", ["r2", "w3"], ["c3"], "conv3"),
        n("LeakyRelu", ["c3"], ["r3"], "leaky", alpha=0.1),
        n("Add", ["r3", "r2"], ["a1"], "sum"),
        n("MaxPool", ["a1"], ["m1"], "maxpool", kernel_shape=[2, 2], strides=[2, 2]),
        n("Resize", ["m1", "", "sc"], ["u1"], "up", mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"),
        n("Pad", ["r2", "pp"], ["p1"], "pad"),
        n("MaxPool", ["p1"], ["m2"], "maxpool2", kernel_shape=[2, 2]),
        n("Concat", ["u1", "m2", "a1"], ["k1"], "concat", axis=1),
        n("AveragePool", ["k1"], ["v1"], "average", kernel_shape=[3, 3]),
        n("GlobalAveragePool", ["v1"], ["g1"], "global"),
        n("Flatten", ["g1"], ["f1"], "flatten"),
        n("Gemm", ["f1", "w4", "b4"], ["d1"], "dense", transB=1),
        n("Softmax", ["d1"], ["y"], "softmax"),
    ]
    return model(nodes, {"x": [1, 3, 8, 8]}, {"y": [1, 10], "a1": [1, 8, 4, 4]}, constants)


def samples(count: int = 8, seed: int = 0) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(seed).normal(size=(count, 1, 3, 8, 8)).astype(F)}


def picture(seed: int = 0) -> dict[str, np.ndarray]:
    return {"x": samples(1, seed)["x"][0]}


def folded(proto: onnx.ModelProto, folder: Path) -> ir.Model:
    return run_passes(
        load_graph(save(proto, folder), {} if proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value else {"batch": 1}), PASSES, Context()
    )


def quantized(proto: onnx.ModelProto, numerics: Numerics, folder: Path, options: Quantize | None = None) -> tuple[ir.Model, Table]:
    base = folded(proto, folder)
    table = calibrate(base, samples())
    steps = [Fuse(), replace(options or Quantize(), weights="per_channel")]
    return run_passes(base, steps, Context("net.onnx", numerics=numerics, table=table)), table


@pytest.mark.drawn(13)
@pytest.mark.parametrize("method", ["max", "percentile", "error"])
@pytest.mark.parametrize("rule", RULES)
def test_every_stored_tensor_is_equal_in_both(rule: str, method: str, tmp_path: Path) -> None:
    result, _ = quantized(branchy(), RULES[rule], tmp_path, Quantize(ranges=method))
    x = picture(9)
    oracle, reference = run_oracle(result, x), run_reference(result, x, RULES[rule])
    stored = [name for name, array in oracle.items() if array.dtype in (np.int8, np.uint8)]
    assert len(stored) == 14
    for name in stored:
        np.testing.assert_array_equal(oracle[name], reference[name], err_msg=name)
    assert oracle["y"].dtype == np.float32
    assert sum(len(np.unique(oracle[name])) > 5 for name in stored) == 14


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "floor"])
def test_quantised_networks_stay_close(rule: str, tmp_path: Path) -> None:
    reference = folded(branchy(), tmp_path)
    result, _ = quantized(branchy(), replace(RULES[rule], leaky=None, average=AverageRule()), tmp_path)
    rows = error_table(reference, result, samples(4, 5), STORED)
    assert len(rows) == 14
    assert [row.sqnr for row in rows] == sorted(row.sqnr for row in rows)
    assert rows[0].sqnr > 12, error_text(rows)
    assert "SQNR [dB]" in error_text(rows).splitlines()[0]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**20), st.sampled_from(sorted(RULES)), st.booleans())
def test_random_networks_within_the_rules(tmp_path_factory: pytest.TempPathFactory, seed: int, rule: str, correct: bool) -> None:
    numerics = RULES[rule]
    result, _ = quantized(branchy(seed), numerics, tmp_path_factory.mktemp("q"), Quantize(correct=correct))
    for node in result.graph:
        if node.domain != INTEGER:
            continue
        given = {name: attribute.value for name, attribute in node.attributes.items()}
        assert numerics.shift.holds(given.get("shift", numerics.shift.low))
        assert numerics.bias_shift.holds(given.get("bias_shift", numerics.bias_shift.low))
        if node.op_type.startswith(("conv2d", "dense")):
            weights, bias = (node.inputs[place].const_value.numpy() for place in (1, 2))
            assert weights.min() >= numerics.weight.low
            assert numerics.bias.low <= bias.min() <= bias.max() <= numerics.bias.high
        if numerics.form == "power_of_two" and SCALE in node.outputs[0].metadata_props:
            assert np.frexp(float.fromhex(node.outputs[0].metadata_props[SCALE]))[0] == 0.5
    x = picture(seed)
    oracle, reference = run_oracle(result, x), run_reference(result, x, numerics)
    assert all(np.array_equal(array, reference[name]) for name, array in oracle.items() if array.dtype in (np.int8, np.uint8))


def test_bytes_are_the_same_twice_and_the_table_survives_its_file(tmp_path: Path) -> None:
    files = []
    for name in ("one", "two"):
        result, table = quantized(branchy(), NARROW, tmp_path)
        path = tmp_path / f"{name}.json"
        write_table(table, path)
        assert read_table(path) == table
        stage = Store(tmp_path / name).save("integer", result)
        files.append((path.read_bytes(), stage.read_bytes()))
    assert files[0] == files[1]


def test_the_network_of_the_other_tests(tmp_path: Path) -> None:
    result, _ = quantized(conv_net(), Numerics(), tmp_path)
    assert [node.op_type for node in result.graph] == ["quantize", "conv2d", "max_pool", "conv2d", "add", "flatten", "dense", "dequantize"]
    assert not [key for key in result.functions if key[0] != INTEGER]
    assert [node.metadata_props.get(ACTIVATION, "") for node in result.graph] == ["", "relu", "", "", "relu", "", "", ""]


def test_bias_correction_lowers_the_mean_error(tmp_path: Path) -> None:
    """Weights of four bits: their rounding moves the mean of a layer that only sees positive values."""
    numerics = Numerics(weight=Range(-7, 7))
    x, errors = samples(8, 1), []
    for correct in (False, True):
        result, _ = quantized(branchy(), numerics, tmp_path, Quantize(correct=correct))
        reference = folded(branchy(), tmp_path)
        errors.append(sum(10 ** (-row.sqnr / 10) for row in error_table(reference, result, x, STORED)))
    assert errors[1] < errors[0]


def refusal(table: Table | None, numerics: Numerics, folder: Path, options: Quantize | None = None) -> str:
    with pytest.raises(UserError) as caught:
        run_passes(folded(branchy(), folder), [Fuse(), options or Quantize()], Context("net.onnx", numerics=numerics, table=table))
    return str(caught.value)


def test_what_cannot_be_quantised_is_said(tmp_path: Path) -> None:
    table = calibrate(folded(branchy(), tmp_path), samples())
    assert "E0918 there is no calibration table" in refusal(None, Numerics(), tmp_path)
    fewer = Table(8, {name: seen for name, seen in table.tensors.items() if name != "r3"})
    assert "E0918 the calibration table has no tensor 'r3'" in refusal(fewer, Numerics(), tmp_path)
    assert "E0919 node 'conv1' (conv2d) cannot be quantised" in refusal(table, Numerics(accumulator_bits=8), tmp_path, Quantize(strict=True))
    long = Numerics(form="multiplier", multiplier_bits=31, shift=Range(0, 62))
    assert "E0919 node 'conv3' (conv2d) cannot be quantised: a sum of 32 bits times a multiplier of 31 and a slope of 15" in refusal(
        table, long, tmp_path, Quantize(strict=True)
    )
    assert "E0912 'ranges' cannot be 'eror' (in the pass 'quantize'; passes before it: fuse); did you mean 'error'?" in refusal(
        table, Numerics(), tmp_path, Quantize(ranges="eror")
    )
    assert "E0912 'method' cannot be 'slow' (in the pass 'quantize'; passes before it: fuse); known: auto, fast, accurate" in refusal(
        table, Numerics(), tmp_path, Quantize(method="slow")
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "samples are for no input, the inputs are x"),
        ({"x": np.zeros((0, 1, 3, 8, 8), F)}, "there must be samples"),
        ({"x": np.zeros((2, 1, 3, 8, 9), F)}, "do not fit the input 'x'"),
        ({"x": np.full((1, 1, 3, 8, 8), np.nan, F)}, "holds NaN or infinity"),
    ],
)
def test_samples_that_do_not_fit(given: dict[str, np.ndarray], words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"E0916.*{words}"):
        calibrate(folded(branchy(), tmp_path), given)


NO_NUMBERS = {
    "zero by zero": [n("Sub", ["x", "x"], ["z"]), n("Div", ["x", "z"], ["t"], "ratio"), n("Relu", ["t"], ["y"], "last")],
    "overflow": [n("Mul", ["x", "big"], ["z"]), n("Exp", ["z"], ["t"], "ratio"), n("Relu", ["t"], ["y"], "last")],
    "batch norm": [n("BatchNormalization", ["x", "one", "one", "one", "less"], ["t"], "ratio"), n("Relu", ["t"], ["y"], "last")],
}


@pytest.mark.parametrize("case", NO_NUMBERS)
def test_a_network_that_makes_no_numbers_is_told_by_its_first_node(case: str, tmp_path: Path) -> None:
    constants = {"big": np.full((1,), 1e4, F), "one": np.ones(3, F), "less": np.full(3, -1, F)}
    network = folded(model(NO_NUMBERS[case], {"x": [1, 3, 8, 8]}, {"y": None}, constants), tmp_path)
    with pytest.raises(UserError, match=r"E0921 node 'ratio.*' \(.*\) makes NaN or infinity of a calibration sample in the tensor '(t|ratio.*)'"):
        calibrate(network, samples())


def test_one_result_that_is_a_number_is_enough(tmp_path: Path) -> None:
    """The tensor that is not finite stays on the host."""
    constants = {"big": np.full((1,), 1e4, F)}
    nodes = [n("Mul", ["x", "big"], ["z"]), n("Exp", ["z"], ["t"]), n("Sigmoid", ["t"], ["y"])]
    table = calibrate(folded(model(nodes, {"x": [1, 3, 8, 8]}, {"y": None}, constants), tmp_path), samples())
    assert table.unusable == ("t",)


def test_a_scalar_input(tmp_path: Path) -> None:
    network = load_graph(save(model([n("Relu", ["x"], ["y"])], {"x": []}, {"y": []}), tmp_path))
    assert calibrate(network, {"x": np.array([-1, 2], F)}).tensors["y"].spread.maximum == 2


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "samples": 1, "tensors": {"a": {"maximum": -1, "bins": [], "means": []}}}', "[" * 9000]
)
def test_other_files_are_no_tables(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(UserError, match="E0917 not a calibration table"):
        read_table(path)


def test_a_tensor_of_zeros_has_a_scale(tmp_path: Path) -> None:
    base = folded(branchy(), tmp_path)
    zero = Table(1, {name: SeenTensor(Spread(0.0, ((0, 1_000_000),)), seen.means) for name, seen in calibrate(base, samples()).tensors.items()})
    result = run_passes(base, [Fuse(), Quantize()], Context(numerics=Numerics(), table=zero))
    assert run_oracle(result, picture())["y"].shape == (1, 10)


@pytest.mark.parametrize(("numerics", "stay"), [(Numerics(accumulator_bits=8), 7), (Numerics(align=Range(0, 0), shift=Range(0, 3)), 1)])
def test_what_has_no_integers_stays_in_floating_point_with_its_reason(numerics: Numerics, stay: int, tmp_path: Path) -> None:
    result, _ = quantized(branchy(), numerics, tmp_path)
    left = [node for node in result.graph if node.domain == FUSED]
    assert len(left) >= stay
    assert all("cannot be quantised" in said(node) for node in left)
    found = run_oracle(result, picture())
    base = run_session(open_model(folded(branchy(), tmp_path)), picture())
    assert np.abs(found["y"] - base["y"]).max() < 0.5


@pytest.mark.parametrize(("percent", "left"), [(0.0, []), (2.0, ["dense"]), (100.0, ["conv1", "conv3", "dense", "depthwise"])])
def test_the_worst_layers_stay_in_floating_point_within_a_budget(percent: float, left: list[str], tmp_path: Path) -> None:
    """Of weights with four bits; the dense layer has 1.5 % of the multiply-accumulates."""
    base, numerics = folded(branchy(), tmp_path), replace(NARROW, weight=Range(-7, 7))
    context = Context("net.onnx", numerics=numerics, table=calibrate(base, samples()), samples=samples())
    result = run_passes(base, [Fuse(), Quantize(method="accurate", float_percent=percent)], context)
    stay = {node.name: said(node) for node in result.graph if "float_percent" in said(node)}
    assert sorted(stay) == left
    assert {node.op_type.split("__")[0] for node in result.graph if node.name in stay} <= {"conv2d", "dense"}
