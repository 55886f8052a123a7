"""Norms in a machine's own arithmetic: each channel's weight and bias as stored integers make the float network's numbers; sums stay in 32 bits."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from toolchain.graph.integers.calls import Call
from toolchain.graph.quantisation.own_arithmetic import BIAS_BITS, own_total
from toolchain.operations.library import kinds_of
from toolchain.operations.reference import evaluate
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model.quantisation import Numerics

MACHINE = load_machine("stcp920")
KINDS, NUMERICS = kinds_of(MACHINE), MACHINE.quantisation or Numerics()
CALL = Call("n", KINDS["layer_norm"], "", ("x", "w", "b"), "y", {"epsilon": 1e-5}, ((1, 4, 32),))
SHARES = Call("s", KINDS["spaced_attention_probabilities"], "", ("q", "k"), "s", {"heads": 2}, ((1, 16, 64), (1, 64, 64)))


@settings(max_examples=30, deadline=None)
@example(seed=4081587, offset=30.0, per_channel=True)  # a bias of exactly 2**30 steps
@given(st.integers(0, 2**32), st.sampled_from([0.0, 1e-3, 1.0, 30.0]), st.booleans())
def test_a_norm_is_near_that_of_the_float_network(seed: int, offset: float, per_channel: bool) -> None:
    """Weights of very different sizes, some zero, and offsets up to far beyond them."""
    rng, numerics = np.random.default_rng(seed), replace(NUMERICS, per_channel=per_channel)
    x, weights = rng.integers(-128, 128, (1, 4, 32)).astype(np.int8), (rng.normal(size=32) * 2.0 ** rng.integers(-3, 3, 32)).astype(np.float32)
    weights[rng.integers(32)] = 0
    bias = (rng.normal(size=32) * offset).astype(np.float32)
    real = x * 0.05
    wanted = (real - real.mean(-1, keepdims=True)) / np.sqrt(real.var(-1, keepdims=True) + 1e-5) * weights + bias
    result = float(np.abs(wanted).max()) / 127
    stored = own_total(CALL, [weights, bias], [0.05], float(np.abs(weights).max()) / 127, result, numerics)
    found = evaluate(CALL.operation, False, stored.attributes, [x, *stored.constants], numerics)
    coarse = 0.0 if per_channel else float(np.abs(weights).max()) / 254 * 6
    assert np.abs(found * result - wanted).max() <= 0.51 * result + 0.002 * np.abs(wanted).max() + 0.001 * np.abs(weights).max() + coarse
    assert np.abs(stored.constants[1].astype(np.int64)).max() < 1 << BIAS_BITS


def test_a_norm_without_a_bias_has_one_scale() -> None:
    call, weights = replace(CALL, operation=KINDS["rms_norm"], inputs=("x", "w")), np.linspace(-2, 2, 32).astype(np.float32)
    stored = own_total(call, [weights], [0.05], 2 / 127, 0.05, NUMERICS)
    assert len(stored.constants) == 1
    assert {"multiplier", "shift", "small", "low", "high"} < {*stored.attributes}


SCALED = replace(CALL, operation=KINDS["scaled_layer_norm"], inputs=("x", "w", "b", "f"))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["scaled_layer_norm", "scaled_rms_norm"]))
def test_a_norm_of_channels_with_factors_is_near_that_of_the_float_network(seed: int, kind: str) -> None:
    """Factors as far apart as they may be."""
    rng, factors = np.random.default_rng(seed), np.random.default_rng(seed).integers(1, 128, 32).astype(np.float32)
    x, weights = rng.integers(-128, 128, (1, 4, 32)).astype(np.int8), rng.normal(size=32).astype(np.float32)
    bias = rng.normal(size=32).astype(np.float32)
    real = x * 0.05 * factors
    apart = real - real.mean(-1, keepdims=True) if kind == "scaled_layer_norm" else real
    wanted = apart / np.sqrt((apart**2).mean(-1, keepdims=True) + 1e-5) * weights + (bias if kind == "scaled_layer_norm" else 0)
    result, known = float(np.abs(wanted).max()) / 127, [weights, bias, factors] if kind == "scaled_layer_norm" else [weights, factors]
    call = replace(SCALED, operation=KINDS[kind], inputs=("x", *("w", "b", "f")[-len(known) :]))
    stored = own_total(call, known, [0.05], float(np.abs(weights).max()) / 127, result, NUMERICS)
    np.testing.assert_array_equal(stored.constants[len(known) - 1], factors)
    found = evaluate(call.operation, False, stored.attributes, [x, *stored.constants], NUMERICS)
    coarse = 0.0 if kind == "scaled_layer_norm" else float(np.abs(weights).max()) / 254 * 6
    assert np.abs(found * result - wanted).max() <= 0.51 * result + 0.01 * np.abs(wanted).max() + coarse


@pytest.mark.parametrize("factors", [0.5, 0.0, -1.0, 128.0])
def test_factors_of_channels_are_whole_numbers(factors: float) -> None:
    known = [np.ones(32, np.float32), np.zeros(32, np.float32), np.full(32, factors, np.float32)]
    with pytest.raises(UserError, match="its factors of channels are no whole numbers from 1 to 127"):
        own_total(SCALED, known, [0.05], 0.01, 0.05, NUMERICS)


def test_a_machine_may_limit_the_factors_of_channels() -> None:
    """gemmini adds squares of 32 channels up in 32 bits."""
    gemmini = load_machine("gemmini")
    call, numerics = replace(SCALED, operation=kinds_of(gemmini)["scaled_layer_norm"]), gemmini.quantisation or Numerics()
    known = [np.ones(32, np.float32), np.zeros(32, np.float32)]
    own_total(call, [*known, np.full(32, 32, np.float32)], [0.05], 0.01, 0.05, numerics)
    with pytest.raises(UserError, match="its factors of channels are no whole numbers from 1 to 32"):
        own_total(call, [*known, np.full(32, 33, np.float32)], [0.05], 0.01, 0.05, numerics)


def test_shares_have_the_constants_of_their_scales() -> None:
    stored = own_total(SHARES, [], [0.02, 0.05], 1.0, 1 / 127, NUMERICS)
    assert stored.constants == ()
    assert stored.attributes["rate"] == round(0.02 * 0.05 / np.sqrt(32) / np.log(2) * (1 << 26))
    assert stored.attributes["multiplier"] / 2.0 ** stored.attributes["shift"] == pytest.approx(127 / 32768, rel=1e-4)


def test_scores_that_are_too_coarse_are_told() -> None:
    with pytest.raises(UserError, match="the scores are too coarse for 32 bits"):
        own_total(SHARES, [], [4.0, 4.0], 1.0, 1 / 127, NUMERICS)


def test_shifts_alone_scale_no_norm() -> None:
    with pytest.raises(UserError, match="E0919"):
        own_total(CALL, [np.ones(32, np.float32), np.zeros(32, np.float32)], [0.05], 0.01, 0.05, replace(NUMERICS, form="power_of_two"))
