"""How a machine calculates with integers, and what follows from it."""

from toolchain.spec.model.quantisation import AverageRule, Fraction, Rounding

ROUNDINGS: tuple[Rounding, ...] = ("half_up", "half_even", "half_away", "floor")


def average_fraction(rule: AverageRule, height: int, width: int) -> Fraction:
    """The fraction that stands for 1 / (height * width): the table's, or the least error, the smallest shift of several."""
    for kh, kw, fraction in rule.table:
        if (kh, kw) == (height, width):
            return fraction
    count = height * width
    limit = 2 ** (rule.bits - 1)
    choices = [Fraction((2 ** (s + 1) + count) // (2 * count), s) for s in range(max(1, (limit * count - 1).bit_length()))]
    legal = [choice for choice in choices if 0 < choice.numerator < limit]
    return min(legal, key=lambda choice: (_error(choice, count), choice.shift))


def _error(fraction: Fraction, count: int) -> float:
    return abs(fraction.numerator * count - 2**fraction.shift) / 2**fraction.shift
