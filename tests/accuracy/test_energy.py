"""Signal and noise, against their definitions; and what is not finite counts as it should."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.accuracy.energy import LEAST_ELEMENTS, MOST_PARTS, Energy, part_axis


def of(*pairs: tuple[object, object]) -> Energy:
    found = Energy()
    for wanted, other in pairs:
        found.add(np.asarray(wanted, np.float32), np.asarray(other, np.float32))
    return found


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**20), st.integers(1, 5), st.floats(1e-6, 1e3))
def test_signal_to_noise_of_all_samples_together(seed: int, samples: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    wanted, noise = rng.normal(size=(samples, 2, 7)), rng.normal(size=(samples, 2, 7)) * spread
    one, other = wanted.astype(np.float32), (wanted + noise).astype(np.float32)
    found, difference = of(*zip(one, other, strict=True)), other.astype(np.float64) - one
    assert found.sqnr == pytest.approx(10 * np.log10((one.astype(np.float64) ** 2).sum() / (difference**2).sum()), rel=1e-6)
    assert found.elements == wanted.size
    assert found.lost == sum(int((np.abs(d) > w.astype(np.float64).std()).sum()) for w, d in zip(one, difference, strict=True))


@pytest.mark.parametrize(
    ("wanted", "found", "sqnr", "lost"),
    [
        ([1, 2], [1, 2], math.inf, 0),
        ([0, 0], [0, 0], math.inf, 0),
        ([1, math.nan], [1, math.nan], math.inf, 0),
        ([1, math.inf], [1, math.inf], math.inf, 0),
        ([1, math.inf], [1, -math.inf], -3000, 1),
        ([1, 2], [1, math.nan], -3000, 1),
        ([1, math.nan], [1, 2], -3000, 1),
        ([0, 0], [0, 1], -3000, 1),
        ([0, 0], [0, math.inf], -6000, 1),
    ],
)
def test_what_is_not_finite(wanted: list[float], found: list[float], sqnr: float, lost: int) -> None:
    result = of((wanted, found))
    assert result.sqnr == sqnr if math.isinf(sqnr) else result.sqnr <= sqnr + 20
    assert result.lost == lost


def test_nothing_seen_has_lost_nothing() -> None:
    assert Energy().lost_share == 0
    assert of(([1, 2], [9, 9])).lost_share == 1


@given(st.lists(st.integers(1, 300), min_size=0, max_size=4).map(tuple))
def test_parts_are_few_and_large_enough(shape: tuple[int, ...]) -> None:
    axis = part_axis(shape)
    if axis:
        assert 1 < shape[axis] <= MOST_PARTS
        assert math.prod(shape[1:]) // shape[axis] >= LEAST_ELEMENTS
        others = [k for k in range(1, len(shape)) if 1 < shape[k] < shape[axis]]
        assert all(math.prod(shape[1:]) // shape[k] < LEAST_ELEMENTS for k in others)


def test_a_detector_s_numbers_are_its_parts() -> None:
    assert [part_axis(shape) for shape in ((1, 84, 8400), (1, 25200, 85), (1, 1000), (1, 3, 20, 20, 6), ())] == [1, 2, 0, 1, 0]
