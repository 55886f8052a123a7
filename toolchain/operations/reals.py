"""Operations in floating point, stage by stage, straight from their expressions: the yardstick for softmax, layer norms and tables."""

import math
from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType

import numpy as np

from toolchain.operations.kind import OperationKind
from toolchain.operations.stages import run_stages
from toolchain.spec.arrays import Array, Reals
from toolchain.spec.errors import fail
from toolchain.spec.expr import Binary, Call, Choose, Compare, Const, Expr, Index, Logic, Name, Unary, rewrite

_ERF = np.frompyfunc(math.erf, 1, 1)


def _erf(x: Reals) -> Reals:
    return np.asarray(_ERF(x), np.float64)


REAL_FUNCTIONS: Mapping[str, Callable[..., Reals]] = MappingProxyType(
    {
        "exp": np.exp,
        "log": np.log,
        "sqrt": np.sqrt,
        "tanh": np.tanh,
        "erf": _erf,
        "min": lambda *values: reduce(np.minimum, values),
        "max": lambda *values: reduce(np.maximum, values),
        "abs": np.abs,
        "floor": np.floor,
        "ratio": np.divide,
    }
)
"""Functions that floating expressions may call; ratio(a, b) is a / b."""
REAL_ARGUMENTS: Mapping[str, int] = MappingProxyType({"exp": 1, "log": 1, "sqrt": 1, "tanh": 1, "erf": 1, "floor": 1, "ratio": 2})
"""How many arguments those take that whole numbers do not have."""
_OPERATORS: Mapping[str, Callable[[Reals, Reals], Array]] = MappingProxyType(
    {
        "+": np.add, "-": np.subtract, "*": np.multiply, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
        "==": np.equal, "!=": np.not_equal,
    }
)  # fmt: skip


def evaluate_reals(expr: Expr, names: Mapping[str, Reals]) -> Reals:
    """The value of an expression over float64 arrays that broadcast. Raises UserError E0122 for operators that floating point lacks."""

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


def evaluate_stages(kind: OperationKind, numbers: Mapping[str, int], operands: Mapping[str, Reals]) -> Reals:
    """float64, of the result's axes."""
    return np.asarray(run_stages(kind, kind.meaning.stages, numbers, operands, _evaluate), np.float64)


def _evaluate(expr: Expr, names: Mapping[str, Array]) -> Reals:
    return evaluate_reals(expr, {name: np.asarray(array, np.float64) for name, array in names.items()})


def evaluate_table(kind: OperationKind, x: Reals) -> Reals:
    """A function of one element."""
    meaning = kind.meaning.of
    assert meaning is not None
    ready = rewrite(meaning, lambda e: Name("x") if isinstance(e, Index) else None)
    return np.broadcast_to(evaluate_reals(ready, {"x": x}), x.shape)
