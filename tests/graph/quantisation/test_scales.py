"""Laws of scales: tensors that move values share one, every shift that follows exists, and a tensor that was not calibrated is told."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.graph.integers.calls import Call
from toolchain.graph.integers.endings import average_fraction
from toolchain.graph.quantisation.ranges import Spread, position
from toolchain.graph.quantisation.scales import RangeChoice, choose_scales, choose_zeros, groups_of, product_position, tensors_of
from toolchain.graph.quantisation.table import SeenTensor, Table
from toolchain.operations.library import builtin_kinds, kinds_of, read_kind
from toolchain.operations.numbers import complete
from toolchain.operations.whole import constants_of, unmet
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
    groups = groups_of(NETWORK, Numerics())
    together: dict[str, set[str]] = {}
    for name, group in groups.items():
        together.setdefault(group, set()).add(name)
    assert sorted(map(sorted, together.values())) == [["a", "b", "d", "e"], ["c"], ["f", "g"], ["h"], ["x"]]
    joined = groups_of(NETWORK, Numerics(one_scale=("average_pool",)))
    assert joined["e"] == joined["f"]


magnitudes = st.fixed_dictionaries({name: st.floats(1e-3, 1e3) for name in TENSORS})
weight_scales = st.fixed_dictionaries({name: st.integers(-12, 2).map(lambda p: 2.0**p) for name in "ach"})


@settings(max_examples=30, deadline=None)
@given(magnitudes, weight_scales, st.integers(2, 6))
def test_every_shift_of_a_power_of_two_exists(largest: dict[str, float], weights: dict[str, float], align: int) -> None:
    numerics = Numerics(align=Range(0, align))
    scales = choose_scales(NETWORK, weights, numerics, table(largest), MAX)
    assert all(np.frexp(scale)[0] == 0.5 for scale in scales.values())
    groups = groups_of(NETWORK, numerics)
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
    groups, scales = groups_of(NETWORK, Numerics()), choose_scales(NETWORK, {}, Numerics(form="multiplier"), table(largest), MAX)
    wanted = [max(largest[other] for other in TENSORS if groups[other] == groups[name]) for name in TENSORS]
    np.testing.assert_allclose([scales[name] * 127 for name in TENSORS], wanted, rtol=1e-6)


def test_what_shares_a_scale_shares_its_zero() -> None:
    seen = {name: SeenTensor(Spread(1.0 + k, (), -float(k), 1.0 + k), ()) for k, name in enumerate(TENSORS)}
    numerics = Numerics(form="multiplier", zero_points=True, activation=Range(0, 255))
    zeros, groups = choose_zeros(NETWORK, numerics, Table(1, seen)), groups_of(NETWORK, numerics)
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
