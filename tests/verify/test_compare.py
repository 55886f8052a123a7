import numpy as np
import pytest

from toolchain.verify.compare import FirstDifference, differing_bits, first_difference


def test_the_first_in_row_major_order_is_named() -> None:
    expected = np.zeros((1, 2, 3, 4), np.int8)
    found = expected.copy()
    assert first_difference(expected, found) is None
    found[0, 1, 2, 0], found[0, 1, 1, 3] = 5, -7
    assert first_difference(expected, found) == FirstDifference((0, 1, 1, 3), 0, -7, 2)


def test_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="compared"):
        first_difference(np.zeros(3), np.zeros(4))


def test_bits_are_compared_not_values() -> None:
    nothing, minus = np.array([0.0, np.nan], np.float32), np.array([-0.0, np.nan], np.float32)
    assert differing_bits(nothing, nothing) == 0
    assert differing_bits(nothing, minus) == 1
    assert differing_bits(nothing, nothing.astype(np.float64)) == 2
    assert differing_bits(nothing.reshape(1, 2), nothing) == 2
