"""Expression nodes turned into functions of a frame, for scalars and data alike; subclasses add the leaves.

Operations are exact on Python ints and int64 arrays.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from toolchain.emulator.numpy_engine.frame import Frame, Run, Value
from toolchain.isa.semantics import ir
from toolchain.spec import expr as ex
from toolchain.spec.evaluate import OPERATORS, clog2
from toolchain.spec.expr import Expr
from toolchain.spec.model import ScalarType

where: Callable[[Value, Value, Value], Value] = np.where
search: Callable[[Value, Value], Value] = np.searchsorted
POWERS = np.array([1 << n for n in range(63)], np.int64)


def is_int(value: Value) -> bool:
    """Whether a value is one Python int."""
    return value.__class__ is int


def in_range(f: Frame, number: Value, count: int, error: Callable[[int], Exception]) -> Value:
    """A scalar or data that must be from 0 to count - 1; 0 where it is not and no iteration takes part. Raises `error` of the first number outside in
    an iteration that does."""
    wrong = np.asarray((number < 0) | (number >= count))
    if not wrong.any():
        return number
    bad = wrong if f.mask is None else wrong & f.mask
    if bad.any():
        raise error(int(np.broadcast_to(number, bad.shape)[bad][0]))
    return 0 if is_int(number) else np.where(wrong, 0, number)


def is_array(value: Value) -> bool:
    """Whether a value differs, or may differ, between iterations."""
    return isinstance(value, np.ndarray)


def spread(value: Value, shape: tuple[int, ...]) -> Value:
    """np.broadcast_to, at no cost where there is nothing to do."""
    return value if np.shape(value) == shape else np.broadcast_to(value, shape)


def wide(value: Value) -> Value:
    """The value with room for arithmetic: int64 unless it is a Python int."""
    return value if value.__class__ is int or value.dtype == np.int64 else value.astype(np.int64)


def select(condition: Value, then: Value, other: Value) -> Value:
    """np.where that never leaves a type too small for a Python int, nor meets a signed with an unsigned one."""
    if is_int(then) or is_int(other) or then.dtype != other.dtype:
        then, other = _fitting(then, other), _fitting(other, then)
    return where(condition, then, other)


def _fitting(value: Value, beside: Value) -> Value:
    """The value widened unless it is an int that fits beside the other, or an array that the other fits beside."""
    if is_int(value) or (is_int(beside) and np.iinfo(value.dtype).min <= beside <= np.iinfo(value.dtype).max):
        return value
    return wide(value)


def extreme(op: str, a: Value, b: Value) -> Value:
    """The smaller or larger one; arrays of one stored type stay as small as they are."""
    if is_int(a) and is_int(b):
        return min(a, b) if op == "min" else max(a, b)
    if is_int(a):
        a, b = b, a
    if is_int(b):
        limits = np.iinfo(a.dtype)
        a = a if limits.min <= b <= limits.max else a.astype(np.int64)
    elif a.dtype != b.dtype:
        a, b = wide(a), wide(b)
    return np.minimum(a, b) if op == "min" else np.maximum(a, b)


def wrap(value: Value, kind: ScalarType) -> Value:
    """Modulo 2**bits, in the type's range."""
    if is_int(value):
        return (value - kind.low) % (1 << kind.bits) + kind.low
    if kind.bits == 64:
        return value
    if kind.bits in (8, 16, 32):
        return value.astype(f"{'i' if kind.signed else 'u'}{kind.bits // 8}").astype(np.int64)
    return ((value - kind.low) & ((1 << kind.bits) - 1)) + kind.low


def clamp(value: Value, low: int, high: int) -> Value:
    """The nearest number in [low, high]."""
    return extreme("min", extreme("max", value, low), high)


