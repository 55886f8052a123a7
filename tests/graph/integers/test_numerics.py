"""The fraction that stands for an average is the best of all that fit its bits."""

from fractions import Fraction as Ratio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.graph.integers.numerics import average_fraction
from toolchain.spec.model.quantisation import AverageRule, Fraction


@given(st.integers(1, 40), st.integers(1, 40), st.integers(4, 16))
def test_no_fraction_of_as_many_bits_is_nearer(height: int, width: int, bits: int) -> None:
    found = average_fraction(AverageRule(bits=bits), height, width)
    wanted = Ratio(1, height * width)
    assert 0 < found.numerator < 2 ** (bits - 1)
    error = abs(Ratio(found.numerator, 2**found.shift) - wanted)
    assert all(abs(Ratio(m, 2**s) - wanted) >= error for s in range(found.shift + 8) for m in _around(wanted, s) if 0 < m < 2 ** (bits - 1))


def _around(wanted: Ratio, shift: int) -> tuple[int, int]:
    below = int(wanted * 2**shift)
    return below, below + 1


@pytest.mark.parametrize(("size", "wanted"), [((3, 3), Fraction(7, 6)), ((3, 4), Fraction(85, 10))])
def test_the_table_goes_first(size: tuple[int, int], wanted: Fraction) -> None:
    assert average_fraction(AverageRule(((3, 3, Fraction(7, 6)),)), *size) == wanted
