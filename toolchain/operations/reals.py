"""Operations in floating point, stage by stage, straight from their expressions: the yardstick for softmax, layer norms and tables."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from toolchain.operations.kind import OperationKind, Stage
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
        "min": np.minimum,
        "max": np.maximum,
        "abs": np.abs,
        "ratio": np.divide,
    }
)
"""Functions that floating expressions may call; ratio(a, b) is a / b."""
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


_REDUCE: Mapping[str, Callable[..., Array]] = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}


def evaluate_stages(kind: OperationKind, numbers: Mapping[str, int], operands: Mapping[str, Reals]) -> Reals:
    """float64, of the result's axes."""
    known = dict(operands)
    for stage in kind.meaning.stages:
        known[stage.name] = _stage(kind, stage, numbers, known)
    return known[kind.result.name]


def _stage(kind: OperationKind, stage: Stage, numbers: Mapping[str, int], known: Mapping[str, Reals]) -> Reals:
    indices = {index: extent for each in (*kind.operands, kind.result) for index, extent in each.axes.items()}
    loops = {index: numbers[indices[index]] for index in stage.axes} | {index: numbers[extent] for index, extent in stage.over.items()}
    grid = np.meshgrid(*(np.arange(size) for size in loops.values()), indexing="ij", sparse=True)
    names = dict(zip(loops, grid, strict=True))
    read: dict[str, Reals] = {}

    def change(e: Expr) -> Expr | None:
        if isinstance(e, Index) and isinstance(e.base, Name):
            places = [evaluate_reals(part, {**_floats(numbers), **_floats(names)}).astype(np.int64) for part in e.index]
            read[f"[{len(read)}]"] = known[e.base.id][tuple(places)]
            return Name(f"[{len(read) - 1}]")
        return None

    ready = rewrite(stage.of, change)
    values = np.broadcast_to(evaluate_reals(ready, {**_floats(numbers), **_floats(names), **read}), list(loops.values()))
    axes = tuple(range(len(stage.axes), len(loops)))
    return np.asarray(_REDUCE[stage.reduction](values, axes) if stage.reduction else values, np.float64)


def _floats(names: Mapping[str, int | Array]) -> dict[str, Reals]:
    return {name: np.asarray(value, np.float64) for name, value in names.items()}


def evaluate_table(kind: OperationKind, x: Reals) -> Reals:
    """A function of one element."""
    meaning = kind.meaning.of
    assert meaning is not None
    ready = rewrite(meaning, lambda e: Name("x") if isinstance(e, Index) else None)
    return np.broadcast_to(evaluate_reals(ready, {"x": x}), x.shape)
