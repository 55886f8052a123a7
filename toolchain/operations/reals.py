"""Expressions in floating point: what tables hold, and the stages of softmax or a layer norm."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from toolchain.spec.errors import fail
from toolchain.spec.expr import Binary, Call, Choose, Compare, Const, Expr, Logic, Name, Unary

Reals = np.typing.NDArray[np.float64]
_ERF = np.frompyfunc(math.erf, 1, 1)


def _erf(x: Reals) -> Reals:
    return np.asarray(_ERF(x), np.float64)


REAL_FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "exp": np.exp,
        "log": np.log,
        "sqrt": np.sqrt,
        "tanh": np.tanh,
        "erf": _erf,
        "min": np.minimum,
        "max": np.maximum,
        "abs": np.abs,
        "ratio": np.divide,
    }
)
"""Functions that floating expressions may call; ratio(a, b) is a / b."""
_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "+": np.add, "-": np.subtract, "*": np.multiply, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
        "==": np.equal, "!=": np.not_equal,
    }
)  # fmt: skip


def evaluate_reals(expr: Expr, names: Mapping[str, Reals]) -> Reals:
    """The value of an expression over float64 arrays that broadcast. Raises UserError E0122 for what floating point does not have."""

    def value(e: Expr) -> Reals:
        return evaluate_reals(e, names)

    match expr:
        case Const(value=number):
            return np.asarray(number, np.float64)
        case Name(id=name) if name in names:
            return names[name]
        case Unary(op="-", value=inner):
            return -value(inner)
        case Binary(op=op, left=left, right=right) | Compare(op=op, left=left, right=right) if op in _OPERATORS:
            return np.asarray(_OPERATORS[op](value(left), value(right)), np.float64)
        case Logic(op=op, values=values):
            truth = [value(v) != 0 for v in values]
            return np.asarray((np.logical_and if op == "and" else np.logical_or).reduce(truth), np.float64)
        case Choose(condition=condition, then=then, other=other):
            return np.where(value(condition) != 0, value(then), value(other))
        case Call(function=Name(id=name), args=args) if name in REAL_FUNCTIONS:
            return np.asarray(REAL_FUNCTIONS[name](*map(value, args)), np.float64)
        case _:
            raise fail("E0122", "this cannot be computed in floating point", expr.span)
