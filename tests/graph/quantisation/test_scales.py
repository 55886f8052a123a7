"""Laws of scales: tensors that move values share one, every shift that follows exists, and a tensor that was not calibrated is told. By the outputs
of layers, a value that a layer ignores may be cut off, one that it multiplies may not."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.imported import F, imported
from tests.graph.onnx_builder import n
from toolchain.graph.integers.calls import Call, read_call
from toolchain.graph.integers.endings import average_fraction
from toolchain.graph.integers.functions import FUSED
from toolchain.graph.quantisation.ranges import Spread, position
from toolchain.graph.quantisation.scales import (
    Choice,
    Function,
    RangeChoice,
    Reader,
    choose_scales,
    choose_zeros,
    judge_scales,
    product_position,
    scale_groups,
    tensors_of,
)
from toolchain.graph.quantisation.table import SeenTensor, Table
from toolchain.graph.rewrite import constant
from toolchain.operations.library import builtin_kinds, kinds_of, read_kind
from toolchain.operations.numbers import complete
from toolchain.operations.whole import constants_of, evaluate_table, unmet
from toolchain.passes.context import Context
from toolchain.passes.fuse import Fuse
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model.quantisation import Numerics, Range

MAX = RangeChoice("max")
FLOAT = Numerics(form="float32")


def call(kind: str, output: str, *inputs: str) -> Call:
    return Call(output, builtin_kinds()[kind], "", inputs, output, {"kernel_shape": (3, 3)})


NETWORK = [
    call("conv2d", "a", "x", "wa", "ba"),
    call("max_pool", "b", "a"),
    call("conv2d", "c", "b", "wc", "bc"),
    call("add", "d", "b", "c"),
    call("concat", "e", "d", "a"),
    call("average_pool", "f", "e"),
    call("flatten", "g", "f"),
    call("dense", "h", "g", "wh", "bh"),
]
TENSORS = [*"xabcdefgh"]


def table(largest: dict[str, float]) -> Table:
    return Table(1, {name: SeenTensor(Spread(value, ((500, 10**6),)), ()) for name, value in largest.items()})


def test_activations_of_a_call() -> None:
    assert tensors_of(NETWORK[0]) == ("x", "a")
    assert tensors_of(NETWORK[3]) == ("b", "c", "d")


def test_groups_are_of_what_moves() -> None:
    groups = scale_groups(NETWORK, Numerics())
    together: dict[str, set[str]] = {}
    for name, group in groups.items():
        together.setdefault(group, set()).add(name)
    assert sorted(map(sorted, together.values())) == [["a", "b", "d", "e"], ["c"], ["f", "g"], ["h"], ["x"]]
    joined = scale_groups(NETWORK, Numerics(one_scale=("average_pool",)))
    assert joined["e"] == joined["f"]


magnitudes = st.fixed_dictionaries({name: st.floats(1e-3, 1e3) for name in TENSORS})
weight_scales = st.fixed_dictionaries({name: st.integers(-12, 2).map(lambda p: 2.0**p) for name in "ach"})


@settings(max_examples=30, deadline=None)
@given(magnitudes, weight_scales, st.integers(2, 6))
def test_every_shift_of_a_power_of_two_exists(largest: dict[str, float], weights: dict[str, float], align: int) -> None:
    numerics = Numerics(align=Range(0, align))
    scales = choose_scales(NETWORK, weights, numerics, table(largest), MAX)
    assert all(np.frexp(scale)[0] == 0.5 for scale in scales.values())
    groups = scale_groups(NETWORK, numerics)
    assert len({(groups[name], scales[name]) for name in TENSORS}) == len(set(groups.values()))
    at = {name: position(scale) for name, scale in scales.items()}
    for each in NETWORK:
        result, given_ = at[each.output], [at[name] for name in tensors_of(each)[:-1]]
        if each.kind in ("conv2d", "dense"):
            assert given_[0] + position(weights[each.name]) - result >= 0
        if each.kind == "average_pool":
            assert given_[0] + average_fraction(numerics.average, 3, 3).shift - result >= 0
        if each.kind == "add":
            assert max(given_) - min(given_) <= align
            assert max(given_) - result >= 0


def test_a_layer_that_would_lower_its_own_operand_for_ever_is_passed_over() -> None:
    """The concat gives operand and result of a layer one scale; its weights are so large that no shift fits. The other layers keep theirs."""
    layers = [call("conv2d", result, source, f"w{result}", f"b{result}") for source, result in ("xa", "ab", "cd")]
    calls = [*layers[:2], call("concat", "c", "a", "b"), layers[2]]
    plain = choose_scales([calls[0], calls[2]], {"a": 0.5}, Numerics(), table(dict.fromkeys("xabcd", 1.0)), MAX)
    found = choose_scales(calls, {"a": 0.5, "b": 4.0, "d": 0.5}, Numerics(), table(dict.fromkeys("xabcd", 1.0)), MAX)
    assert {name: found[name] for name in plain} == plain
    assert position(found["c"]) + 1 >= position(found["d"])


@settings(max_examples=30, deadline=None)
@given(magnitudes, weight_scales)
def test_nothing_is_clipped_by_the_largest_values(largest: dict[str, float], weights: dict[str, float]) -> None:
    for form in ("power_of_two", "multiplier"):
        scales = choose_scales(NETWORK, weights, Numerics(form=form), table(largest), MAX)  # type: ignore[arg-type]
        assert all(value <= scales[name] * 127 * (1 + 1e-6) for name, value in largest.items())


def test_scales_of_multipliers_are_the_ranges_themselves() -> None:
    largest = {name: 1.0 + k for k, name in enumerate(TENSORS)}
    groups, scales = scale_groups(NETWORK, Numerics()), choose_scales(NETWORK, {}, Numerics(form="multiplier"), table(largest), MAX)
    wanted = [max(largest[other] for other in TENSORS if groups[other] == groups[name]) for name in TENSORS]
    np.testing.assert_allclose([scales[name] * 127 for name in TENSORS], wanted, rtol=1e-6)


def test_what_shares_a_scale_shares_its_zero() -> None:
    seen = {name: SeenTensor(Spread(1.0 + k, (), -float(k), 1.0 + k), ()) for k, name in enumerate(TENSORS)}
    numerics = Numerics(form="multiplier", zero_points=True, activation=Range(0, 255))
    zeros, groups = choose_zeros(NETWORK, numerics, Table(1, seen)), scale_groups(NETWORK, numerics)
    assert all(zeros[one] == zeros[other] for one in TENSORS for other in TENSORS if groups[one] == groups[other])
    assert zeros["x"] != zeros["h"]
    assert choose_zeros(NETWORK, Numerics(form="multiplier"), Table(1, seen)) == {}


def test_a_tensor_without_a_range_is_named() -> None:
    largest = {name: 1.0 for name in TENSORS if name != "d"} | {"dd": 1.0}
    with pytest.raises(UserError, match=r"^net.onnx: E0918 the calibration table has no tensor 'd'"):
        choose_scales(NETWORK, dict.fromkeys("ach", 0.5), Numerics(), table(largest), MAX, "net.onnx")


def test_a_product_takes_the_scale_of_each_element_in_it() -> None:
    tensors = "tensors: {x: {axes: {n: batch}}, z: {axes: {n: batch}}, y: {axes: {n: batch}, role: result}}"
    for meaning, place in (("x[n] * z[n]", 8), ("x[n] * x[n] * z[n]", 11), ("x[n] if x[n] >= 0 else -x[n]", 3), ("x[n] if z[n] > 0 else 0", 3)):
        kind = read_kind(Source("own.yaml", f'operation: own\n{tensors}\nmeaning: {{value: "{meaning}"}}\n'))
        assert product_position(Call("y", kind, "", ("x", "z"), "y", {}), [3, 5]) == place


def test_scales_are_as_coarse_as_a_machines_own_arithmetic_needs() -> None:
    kind = kinds_of(load_machine("gemmini"))["attention_probabilities"]
    shares = Call("s", kind, "", ("q", "k"), "s", {"heads": 1}, ((1, 16, 64), (1, 128, 64)))
    fine, coarse = (choose_scales([shares], {}, FLOAT, table({"q": size, "k": size, "s": 1.0}), MAX) for size in (0.5, 20.0))
    assert kind.arithmetic is not None
    numbers, own = complete(kind, shares.known_numbers), kind.arithmetic

    def refused(factor: float) -> bool:
        scales = {"x": fine["q"] * factor, "z": fine["k"] * factor}
        return bool(unmet(own, {**numbers, **constants_of(own, scales, numbers)}))

    assert not refused(1)
    assert refused(0.9)
    assert fine["q"] > 2 * 0.5 / 127
    assert coarse["q"] == pytest.approx(20 / 127, rel=1e-2)


@settings(max_examples=30, deadline=None)
@given(magnitudes, weight_scales, st.permutations(TENSORS))
def test_both_ends_of_a_state_share_scale_and_zero(largest: dict[str, float], weights: dict[str, float], order: list[str]) -> None:
    """So that an integer that is handed on stays the same bits; a state that no call reads or makes changes nothing."""
    taken, made = order[:2]
    numerics = Numerics(form="multiplier", zero_points=True, activation=Range(0, 255))
    held = Table(1, {name: SeenTensor(Spread(size, (), -size / 3, size), ()) for name, size in largest.items()})
    scales = choose_scales(NETWORK, weights, numerics, held, MAX, states={taken: made, "beyond": "x"})
    zeros = choose_zeros(NETWORK, numerics, held, {taken: made, "beyond": "x"})
    assert (scales[taken], zeros[taken]) == (scales[made], zeros[made])
    assert choose_scales(NETWORK, weights, numerics, held, MAX, states={"beyond": "x"}) == choose_scales(NETWORK, weights, numerics, held, MAX)


SCALES = (1.0, 0.5, 0.25)


def judged(folder: Path, x: np.ndarray, weights: np.ndarray, zero: int = 0) -> Choice:
    """The choice for the input of a 1x1 convolution, x [count, 1, channels, h, w]."""
    model = Fuse().run(imported(folder, [n("Conv", ["x", "w"], ["y"], "y")], x.shape[1:], {"w": weights}), Context())
    (node,) = (node for node in model.graph if node.domain == FUSED)
    array = constant(node.inputs[1])
    assert array is not None
    choice = Choice(SCALES, zero)
    judge_scales(model, {"x": choice}, {"x": [Reader(read_call(node, builtin_kinds()), array)]}, {"x": x}, len(x), Numerics())
    return choice


@pytest.mark.parametrize(("weight", "best"), [(1.0, 1.0), (1e-4, 0.25)])
def test_a_large_channel_counts_by_its_weight(weight: float, best: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-4, 4, (2, 1, 2, 8, 8)).astype(F)
    x[:, :, 1] *= 30
    assert judged(tmp_path, x, np.array([[1.0, weight]], F).reshape(1, 2, 1, 1)).best == best


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20), st.floats(1.0, 80.0))
def test_errors_are_those_of_the_outputs(tmp_path_factory: pytest.TempPathFactory, seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    x, weights = (rng.normal(size=(2, 1, 3, 4, 4)) * size / 3).astype(F), rng.normal(size=(4, 3, 1, 1)).astype(F)
    choice = judged(tmp_path_factory.mktemp("j"), x, weights)
    rows, columns = weights.reshape(4, 3).astype(np.float64), x.transpose(2, 0, 1, 3, 4).reshape(3, -1).astype(np.float64)
    for scale, error in zip(SCALES, choice.errors, strict=True):
        noise = rows @ (np.clip(np.rint(columns / scale), -128, 127) * scale - columns)
        assert error == pytest.approx(np.square(noise).sum() / np.square(rows @ columns).sum(), rel=0.05, abs=1e-4)


def by_gelu(folder: Path, x: np.ndarray, zero: int = 0) -> Choice:
    """The choice for the input of a GELU, x [count, 1, channels, h, w]."""
    model, choice = imported(folder, [n("Gelu", ["x"], ["y"], "y")], x.shape[1:]), Choice(SCALES, zero)
    judge_scales(model, {"x": choice}, {"x": [Function(builtin_kinds()["gelu"])]}, {"x": x}, len(x), Numerics())
    return choice


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20), st.floats(1.0, 80.0), st.integers(-40, 40))
def test_a_function_is_judged_by_its_results(tmp_path_factory: pytest.TempPathFactory, seed: int, size: float, zero: int) -> None:
    x = (np.random.default_rng(seed).normal(size=(2, 1, 3, 4, 4)) * size / 3).astype(F)
    choice, kind = by_gelu(tmp_path_factory.mktemp("g"), x, zero), builtin_kinds()["gelu"]
    wanted = evaluate_table(kind, x.astype(np.float64))
    for scale, error in zip(SCALES, choice.errors, strict=True):
        noise = evaluate_table(kind, np.clip(np.rint(x / scale), -128 - zero, 127 - zero) * scale) - wanted
        assert error == pytest.approx(np.square(noise).sum() / np.square(wanted).sum(), rel=0.01, abs=1e-7)


def test_what_a_function_makes_nothing_of_may_be_cut_off(tmp_path: Path) -> None:
    """GELU is as good as zero below -4: large negative values ask for a coarse scale by themselves, and for none by its results."""
    x = np.random.default_rng(0).uniform(-3, 3, (2, 1, 2, 8, 8)).astype(F)
    x[:, :, 0, ::4] = -100
    assert by_gelu(tmp_path, x).best == 0.25
    assert by_gelu(tmp_path, -x).best == 1.0


def test_what_no_layer_reads_is_judged_by_its_values(tmp_path: Path) -> None:
    model = imported(tmp_path, [n("Relu", ["x"], ["y"])], (1, 2, 8, 8))
    x = np.random.default_rng(0).normal(size=(2, 1, 2, 8, 8)).astype(F) * F(10)
    choices = {"x": Choice(SCALES), "y": Choice(SCALES)}
    judge_scales(model, choices, {}, {"x": x}, 2, Numerics())
    assert choices["x"].best == choices["y"].best == 0.25
    assert Choice(SCALES).best == 1.0
