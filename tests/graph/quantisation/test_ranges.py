"""Laws of scales: what fits, what clips, and that the least error is the least of those tried.

What a histogram of octaves tells of values, against the values themselves.

Where ranges come from is kept in the integer model's file, whatever is built from.
"""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.graph.quantisation.ranges import (
    BINS,
    FINER,
    FRACTIONS,
    METHODS,
    Spread,
    calibration_kind,
    calibration_text,
    centre,
    choose_scale,
    choose_step,
    choose_zero,
    count,
    fitting_scale,
    position,
    rounded,
    spread,
)
from toolchain.graph.store import read_stage
from toolchain.spec.model.quantisation import Form, Range
from toolchain.tasks.actions.paths import graph_file
from toolchain.tasks.plan import make_plan
from toolchain.tasks.work import perform

WIDTH = 1.13
"""A value is at most this much larger or smaller than the middle of its bin: a quarter of an octave's start, split in two."""


def values_of(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_t(3, 3000) * 2.0 ** rng.integers(-20, 20)).astype(np.float32)


@given(st.floats(2**-100, 2**100, width=32))
def test_the_middle_of_a_bin_is_near_every_value_in_it(value: float) -> None:
    (number,) = np.flatnonzero(count(np.array([value, -value], np.float32)))
    assert 1 / WIDTH <= value / centre(int(number)) <= WIDTH


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**20))
def test_deviation_is_the_root_mean_square(seed: int) -> None:
    values = values_of(seed)
    found, wanted = spread(count(values), float(np.abs(values).max())).deviation, float(np.sqrt((values.astype(np.float64) ** 2).mean()))
    assert wanted / WIDTH <= found <= wanted * WIDTH


def test_deviation_of_what_only_a_range_is_known_of_is_the_range() -> None:
    assert Spread(3.0, ()).deviation == 3.0


@pytest.mark.parametrize("size", [0, 1, 3, 4, 70_001])
def test_c_and_numpy_count_alike(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(size).normal(size=2 * size).astype(np.float32)[::2]
    found = count(values)
    assert found.sum() == size
    monkeypatch.setenv("TILEWRIGHT_CC", "none")
    np.testing.assert_array_equal(found, count(values))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**20), st.integers(0, 2**20))
def test_counts_of_parts_add_up(seed: int, other: int) -> None:
    one, two = values_of(seed), values_of(other)
    together = count(np.concatenate([one, two]))
    assert len(together) == BINS
    np.testing.assert_array_equal(count(one) + count(two), together)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20), st.lists(st.floats(0.001, 1), min_size=2, max_size=5))
def test_a_larger_share_takes_no_smaller_value(seed: int, shares: list[float]) -> None:
    values = values_of(seed)
    seen = spread(count(values), float(np.abs(values).max()))
    found = [seen.percentile(share) for share in sorted(shares)]
    assert found == sorted(found)
    assert found[-1] <= seen.maximum


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**20), st.integers(3, 12))
def test_the_error_of_a_step_is_that_of_rounding(seed: int, halvings: int) -> None:
    """Parts per million of all values, so a million times the mean; steps fine enough for the middle of a bin to speak for it."""
    drawn = values_of(seed).astype(np.float64)
    largest = rounded(float(np.abs(drawn).max()))
    values = drawn * (largest / np.abs(drawn).max())  # a spread keeps four digits of it, and these steps are finer than the fifth
    step = largest / 2**halvings / 16
    limit = largest / 2 ** (halvings % 3)
    found = spread(count(values.astype(np.float32)), largest).squared_error(step, limit) / 1e6
    wanted = float(((np.clip(np.rint(values / step) * step, -limit, limit) - values) ** 2).mean())
    assert wanted / 3 <= found <= wanted * 3 + step * step / 12


def test_digits_that_are_kept() -> None:
    assert [rounded(value) for value in (123456.0, 0.000123456, -9.99999, 0.0)] == [123500.0, 0.0001235, -10.0, 0.0]


positive = st.floats(1e-12, 1e12, allow_subnormal=False)
STORED = Range(-127, 127)


