"""How a value is kept: wrapped, saturated, or refused when it does not fit."""

from collections.abc import Callable

import numpy as np

from toolchain.emulator.numpy_engine.frame import Frame, Value
from toolchain.emulator.numpy_engine.numerics import clamp, is_int, wrap
from toolchain.isa.semantics import ir
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr
from toolchain.spec.model import ScalarType

Fit = Callable[[Frame, Value], Value]


def narrowed(kind: ScalarType, overflow: str, e: Expr | None, name: str) -> Fit:
    """The function that makes data fit a type. e: what the data comes from, if that tells; name: for E0705."""
    if e is not None and fits(e, kind):
        return lambda _, value: value
    if overflow == "wrap":
        return lambda _, value: _wrapped(value, kind)
    if overflow == "saturate":
        return lambda _, value: clamp(value, kind.low, kind.high)

    def check(f: Frame, value: Value) -> Value:
        if is_int(value):
            wrong = not kind.low <= value <= kind.high
        else:
            wrong = bool(value.min() < kind.low or value.max() > kind.high) and _anywhere(f, (value < kind.low) | (value > kind.high))
        if wrong:
            raise f.fault("E0705", f"{name} is {kind} and cannot hold a result")
        return value

    return check


def _anywhere(f: Frame, wrong: Value) -> bool:
    if f.mask is not None and wrong.ndim >= f.mask.ndim:
        wrong = wrong & f.mask.reshape(f.mask.shape + (1,) * (wrong.ndim - f.mask.ndim))
    return bool(wrong.any())


def _wrapped(value: Value, kind: ScalarType) -> Value:
    if is_int(value) or kind.bits not in (8, 16, 32, 64):
        return wrap(value, kind)
    dtype = np.dtype(f"{'i' if kind.signed else 'u'}{kind.bits // 8}")
    return value if value.dtype == dtype else value.astype(dtype)


def fits(e: Expr, kind: ScalarType) -> bool:
    """Whether the form of an expression tells that it fits."""
    match e:
        case ex.Const(value=number):
            return kind.low <= number <= kind.high
        case ir.Narrow(type=inner, overflow=overflow, low=low, high=high):
            low, high = (inner.low, inner.high) if overflow == "wrap" else (low, high)
            return kind.low <= low and high <= kind.high
        case ir.Load(access=access):
            stored = access.view.element.scalar
            return kind.low <= stored.low and stored.high <= kind.high
        case _:
            return False
