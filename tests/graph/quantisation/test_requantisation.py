"""The proof that sums fit: the bound is reached by the worst input, and what passes it never leaves the accumulator."""

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from toolchain.graph.integers.calls import Call
from toolchain.graph.quantisation.requantisation import column_of, fraction_of, limits, product, slope_of, stored_weights, too_large, weight_scale
from toolchain.operations.library import builtin_kinds
from toolchain.operations.reference import call_sums
from toolchain.spec.errors import UserError
from toolchain.spec.model.quantisation import Fraction, Numerics, Range

CALL = Call("d", builtin_kinds()["dense"], "", ("x", "w", "b"), "y", {})


@settings(max_examples=35, deadline=None)
@given(st.integers(0, 2**32), st.integers(12, 24), st.integers(0, 10))
def test_the_bound_is_that_of_the_worst_input(seed: int, bits: int, shift: int) -> None:
    rng = np.random.default_rng(seed)
    numerics = Numerics(accumulator_bits=bits, activation=Range(-128, 127))
    weights = rng.integers(-127, 128, (3, int(rng.integers(1, 60)))).astype(np.int8)
    bias = rng.integers(-(2**bits) // 4, 2**bits // 4, 3)
    worst = 0
    for row, offset in zip(weights.astype(np.int64), bias, strict=True):
        sign = 1 if offset >= 0 else -1
        x = np.where(row * sign < 0, -128, 128)  # 128 stands for the larger magnitude, whichever sign it has
        worst = max(worst, abs(int(row @ x) + int(offset)))
    assert too_large(weights, bias, shift, numerics).any() == (worst + (1 << max(shift - 1, 0)) > 2 ** (bits - 1) - 1)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(16, 24), st.booleans())
def test_what_is_stored_fits_for_extreme_inputs(seed: int, bits: int, narrow: bool) -> None:
    rng = np.random.default_rng(seed)
    bias_range = Range(-128, 127) if narrow else Range(-(2**31), 2**31 - 1)
    numerics = Numerics(accumulator_bits=bits, bias=bias_range, bias_shift=Range(0, 31))
    weights, bias = rng.normal(size=(4, 30)).astype(np.float32), (rng.normal(size=4) * 5).astype(np.float32)
    try:
        stored = product(CALL, weights, bias, (), (2.0**-4, 2.0**-5, 2.0**-4), numerics)
    except UserError:
        reject()
    quantised, offset = stored.constants
    assert numerics.bias.low <= offset.min() <= offset.max() <= numerics.bias.high
    for extreme in (-128, 127):
        for row in quantised:
            x = np.where(row < 0, -extreme - 1, extreme).astype(np.int64)[None]
            sums = call_sums(CALL.operation, stored.attributes, [x, quantised, offset])
            assert np.abs(sums).max() < 2 ** (bits - 1)


@given(st.floats(2**-20, 8), st.integers(4, 31))
def test_a_multiplier_is_as_near_as_its_bits_allow(factor: float, bits: int) -> None:
    found = fraction_of(CALL, factor, Numerics(form="multiplier", multiplier_bits=bits, shift=Range(0, 62)))
    assert 0 < found.numerator < 2**bits
    assert abs(found.numerator / 2**found.shift / factor - 1) <= 2.0**-bits + 1e-15 or found.shift == 0


def test_no_multiplier_is_said() -> None:
    numerics = Numerics(form="multiplier", multiplier_bits=8, shift=Range(0, 20))
    for factor in (1e9, 1e-12):
        with pytest.raises(UserError, match=r"E0919 node 'd' .dense. cannot be quantised: no multiplier of 8 bits"):
            fraction_of(CALL, factor, numerics)


@pytest.mark.parametrize(
    ("alpha", "machine", "wanted"),
    [
        (0.1, Fraction(26, 8), Fraction(26, 8)),
        (0.1, None, Fraction(13, 7)),
        (0.2, Fraction(26, 8), Fraction(13, 6)),
        (0.01, Fraction(26, 8), Fraction(41, 12)),
        (0.5, None, Fraction(1, 1)),
        (1.0, None, Fraction(1, 0)),
        (-0.25, None, Fraction(-1, 2)),
        (1e-7, None, Fraction(0, 0)),
        (0.0, None, Fraction(0, 0)),
    ],
)
def test_a_slope_is_the_machines_only_where_it_is_nearest(alpha: float, machine: Fraction | None, wanted: Fraction) -> None:
    assert slope_of(alpha, Numerics(leaky=machine)) == wanted


def test_a_slope_of_nothing_is_a_relu() -> None:
    leaky = Call("c", builtin_kinds()["conv2d"], "leaky", ("x", "w", "b"), "y", {"alpha": 1e-7})
    assert limits(leaky, 0.5, Numerics()) == {"low": 0, "high": 127, "slope": 0, "slope_shift": 0}


@given(st.integers(0, 2**20), st.integers(0, 20))
def test_shifts_of_channels_fit_their_weights_and_stay_within_the_span(seed: int, span: int) -> None:
    """A channel has its weights' own scale, or the finest that the span leaves it, and a bias of that scale."""
    rng, numerics = np.random.default_rng(seed), Numerics(per_channel=True, shift_span=span)
    weights = (rng.normal(size=(6, 5)) * 2.0 ** -rng.integers(0, 16, (6, 1))).astype(np.float32)
    weights[3] = 0
    bias, whole = (rng.normal(size=6) / 1000).astype(np.float32), weight_scale(weights, numerics)
    stored, offsets, shifts = product(CALL, weights, bias, (), (2.0**-6, whole, 2.0**-4), numerics).constants
    steps = 2.0 ** -(shifts.astype(float) - 6 + 4)
    assert shifts.max() - shifts.min() <= span
    assert steps.max() == whole
    np.testing.assert_array_equal(stored, stored_weights(weights, column_of(steps, weights), numerics))
    np.testing.assert_array_equal(offsets, np.rint(bias / (steps * 2.0**-6)))
    room = (np.abs(stored).max(1) > numerics.weight.high // 2) | (steps == whole / 2.0**span)
    assert room[weights.any(1)].all()


def test_only_the_channels_whose_sums_do_not_fit_become_coarser() -> None:
    numerics = Numerics(form="multiplier", per_channel=True, accumulator_bits=16, shift=Range(0, 62), zero_points=True, activation=Range(0, 255))
    weights = np.full((2, 40), 0.5, np.float32)
    weights[1, 1:] = 0.001
    bias = np.zeros(2, np.float32)
    found = product(CALL, weights, bias, (), (0.02, 0.5 / 127, 0.1), numerics, {"zero_x": 100, "zero_y": 3})
    stored = found.constants[0]
    assert (stored[0].max(), stored[1].max()) == (2, 90)  # 127 * 255 and a folded bias of 127 * 100 would be 45085
    assert not too_large(stored, found.constants[1].astype(np.int64), 0, numerics, 100).any()
    assert too_large(stored * 2, found.constants[1].astype(np.int64), 0, numerics, 100).tolist() == [True, False]
    assert (found.attributes["zero_x"], found.attributes["zero_y"], found.attributes["low"]) == (100, 3, 0)
