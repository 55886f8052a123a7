"""How a machine calculates, with integers or in a floating format: everything that a bit of the result depends on, as data."""

from dataclasses import dataclass, field
from typing import Literal

from toolchain.spec.expr import Expr

Rounding = Literal["half_up", "half_even", "half_away", "floor"]
Form = Literal["power_of_two", "multiplier", "float32", "none"]
Stored = Literal["int8", "uint8", "float16", "bfloat16"]
Format = Literal["f16", "bf16"]
"""A floating format of stored tensors."""
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
class FirstRounding:
    """A product is shifted right by up to `shift` bits and rounded; the rest of its shift follows, rounded again."""

    shift: int
    rounding: Rounding


@dataclass(frozen=True)
class AverageRule:
    """An average over kh x kw is sum * numerator / 2**shift; sizes that the table lacks take the nearest numerator within `bits` bits."""

    table: tuple[tuple[int, int, Fraction], ...] = ()
    bits: int = 8


@dataclass(frozen=True)
class SumOrder:
    """The order of a sum's terms, by expressions over an operation's reduced indices: terms that agree in `blocks` are added up one after the other,
    by `terms`, from the first; the sums of the blocks are then added one after the other, from zero. No blocks: all terms from zero.

    where: for which numbers of an operation the machine adds up so; None for all. over: reduced indices that run over more than the operation's own
    extents, from the first to before the second number: operands are zero there, and zero times an infinity is NaN.
    """

    blocks: tuple[Expr, ...] = ()
    terms: tuple[Expr, ...] = ()
    where: Expr | None = None
    over: tuple[tuple[str, tuple[Expr, Expr]], ...] = ()

    @property
    def exprs(self) -> tuple[Expr, ...]:
        return (*self.blocks, *self.terms, *((self.where,) if self.where else ()), *(expr for _, ends in self.over for expr in ends))


@dataclass(frozen=True)
class Floats:
    """A machine that computes in a floating format: tensors have that format, products and sums are float32, and every result is rounded once.

    sums: by operation, the orders of its sum, of which the first counts whose `where` holds; one that is not named adds its terms up in the order of
    its reduced axes.
    """

    sums: tuple[tuple[str, tuple[SumOrder, ...]], ...] = ()
    format: Format = "f16"

    def orders(self, operation: str) -> tuple[SumOrder, ...]:
        """The orders in which an operation, by name, may add up."""
        return dict(self.sums).get(operation) or (SumOrder(),)


@dataclass(frozen=True)
class Numerics:
    """weight, activation, bias: ranges of stored numbers. A stored q stands for q * scale; with zero_points a stored activation for
    (q - zero) * scale, each tensor with a zero of its own.

    form: every scale is 2**-position, or a requantisation multiplies by m / 2**s (m of multiplier_bits bits) or by a float32, for each output
    channel when per_channel; none where values are no integers, and floats says what they are. first_rounding: of a requantisation that rounds
    twice; rounding is that of its second shift, or of the only one.
    shift: s of a requantisation. shift_span: how far those of one operation's channels may be apart where scales are shifts.
    bias_shift: bias is added as bias << bias_shift.
    order: activation on the exact value or on the rounded one. align: how far an operand of a sum is shifted left to meet the other.
    leaky: the one slope that the machine has, if it has but one; a model's that is not nearest to it stays as it is.
    one_scale: operations whose tensors share a scale, beside those that move values and cannot rescale them.
    """

    weight: Range = Range(-127, 127)
    activation: Range = Range(-128, 127)
    bias: Range = Range(-(2**31), 2**31 - 1)
    form: Form = "power_of_two"
    zero_points: bool = False
    per_channel: bool = False
    multiplier_bits: int = 16
    rounding: Rounding = "half_up"
    first_rounding: FirstRounding | None = None
    order: Order = "activation_first"
    shift: Range = Range(0, 31)
    shift_span: int = 63
    bias_shift: Range = Range(0, 0)
    align: Range = Range(0, 31)
    accumulator_bits: int = 32
    average: AverageRule = field(default_factory=AverageRule)
    leaky: Fraction | None = None
    one_scale: tuple[str, ...] = ()
    floats: Floats | None = None

    @property
    def stored(self) -> Stored:
        """The type of stored activations."""
        if self.floats is not None:
            return "float16" if self.floats.format == "f16" else "bfloat16"
        return "int8" if self.activation.low < 0 else "uint8"

    @property
    def bytes(self) -> int:
        """Bytes of a stored activation."""
        return 1 if self.floats is None else 2

    @property
    def magnitude(self) -> int:
        """The largest magnitude of a stored activation less its zero."""
        return self.activation.high - self.activation.low if self.zero_points else self.activation.magnitude

    @property
    def reach(self) -> int:
        """The largest magnitude that a kernel may meet: of every int8 where zero is zero."""
        return max(self.magnitude, 128)

    @property
    def accumulator(self) -> Range:
        return Range(-(2 ** (self.accumulator_bits - 1)), 2 ** (self.accumulator_bits - 1) - 1)
