"""The sweep in C leaves the same steps as the one in numpy, and every step goes to the nearest whole number that the limits allow."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.graph.quantisation.descent import PART, descend
from toolchain.spec.compile import compiler

FINE = 1 << 10
LIMITS = (-8, 7)


def block(seed: int, columns: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stored weights, slopes of their errors and H; slopes of a half of the diagonal among them."""
    draw = np.random.default_rng(seed)
    inputs = draw.integers(-20, 21, (2 * columns, columns)).astype(np.float64)
    h = inputs.T @ inputs
    wanted = draw.normal(0, 5, (columns, rows))
    stored = np.clip(np.rint(wanted), *LIMITS)
    slopes = h @ (stored * FINE - np.rint(wanted * FINE))
    slopes[0] = np.maximum(h[0, 0], 1.0) * FINE / 2 * draw.choice([-3, -1, 1, 3], rows)
    return stored, slopes, h


@given(st.integers(0, 2**32), st.integers(1, 70), st.integers(1, 20))
def test_c_and_numpy_agree(seed: int, columns: int, rows: int) -> None:
    if not compiler():
        pytest.skip("no C compiler")
    stored, slopes, h = block(seed, columns, rows)
    found = descend(stored, slopes.copy(), h, LIMITS, FINE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_CC", "none")
        assert np.array_equal(found, descend(stored, slopes.copy(), h, LIMITS, FINE))


@pytest.mark.parametrize("columns", [PART - 1, PART, PART + 1, 2 * PART + 7])
def test_steps_of_a_part_reach_the_parts_behind_it(columns: int) -> None:
    stored, slopes, h = block(columns, columns, 9)
    found = descend(stored, slopes.copy(), h, LIMITS, FINE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_CC", "none")
        assert np.array_equal(found, descend(stored, slopes.copy(), h, LIMITS, FINE))
    assert found[-7:].any()


@given(st.integers(0, 2**32), st.integers(2, 40))
def test_parts_of_a_larger_matrix_count_alone(seed: int, columns: int) -> None:
    stored, slopes, h = block(seed, columns, 3)
    wide = np.full((columns, columns + 5), 1e6)
    wide[:, 2 : columns + 2] = h
    assert np.array_equal(descend(stored, slopes.copy(), wide[:, 2 : columns + 2], LIMITS, FINE), descend(stored, slopes.copy(), h, LIMITS, FINE))


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 9))
def test_each_step_is_the_best_of_its_weight(seed: int, columns: int, rows: int) -> None:
    stored, slopes, h = block(seed, columns, rows)
    steps = descend(stored, slopes.copy(), h, LIMITS, FINE)
    for k in range(columns):
        slope = slopes[k] + h[k, :k] @ steps[:k] * FINE
        best = np.clip(stored[k] - np.rint(slope / (h[k, k] * FINE if h[k, k] > 1 else FINE)), *LIMITS)
        assert np.array_equal(stored[k] + steps[k], best)
