"""How a machine calculates with integers: everything that a bit of the result depends on, as data."""

from dataclasses import dataclass, field
from typing import Literal

Rounding = Literal["half_up", "half_even", "half_away", "floor"]
Form = Literal["power_of_two", "multiplier"]
Order = Literal["activation_first", "shift_first"]


@dataclass(frozen=True)
class Range:
    """Whole numbers from low to high, both included."""

    low: int
    high: int

    @property
    def magnitude(self) -> int:
        """The largest absolute value."""
        return max(-self.low, self.high)

    def holds(self, value: int) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Fraction:
    """numerator / 2**shift."""

    numerator: int
    shift: int


@dataclass(frozen=True)
class AverageRule:
    """An average over kh x kw is sum * numerator / 2**shift; sizes that the table lacks take the nearest numerator within `bits` bits."""

    table: tuple[tuple[int, int, Fraction], ...] = ()
    bits: int = 8


@dataclass(frozen=True)
class Numerics:
    """weight, activation, bias: what is stored. A stored q stands for q * scale, zero for zero.

    form: every scale is 2**-position, or a requantisation multiplies by m / 2**s (m of multiplier_bits bits), for each output
    channel when per_channel. shift: s of a requantisation. bias_shift: bias is added as bias << bias_shift.
    order: activation on the exact value or on the rounded one. align: how far an operand of a sum is shifted left to meet the other.
    leaky: the one slope that the machine has, if it has but one; a model's that is not nearest to it stays as it is.
    one_scale: operations whose tensors share a scale, beside those that move values and cannot rescale them.
    """

    weight: Range = Range(-127, 127)
    activation: Range = Range(-128, 127)
    bias: Range = Range(-(2**31), 2**31 - 1)
    form: Form = "power_of_two"
    per_channel: bool = False
    multiplier_bits: int = 16
    rounding: Rounding = "half_up"
    order: Order = "activation_first"
    shift: Range = Range(0, 31)
    bias_shift: Range = Range(0, 0)
    align: Range = Range(0, 31)
    accumulator_bits: int = 32
    average: AverageRule = field(default_factory=AverageRule)
    leaky: Fraction | None = None
    one_scale: tuple[str, ...] = ()

    @property
    def accumulator(self) -> Range:
        return Range(-(2 ** (self.accumulator_bits - 1)), 2 ** (self.accumulator_bits - 1) - 1)
