"""Expression nodes turned into functions of a frame, for scalars and data alike; subclasses add the leaves."""

from abc import ABC, abstractmethod

import numpy as np

from toolchain.emulator.numpy_engine.frame import Frame, Run, Value
from toolchain.emulator.numpy_engine.numerics import ceil_log, clamp, extreme, is_array, is_int, round_shift, wide, wrap
from toolchain.isa.semantics import ir
from toolchain.spec import expr as ex
from toolchain.spec.evaluate import OPERATORS
from toolchain.spec.expr import Expr

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
        """Only the iterations that meet the condition take part in what follows."""
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
