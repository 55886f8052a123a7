"""Rounding by the error of the output: never worse than rounding to the nearest, on the data it saw; and not made for these data alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.graph.quantisation.least_squares import FINE, HESSIAN_BITS, Gram, damped, normalised, products_of, round_channels, round_rows, unit_of

LOW, HIGH = -128, 127
Array = np.ndarray


def inputs(rng: np.random.Generator, rows: int, size: int) -> Array:
    """Correlated whole numbers from 0 to 127, as after a ReLU. [rows, size]."""
    mix = np.random.default_rng(size).normal(size=(size, max(size // 4, 1)))
    return np.clip(np.rint(rng.normal(size=(rows, mix.shape[1])) @ mix.T / mix.shape[1] ** 0.5 * 40 + 20), 0, 127)


def output_errors(errors: Array, hessian: Array) -> Array:
    """[rows]: the squared error of each row's outputs."""
    return ((errors @ hessian.astype(np.float64)) * errors).sum(1)


def weights(rng: np.random.Generator, rows: int, size: int) -> Array:
    return rng.uniform(-60, 60, (rows, size))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**20), st.integers(1, 40), st.integers(1, 200))
def test_no_row_is_worse_than_rounded_to_the_nearest(seed: int, size: int, count: int) -> None:
    """Of weights that are whole parts of a step, as the descent rounds all of them: others may lose what that takes."""
    rng = np.random.default_rng(seed)
    w, x = np.rint(weights(rng, 5, size) * FINE) / FINE, inputs(rng, count, size)
    found, hessian = round_rows(w, Gram(x.astype(np.int8), 5), LOW, HIGH), damped(x.T @ x, count)
    assert np.array_equal(found, np.rint(found))
    assert (output_errors(found - w, hessian) <= output_errors(np.rint(w) - w, hessian) * (1 + 1e-9)).all()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20), st.integers(65, 200), st.integers(1, 30))
def test_inputs_stand_for_their_products(seed: int, size: int, count: int) -> None:
    """A matrix of few inputs and the inputs themselves give the same weights: all of it is exact."""
    rng = np.random.default_rng(seed)
    x, w, drift = inputs(rng, count, size).astype(np.int8), weights(rng, 5, size), np.rint(rng.normal(size=(5, size)) * 1000)
    few, whole = Gram(x, 5), Gram(x, 10**6)
    hessian = damped(products_of(x), count)
    whole.__dict__["_whole"] = unit_of(hessian), normalised(hessian)
    assert few.normal is None
    assert whole.normal is not None
    assert few.unit == whole.unit
    assert all(np.array_equal(*each) for each in zip(few.blocks, whole.blocks, strict=True))
    np.testing.assert_allclose(few.energies(w), whole.energies(w), rtol=1e-2)  # the matrix is rounded
    pulled = [round_rows(w, gram, LOW, HIGH, drift / gram.unit) for gram in (few, whole)]
    energies = [whole.energies(found - w) + 2 * ((found - w) * drift).sum(1) for found in pulled]
    np.testing.assert_allclose(*energies, rtol=0.2, atol=0.02 * np.abs(drift).sum())


@pytest.mark.parametrize("pull", [10.0, 1e4, 1e6])
def test_steps_and_errors_are_multiplied_in_bytes_where_they_fit(pull: float) -> None:
    """Drifts of every size: the largest move weights from limit to limit."""
    rng = np.random.default_rng(0)
    x, w = inputs(rng, 30, 600), weights(rng, 8, 600)
    drift = np.rint(rng.normal(size=w.shape) * pull)
    found = round_rows(w, Gram(x.astype(np.int8), 8), LOW, HIGH, drift)
    np.testing.assert_array_equal(found, round_rows(w, Gram(x.astype(np.int16), 8), LOW, HIGH, drift))


@pytest.mark.parametrize(("count", "exact"), [(400, False), (20, True)])
def test_the_energy_is_that_of_the_outputs(count: int, exact: bool) -> None:
    """By a matrix, and by inputs that stand for it, up to what few bits round off."""
    rng = np.random.default_rng(0)
    x, e = inputs(rng, count, 300), rng.normal(size=(3, 300))
    gram = Gram(x.astype(np.int8), 100)
    assert (gram.normal is None) == exact
    np.testing.assert_allclose(gram.energies(e), ((e @ x.T) ** 2).sum(1) + gram.damping * (e**2).sum(1), rtol=0.02)


def test_errors_of_equal_inputs_cancel() -> None:
    """Five inputs that are always alike: the weights add up to 2 as they should, where the nearest of each add up to 0."""
    hessian = normalised(np.full((5, 5), 1000.0))
    assert round_rows(np.full((1, 5), 0.4), Gram(np.full((40, 5), 5, np.int8), 1), LOW, HIGH).sum() == 2
    assert round_channels(np.full((1, 5), 0.4), hessian[None], LOW, HIGH).sum() == 2


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20), st.integers(-8, 0), st.integers(1, 8))
def test_limits_hold(seed: int, low: int, high: int) -> None:
    rng = np.random.default_rng(seed)
    x, w = inputs(rng, 20, 9), rng.normal(size=(4, 9)) * 10
    found = round_rows(w, Gram(x.astype(np.int8), 4), low, high)
    assert low <= found.min() <= found.max() <= high


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20), st.integers(1, 9))
def test_channels_with_products_of_their_own_are_rows_of_one_each(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    w = weights(rng, 4, size)
    hessians = np.stack([normalised((x := inputs(rng, 20, size)).T @ x) for _ in range(4)])
    found = round_channels(w, hessians, LOW, HIGH)
    for k in range(4):
        error, nearest = (output_errors(rows - w[k : k + 1], hessians[k]) for rows in (found[k : k + 1], np.floor(w[k : k + 1] + 0.5)))
        assert error[0] <= nearest[0] * (1 + 1e-2) + 1


@given(st.integers(1, 12), st.floats(1, 1e15))
def test_products_have_few_bits(size: int, largest: float) -> None:
    hessian = np.rint(np.random.default_rng(size).normal(size=(size, size)) * largest)
    found = normalised(hessian)
    assert np.abs(found).max() <= 2**HESSIAN_BITS
    assert np.array_equal(found, np.rint(found))
    if np.abs(hessian).max() < 2**HESSIAN_BITS:
        np.testing.assert_array_equal(found, hessian)


@pytest.mark.parametrize(("size", "count"), [(64, 8), (64, 64), (256, 6)])
def test_few_samples_do_not_spoil_what_was_not_seen(size: int, count: int) -> None:
    """On new data the output is hardly worse than by weights rounded to the nearest, or better; without damping some lose 6 dB."""
    rng = np.random.default_rng(size + count)
    seen, new, w = inputs(rng, count, size), inputs(rng, 4000, size), weights(rng, 16, size)
    found = round_rows(w, Gram(seen.astype(np.int8), 16), LOW, HIGH)
    errors = [float(output_errors(rows - w, new.T @ new).sum()) for rows in (found, np.rint(w))]
    assert errors[0] < 1.2 * errors[1]


def test_many_samples_gain() -> None:
    rng = np.random.default_rng(5)
    seen, new, w = inputs(rng, 4000, 64), inputs(rng, 4000, 64), weights(rng, 16, 64)
    found = round_rows(w, Gram(seen.astype(np.int8), 16), LOW, HIGH)
    errors = [float(output_errors(rows - w, new.T @ new).sum()) for rows in (found, np.rint(w))]
    assert errors[0] < 0.5 * errors[1]
