"""Numerics of a machine: magnitudes and types that follow from its ranges."""

import pytest

from toolchain.spec.model.quantisation import Numerics, Range


@pytest.mark.parametrize(("low", "high", "magnitude"), [(-128, 127, 128), (-127, 127, 127), (0, 255, 255), (-3, 9, 9)])
def test_the_magnitude_of_a_range_is_its_largest_absolute_value(low: int, high: int, magnitude: int) -> None:
    found = Range(low, high)
    assert found.magnitude == magnitude == max(abs(value) for value in range(low, high + 1))
    assert [value for value in range(low - 2, high + 3) if found.holds(value)] == list(range(low, high + 1))


@pytest.mark.parametrize(
    ("activation", "zero_points", "stored", "magnitude", "reach"),
    [
        (Range(-128, 127), False, "int8", 128, 128),
        (Range(-16, 15), False, "int8", 16, 128),
        (Range(-128, 127), True, "int8", 255, 255),
        (Range(0, 255), True, "uint8", 255, 255),
    ],
)
def test_kernels_may_meet_every_int8_and_every_distance_from_a_zero(
    activation: Range, zero_points: bool, stored: str, magnitude: int, reach: int
) -> None:
    found = Numerics(activation=activation, zero_points=zero_points)
    assert (found.stored, found.magnitude, found.reach) == (stored, magnitude, reach)


def test_the_accumulator_holds_its_bits() -> None:
    assert Numerics(accumulator_bits=24).accumulator == Range(-(1 << 23), (1 << 23) - 1)