@given(positive, st.integers(1, 2**31 - 1))
def test_the_fitting_power_of_two_is_the_least(largest: float, high: int) -> None:
    scale = fitting_scale(largest, high, "power_of_two")
    assert 2.0 ** -position(scale) == scale
    assert largest / high <= scale < 2 * largest / high * (1 + 1e-12)


@given(positive)
def test_nothing_is_clipped_with_max(largest: float) -> None:
    for form in ("power_of_two", "multiplier"):
        assert largest <= choose_scale([Spread(largest, ((500, 10**6),))], STORED, form, "max", 1.0) * 127 * (1 + 1e-12)


def samples(seed: int, heavy: bool) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_t(2, 4000) if heavy else rng.normal(size=4000)).astype(np.float32) * np.float32(2.0 ** rng.integers(-8, 8))


def tried(largest: float, form: Form) -> list[float]:
    """The step that clips nothing, and finer ones: halves of it, or fractions."""
    first = fitting_scale(largest, STORED.high, form)
    return [first / 2**n for n in range(FINER + 1)] if form == "power_of_two" else [first * (1 - n / FRACTIONS) for n in range(FRACTIONS * 7 // 8)]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.sampled_from(["power_of_two", "multiplier"]))
def test_least_error_is_the_least_that_the_histogram_tells(seed: int, heavy: bool, form: Form) -> None:
    values = samples(seed, heavy)
    seen = spread(count(values), float(np.abs(values).max()))
    found = choose_scale([seen], STORED, form, "error", 1.0)
    assert found in tried(seen.maximum, form)
    assert seen.squared_error(found, found * 127) == min(seen.squared_error(scale, scale * 127) for scale in tried(seen.maximum, form))


def test_least_error_is_mostly_that_of_the_values_themselves() -> None:
    """A histogram does not know where in its bin a value lies, so a choice may be off where two steps are nearly as good; hardly ever by much."""

    def error(values: np.ndarray, scale: float) -> float:
        return float(((np.clip(np.rint(values / scale), -127, 127) * scale - values) ** 2).mean())

    ratios: list[float] = []
    for seed in range(80):
        values = samples(seed, seed % 2 == 0)
        seen = spread(count(values), float(np.abs(values).max()))
        best = min(error(values, scale) for scale in tried(seen.maximum, "power_of_two"))
        ratios.append(error(values, choose_scale([seen], STORED, "power_of_two", "error", 1.0)) / best)
    assert float(np.mean(np.array(ratios) < 1.001)) > 0.9
    assert max(ratios) < 2


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.5, 0.9, 0.99, 0.999]))
def test_a_percentile_is_within_its_bin(seed: int, share: float) -> None:
    values = np.abs(samples(seed, False))
    found, wanted = spread(count(values), float(values.max())).percentile(share), float(np.quantile(values, share))
    assert wanted / 1.3 <= found <= wanted * 1.3


def test_every_value_falls_into_the_bin_of_its_size() -> None:
    values = np.array([0.0, 1.0, -1.3, 3.9, 1e-20, 3e38], np.float32)
    counts = count(values)
    assert len(counts) == BINS
    assert counts.sum() == len(values)
    for value in values[1:]:
        number = int(np.flatnonzero(count(np.array([value], np.float32)))[0])
        assert 0.8 < abs(float(value)) / centre(number) < 1.25


def test_a_spread_is_rounded_and_leaves_out_what_is_empty() -> None:
    found = spread(count(np.array([1.0, 1.0, 2.0, 100.0], np.float32)), 100.00001)
    assert found.maximum == 100.0
    assert [share for _, share in found.bins] == [500_000, 250_000, 250_000]


BYTES = Range(0, 255)
ends = st.tuples(*[st.floats(-1e6, 1e6).map(lambda end: round(end, 6))] * 2).map(lambda pair: (min(pair), max(pair)))


