"""The reference engine's floating operations: exact numbers, rounded once. Values are the signed integers that their bits spell."""

import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from toolchain.isa.semantics import ir
from toolchain.spec.float_functions import Number, Real, decode, decoder, encode, function_value
from toolchain.spec.model import FloatType, ScalarType

Operation = Callable[[Sequence[int]], int]
"""From the operands' bits, or integers, to bits, or an integer."""


def operation(e: ir.Float | ir.ToFloat | ir.ToInteger) -> Operation:
    """The function of a node's operands."""
    match e:
        case ir.ToFloat(type=target, source=source, saturate=saturate):
            if source is None:
                return lambda v: encode(whole(v[0]), target, saturate)
            return lambda v: encode(decode(v[0], source), target, saturate)
        case ir.ToInteger(source=source, rounding=rounding, type=target):
            return lambda v: rounded(decode(v[0], source), rounding, target)
        case ir.Float(op=op, type=kind):
            return _operation(op, kind)


def _operation(op: str, kind: FloatType) -> Operation:
    number = decoder(kind)
    match op:
        case "from_bits":
            return lambda v: _signed(v[0], kind)
        case "to_bits":
            return lambda v: v[0] & ((1 << kind.bits) - 1)
        case "neg":
            return lambda v: _signed(v[0] ^ (1 << (kind.bits - 1)), kind)
        case "abs":
            return lambda v: v[0] & kind.magnitude
        case "is_nan":
            return lambda v: int(number(v[0]) is None)
        case "add" | "sub" | "mul" | "div":
            function = {"add": add, "sub": subtract, "mul": multiply, "div": divide}[op]
            return lambda v: encode(function(number(v[0]), number(v[1])), kind)
        case "fma":
            return lambda v: encode(add(multiply(number(v[0]), number(v[1])), number(v[2])), kind)
        case "sqrt":
            return lambda v: encode(root(number(v[0])), kind)
        case "exp" | "log" | "tanh" | "erf":
            return lambda v: function_value(op, v[0], kind)
        case "lt" | "le" | "eq":
            return lambda v: int(_compare(op, number(v[0]), number(v[1])))
        case _:
            return lambda v: _extreme(op, v[0], v[1], kind)


def _signed(bits: int, kind: FloatType) -> int:
    return (bits & kind.magnitude) - (bits & 1 << (kind.bits - 1))


def add(a: Number, b: Number) -> Number:
    """The exact sum; a zero is negative only where both terms are."""
    if a is None or b is None:
        return None
    if a.size is None or b.size is None:
        infinite = a if a.size is None else b
        return None if a.size is None and b.size is None and a.negative != b.negative else infinite
    total = a.value + b.value
    return Real(total < 0 if total else a.negative and b.negative, abs(total))


def subtract(a: Number, b: Number) -> Number:
    """The exact difference."""
    return add(a, b and Real(not b.negative, b.size))


def multiply(a: Number, b: Number) -> Number:
    """The exact product."""
    if a is None or b is None:
        return None
    negative = a.negative != b.negative
    if a.size is None or b.size is None:
        return None if a.size == 0 or b.size == 0 else Real(negative, None)
    return Real(negative, a.size * b.size)


def divide(a: Number, b: Number) -> Number:
    """The exact quotient; of a number above zero and zero: infinity."""
    if a is None or b is None or (a.size is None and b.size is None) or (a.size == 0 and b.size == 0):
        return None
    negative = a.negative != b.negative
    if a.size is None or b.size == 0:
        return Real(negative, None)
    return Real(negative, a.size / b.size if b.size is not None else Fraction(0))


ROOT_BITS = 80
"""Far more than any format's, so that a bit behind them decides like all that are left out."""


def root(a: Number) -> Number:
    """A number that rounds as the square root does; of -0: -0."""
    if a is None or (a.negative and a.size != 0):
        return None
    if a.size is None or a.size == 0:
        return a
    shift = max(2 * ROOT_BITS - a.size.numerator.bit_length() + a.size.denominator.bit_length(), 0) // 2
    scaled = a.size * (1 << 2 * shift)
    whole = math.isqrt(math.floor(scaled))
    exact = whole * whole == scaled
    return Real(False, Fraction(2 * whole + (not exact), 1 << (shift + 1)))


def whole(number: int) -> Real:
    """An integer."""
    return Real(number < 0, Fraction(abs(number)))


def reduction(e: ir.FloatReduce) -> Operation:
    """The function of all terms, in order; of `dot_exact`: of factors, each beside its partner."""
    kind, number = e.type, decoder(e.type)

    def total(a: int, b: int) -> int:
        return encode(add(number(a), number(b)), kind)

    match e.op:
        case "in_order":
            return lambda terms: functools.reduce(total, terms)
        case "tree":
            return lambda terms: functools.reduce(total, _trees(terms, e.width, total))
        case "exact":
            return lambda terms: encode(functools.reduce(add, [number(bits) for bits in terms]), kind)
        case "dot_exact":
            return lambda terms: encode(functools.reduce(add, _products(terms, kind)), kind)
        case _:
            return lambda terms: functools.reduce(lambda a, b: _extreme(e.op, a, b, kind), terms)


def _trees(terms: Sequence[int], width: int, total: Callable[[int, int], int]) -> Sequence[int]:
    """The sums of each `width` neighbours."""
    while width > 1:
        terms, width = [total(a, b) for a, b in zip(terms[::2], terms[1::2], strict=True)], width // 2
    return terms


def _products(factors: Sequence[int], kind: FloatType) -> list[Number]:
    return [multiply(decode(a, kind), decode(b, kind)) for a, b in zip(factors[::2], factors[1::2], strict=True)]


def _compare(op: str, a: Number, b: Number) -> bool:
    """False where either is NaN; zeros are equal."""
    if a is None or b is None:
        return False
    x, y = _order(a), _order(b)
    return x < y if op == "lt" else x <= y if op == "le" else x == y


def _order(number: Real) -> tuple[int, Fraction]:
    """Numbers in their order, infinities outside."""
    return (0, number.value) if number.size is not None else (-1 if number.negative else 1, Fraction(0))


def _extreme(op: str, a: int, b: int, kind: FloatType) -> int:
    """IEEE 754-2019's four; -0 is below +0."""
    x, y = decode(a, kind), decode(b, kind)
    if x is None or y is None:
        alone = [bits for bits, number in ((a, x), (b, y)) if number is not None]
        return alone[0] if alone and op.endswith("_number") else kind.nan
    below = (_order(x), not x.negative) < (_order(y), not y.negative)
    return a if below == op.startswith("minimum") else b


def rounded(number: Number, rounding: str, kind: ScalarType) -> int:
    """The nearest integer in the type's range; NaN gives 0."""
    if number is None:
        return 0
    if number.size is None:
        return kind.low if number.negative else kind.high
    return max(kind.low, min(kind.high, ROUNDINGS[rounding](number.value)))


def half_away(value: Fraction) -> int:
    """To the nearest, ties away from zero."""
    size = math.floor(abs(value) + Fraction(1, 2))
    return size if value > 0 else -size


ROUNDINGS: dict[str, Callable[[Fraction], int]] = {
    "half_even": round,
    "half_up": lambda value: math.floor(value + Fraction(1, 2)),
    "half_away": half_away,
    "floor": math.floor,
    "truncate": math.trunc,
}