def round_shift(value: Value, amount: Value, rounding: str) -> Value:
    """value / 2**amount for amounts from 0 to 63, rounded to the nearest; ties as `rounding` says; `floor` rounds down."""
    if is_int(amount) and amount == 0:
        return value
    floor = value >> amount
    if rounding == "floor":
        return floor
    some = amount if is_int(amount) else np.maximum(amount, 1)
    up = (value >> (some - 1)) & 1
    if rounding != "half_up":
        tie = (value & ((1 << some) - 1)) == (1 << (some - 1))
        up = up & (1 - (tie & (floor % 2 == 0 if rounding == "half_even" else value < 0)))
    if not is_int(amount):
        up = select(amount > 0, up, 0)
    return floor + up


def ceil_log(value: Value) -> Value:
    """Bits needed to count `value` things."""
    if is_int(value):
        return clog2(value)
    return search(POWERS, np.maximum(value, 1))


def uniform(value: Value) -> Value:
    """An int when every entry is the same: constants must not take part in broadcasting."""
    if is_int(value):
        return value
    first = value.item(0)
    return first if bool((value == first).all()) else value


LONGEST_SHIFT = 4096


class Expressions(ABC):
    """Builds functions; each is called once for all iterations that run together."""

    @abstractmethod
    def leaf(self, e: Expr) -> Run:
        """The function of a node that only this kind of expression knows."""

    @abstractmethod
    def lift(self, value: Value) -> Value:
        """A scalar (a mask) in the axes of this kind of expression."""

    @abstractmethod
    def choose(self, e: ex.Choose) -> Run:
        """`then if condition else other`"""

    def value(self, e: Expr) -> Run:
        """The function that evaluates an expression."""
        match e:
            case ex.Const(value=number):
                return lambda _: number
            case ex.Binary(op=op, left=left, right=right):
                return self._binary(op, self.value(left), self.value(right))
            case ex.Unary(op="not") | ex.Compare() | ex.Logic():
                return _as_number(self.truth(e))
            case ex.Unary(op=op, value=inner):
                return self._unary(op, self.value(inner))
            case ex.Choose():
                return self.choose(e)
            case ex.Call(function=ex.Name(id=name), args=args):
                return self._call(name, [self.value(a) for a in args])
            case ir.Extreme(op=op, values=values):
                return _extremes(op, [self.value(v) for v in values])
            case ir.RoundShift(value=value, amount=amount, rounding=rounding):
                return self._round(self.value(value), self.value(amount), rounding)
            case ir.Narrow():
                return _narrow(e, self.value(e.value))
            case _:
                return self.leaf(e)

    def truth(self, e: Expr) -> Run:
        """The function that says whether a condition holds: a Python truth value or a bool array."""
        match e:
            case ex.Unary(op="not", value=inner):
                test = self.truth(inner)
                return lambda f: np.logical_not(found) if is_array(found := test(f)) else not found
            case ex.Compare(op=op, left=left, right=right):
                compare, a, b = OPERATORS[op], self.value(left), self.value(right)
                return lambda f: compare(a(f), b(f))
            case ex.Logic(op=op, values=values):
                return self._logic(op == "and", [self.truth(v) for v in values])
            case _:
                number = self.value(e)
                return lambda f: found if is_int(found := number(f)) else found != 0

    def _logic(self, conjunction: bool, tests: list[Run]) -> Run:
        """Each test is asked only where those before it leave the answer open."""

        def logic(f: Frame) -> Value:
            known: Value = None
            before = f.mask
            for test in tests:
                found = test(f)
                if not is_array(found):
                    if bool(found) != conjunction:
                        known = not conjunction
                        break
                    continue
                known = found if known is None else (known & found if conjunction else known | found)
                self.narrow_to(f, known if conjunction else ~known)
            f.mask = before
            return conjunction if known is None else known

        return logic

    def narrow_to(self, f: Frame, condition: Value) -> None:
        """Only the iterations that meet the condition take part from here on."""
        f.mask = f.taking_part(condition)

    def _unary(self, op: str, inner: Run) -> Run:
        if op == "-":
            return lambda f: -wide(inner(f))
        return lambda f: ~wide(inner(f))

    def _binary(self, op: str, a: Run, b: Run) -> Run:
        match op:
            case "+":
                return lambda f: wide(a(f)) + wide(b(f))
            case "-":
                return lambda f: wide(a(f)) - wide(b(f))
            case "*":
                return lambda f: _product(wide(a(f)), wide(b(f)))
            case "//" | "%":
                divide = OPERATORS[op]
                return lambda f: divide(wide(a(f)), self._divisor(f, wide(b(f))))
            case "<<" | ">>":
                shift = OPERATORS[op]
                return lambda f: shift(wide(a(f)), self._amount(f, wide(b(f))))
            case _:
                apply = OPERATORS[op]
                return lambda f: apply(wide(a(f)), wide(b(f)))

    def _refused(self, f: Frame, wrong: Value) -> bool:
        """Whether something is wrong where a value is wanted."""
        if not is_array(wrong):
            return wrong and (f.mask is None or bool(f.mask.any())) and (f.lazy is None or bool(f.lazy.any()))
        if f.mask is not None:
            wrong = wrong & self.lift(f.mask)
        if f.lazy is not None:
            wrong = wrong & f.lazy
        return bool(wrong.any())

    def _divisor(self, f: Frame, number: Value) -> Value:
        if is_int(number):
            if number == 0 and self._refused(f, True):
                raise f.fault("E0704", "division by zero")
            return number or 1
        zero = number == 0
        if not zero.any():
            return number
        if self._refused(f, zero):
            raise f.fault("E0704", "division by zero")
        return np.where(zero, 1, number)

    def _amount(self, f: Frame, number: Value) -> Value:
        if is_int(number):
            if not 0 <= number <= LONGEST_SHIFT and self._refused(f, True):
                raise f.fault("E0703", f"a shift by {number}")
            return min(max(number, 0), LONGEST_SHIFT)
        wrong = (number < 0) | (number > LONGEST_SHIFT)
        if wrong.any():
            if self._refused(f, wrong):
                raise f.fault("E0703", f"a shift by {int(number[wrong][0])}")
            number = np.where(wrong, 0, number)
        return np.minimum(number, 63)

    def _round(self, value: Run, amount: Run, rounding: str) -> Run:
        def rounded(f: Frame) -> Value:
            number, by = wide(value(f)), self._amount(f, wide(amount(f)))
            if is_int(number) and is_int(by):
                return round_shift(number, by, rounding)
            return round_shift(number, min(by, 63) if is_int(by) else by, rounding)

        return rounded

    def _call(self, name: str, args: list[Run]) -> Run:
        match name:
            case "min" | "max":
                return _extremes(name, args)
            case "abs":
                return lambda f: abs(wide(args[0](f)))
            case "clog2":
                return lambda f: ceil_log(wide(args[0](f)))
            case "ceil_div":
                return lambda f: -(-wide(args[0](f)) // self._divisor(f, wide(args[1](f))))
            case "align":

                def align(f: Frame) -> Value:
                    by = self._divisor(f, wide(args[1](f)))
                    return -(-wide(args[0](f)) // by) * by

                return align
            case _:
                raise TypeError(name)


def _as_number(test: Run) -> Run:
    return lambda f: found.astype(np.int64) if is_array(found := test(f)) else int(found)


def _product(a: Value, b: Value) -> Value:
    """A factor 0 leaves no axes."""
    if (a.__class__ is int and a == 0) or (b.__class__ is int and b == 0):
        return 0
    return a * b


def _extremes(op: str, values: list[Run]) -> Run:
    first, rest = values[0], values[1:]

    def fold(f: Frame) -> Value:
        found = first(f)
        for value in rest:
            found = extreme(op, found, value(f))
        return found

    return fold


def _narrow(e: ir.Narrow, inner: Run) -> Run:
    kind, low, high = e.type, e.low, e.high
    if e.overflow == "wrap":
        return lambda f: wrap(wide(inner(f)), kind)
    return lambda f: clamp(inner(f), low, high)