@given(ends, st.sampled_from(["power_of_two", "multiplier", "float32"]), st.sampled_from([BYTES, Range(-128, 127)]))
def test_a_zero_of_its_own_spreads_the_stored_range_over_what_was_seen(seen: tuple[float, float], form: Form, stored: Range) -> None:
    """Nothing is cut off by more than half a step, which rounding the zero takes, and zero itself is stored exactly."""
    low, high = seen
    found = Spread(max(-low, high), ((500, 10**6),), low, high)
    scale, zero = choose_step([found], stored, form, "max", 1.0), choose_zero([found], stored)
    assert stored.low <= zero <= stored.high
    assert (stored.low - zero - 0.5) * scale <= min(low, 0) * (1 - 1e-9)
    assert (stored.high - zero + 0.5) * scale >= max(high, 0) * (1 - 1e-9)
    if form == "multiplier":
        np.testing.assert_allclose(scale * 255, max(high, 0) - min(low, 0) or 255)


def test_what_is_never_negative_has_its_zero_at_the_least_integer() -> None:
    relu, both = Spread(6.0, (), 0.0, 6.0), Spread(6.0, (), -2.0, 6.0)
    assert (choose_zero([relu], BYTES), choose_zero([both], BYTES), choose_zero([relu, both], Range(-128, 127))) == (0, 64, -64)
    assert choose_zero([Spread(3.0, ())], BYTES) == 128
    assert [choose_step([relu], BYTES, "multiplier", method, 1.0) for method in METHODS] == [6 / 255] * len(METHODS)
    assert choose_step([Spread(0.0, (), 0.0, 0.0)], BYTES, "multiplier", "max", 1.0) == 1.0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_a_step_of_least_error_with_a_zero_of_its_own(seed: int, heavy: bool) -> None:
    """Values from a fraction below zero up: what is cut off lies beyond the steps on the longer side."""
    values = np.maximum(samples(seed, heavy), np.float32(-0.1))
    low, high = float(values.min()), float(values.max())
    seen = spread(count(values), max(-low, high), low, high)
    found, first = (choose_step([seen], BYTES, "multiplier", method, 1.0) for method in ("error", "max"))
    share = max(-seen.least, seen.most) / (seen.most - seen.least)
    errors = {step: seen.squared_error(step, step * 255 * share) for step in (first * (1 - n / FRACTIONS) for n in range(FRACTIONS * 7 // 8))}
    assert errors[found] == pytest.approx(min(errors.values()))


NETWORK = """\
model: {{name: tiny, summary: for a test, sources: [here]}}
inputs: {{image: [1, 3, 8, 8]}}
layers:
  - conv: {{out: 8, kernel: 3, act: relu}}
{calibration}
"""


def test_other_models_do_not_say() -> None:
    model = ir.Model(ir.Graph([], [], nodes=[], name="g"), ir_version=8)
    assert calibration_kind(model) == ""
    assert calibration_text("") == "not at all, as nothing is computed in integers"


def test_a_quantised_model_without_samples_is_told_what_to_do() -> None:
    assert "quantised anew" in calibration_text("declared")
    assert "calibration=FILE" in calibration_text("declared")


@pytest.mark.parametrize(("calibration", "kind"), [("", "made-up"), ("calibration: {file: seen.npz, array: a}", "recorded")])
def test_a_stage_says_how_it_was_calibrated(calibration: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(NETWORK.format(calibration=calibration))
    np.savez(tmp_path / "seen.npz", a=np.ones((2, 3, 8, 8), np.float32))
    plan = make_plan({"target": "vta", "model": str(tmp_path / "tiny.yaml")}, tmp_path / "build")
    for name in ("onnx", "calibration", "graph"):
        perform(plan.steps[0][name], lambda _: None)
    assert calibration_kind(read_stage(graph_file(plan.jobs[0]))) == kind
    assert ("made-up" in calibration_text(kind)) == (kind == "made-up")


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 10))
def test_a_spread_times_a_factor_is_about_that_of_the_values(seed: int, factor: float) -> None:
    values = np.random.default_rng(seed).normal(0, 3, 500).astype(np.float32)
    one, other = (
        spread(count(each), float(np.abs(each).max()), float(each.min()), float(each.max())) for each in (values, values * np.float32(factor))
    )
    found = one.times(factor)
    assert found.maximum == pytest.approx(other.maximum, rel=2e-3)
    assert (found.low, found.high) == (pytest.approx(other.low, rel=2e-3), pytest.approx(other.high, rel=2e-3))
    assert found.deviation == pytest.approx(other.deviation, rel=0.15)
