"""How often each operand is a factor of a meaning, from which the scale of its result and its largest magnitude follow."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolchain.spec.errors import fail
from toolchain.spec.expr import Binary, Call, Choose, Compare, Const, Expr, Index, Logic, Name, Unary, walk

LIKE = ("abs", "max", "min")
"""Functions whose result has the scale of their arguments."""


@dataclass(frozen=True)
class Factors:
    """counts: how often each operand is a factor of every product. size: at most so many times the product of the elements' magnitudes."""

    counts: Mapping[str, int]
    size: int = 1

    @property
    def total(self) -> int:
        """Elements in a product."""
        return sum(self.counts.values())


ZERO = Factors({}, 0)


def factors_of(expr: Expr, scales: Mapping[str, str]) -> Factors:
    """scales: names that have a scale, each with the operand whose scale it is.

    Raises UserError E1301 where parts of different scales meet, and for expressions that leave no scale, such as a shift.
    """
    match expr:
        case Const(value=value):
            return Factors({}, abs(value))
        case Name(id=name) | Index(base=Name(id=name)) if name in scales:
            return Factors({scales[name]: 1})
        case Unary(op="-", value=value):
            return factors_of(value, scales)
        case Binary(op="*", left=left, right=right):
            return _product(factors_of(left, scales), factors_of(right, scales))
        case Binary(op="+" | "-", left=left, right=right):
            found = _alike(expr, [left, right], scales)
            return Factors(found[0].counts, sum(part.size for part in found))
        case Choose(condition=condition, then=then, other=other):
            _compare(condition, scales)
            return _largest(_alike(expr, [then, other], scales))
        case Call(function=Name(id=name), args=arguments) if name in LIKE:
            return _largest(_alike(expr, arguments, scales))
        case _:
            raise fail("E1301", "no scale follows from this part of the meaning", expr.span, "elements may be added, multiplied, compared and chosen")


def _product(left: Factors, right: Factors) -> Factors:
    return Factors(dict(Counter(left.counts) + Counter(right.counts)), left.size * right.size) if left.size and right.size else ZERO


def _largest(parts: Sequence[Factors]) -> Factors:
    return Factors(parts[0].counts, max(part.size for part in parts))


def _alike(whole: Expr, parts: Sequence[Expr], scales: Mapping[str, str]) -> list[Factors]:
    """Factors of parts that meet, nonzero ones first. Zero has any scale."""
    found = sorted((factors_of(part, scales) for part in parts), key=lambda part: not part.size)
    if any(part.counts != found[0].counts for part in found if part.size):
        texts = " and ".join(dict.fromkeys(_text(part) for part in found if part.size))
        raise fail("E1301", f"parts of different scales meet: {texts}", whole.span, "stored integers of different scales cannot be added or compared")
    return found


def _compare(condition: Expr, scales: Mapping[str, str]) -> None:
    """Raises UserError E1301 for a comparison of elements of different scales. A comparison without elements may be anything."""
    match condition:
        case Logic(values=parts):
            for part in parts:
                _compare(part, scales)
        case Unary(op="not", value=value):
            _compare(value, scales)
        case Compare(left=left, right=right) if any(isinstance(e, Name) and e.id in scales for e in walk(condition)):
            _alike(condition, [left, right], scales)
        case _:
            pass


def _text(part: Factors) -> str:
    return " * ".join(f"'{name}'" for name, count in part.counts.items() for _ in range(count)) or "a number"
