"""Operations in stages, element by element: in floating point, the yardstick for softmax, layer norms and tables, and in a machine's own
arithmetic of whole numbers and single floating-point factors."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from toolchain.operations.kind import MOST_FACTOR, Arithmetic, OperationKind, Stage
from toolchain.operations.reads import elements_of, in_parts, read_all
from toolchain.spec.arrays import Array, Floats, Ints, Reals, evaluate_arrays
from toolchain.spec.errors import fail
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Binary, Call, Choose, Compare, Const, Expr, Index, Logic, Name, Unary, rewrite, walk

Evaluate = Callable[[Expr, Mapping[str, Array]], Array]
"""The value of an expression over arrays that broadcast."""
_REDUCE: Mapping[str, Callable[..., Array]] = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}
MOST = 1 << 22
"""Elements of a stage, reduced ones included, that are computed at once."""

_ERF = np.frompyfunc(math.erf, 1, 1)


def run_stages(kind: OperationKind, stages: Sequence[Stage], numbers: Mapping[str, int], operands: Mapping[str, Array], evaluate: Evaluate) -> Array:
    """The last stage: of the result's axes, in the type that `evaluate` gives."""
    known = dict(operands)
    for stage in stages:
        extents = {**{index: kind.indices[index] for index in stage.axes}, **stage.over}
        loops = {index: range(numbers[extent]) for index, extent in extents.items()}
        known[stage.name] = in_parts(loops, stage.axes, _is_small, partial(_whole, stage, numbers, known, evaluate))
    return known[kind.result.name]


def _is_small(loops: Mapping[str, range]) -> bool:
    return elements_of(loops) <= MOST


def _whole(stage: Stage, numbers: Mapping[str, int], known: Mapping[str, Array], evaluate: Evaluate, loops: Mapping[str, range]) -> Array:
    scope, sizes = read_all(known, numbers, loops, 0, unbounded=False), [len(loop) for loop in loops.values()]
    ready, read = scope.opened(stage.of)
    values = evaluate(ready, {**scope.names, **read})
    full = np.broadcast_to(values, sizes) if sizes else values.reshape(())
    return _REDUCE[stage.reduction](full, tuple(range(len(stage.axes), len(sizes)))) if stage.reduction else np.array(full)


def erf(x: Reals) -> Reals:
    """The error function, element by element."""
    return np.asarray(_ERF(x), np.float64)


REAL_FUNCTIONS: Mapping[str, Callable[..., Reals]] = MappingProxyType(
    {
        "exp": np.exp,
        "log": np.log,
        "sqrt": np.sqrt,
        "tanh": np.tanh,
        "erf": erf,
        "min": lambda *values: reduce(np.minimum, values),
        "max": lambda *values: reduce(np.maximum, values),
        "abs": np.abs,
        "floor": np.floor,
        "ratio": np.divide,
    }
)
"""Functions that floating expressions may call; ratio(a, b) is a / b, from_bits(n) the float32 with the bits of a whole number."""
REAL_ARGUMENTS: Mapping[str, int] = MappingProxyType({"exp": 1, "log": 1, "sqrt": 1, "tanh": 1, "erf": 1, "floor": 1, "ratio": 2, "from_bits": 1})
"""How many arguments those take that whole numbers do not have."""
_OPERATORS: Mapping[str, Callable[[Array, Array], Array]] = MappingProxyType(
    {
        "+": np.add, "-": np.subtract, "*": np.multiply, "%": np.mod, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
        "==": np.equal, "!=": np.not_equal,
    }
)  # fmt: skip


def evaluate_reals(expr: Expr, names: Mapping[str, Reals]) -> Reals:
    """The value of an expression over float64 arrays that broadcast. Raises UserError E0122 for operators that floating point lacks."""
    return evaluate_in(np.float64, REAL_FUNCTIONS, expr, names)


Real = TypeVar("Real", np.float32, np.float64)


def evaluate_in(dtype: type[Real], functions: Mapping[str, Callable[..., NDArray[Real]]], expr: Expr, names: Mapping[str, Array]) -> NDArray[Real]:
    """The value of an expression in a format, each step rounded to it. functions: that may be called, beside from_bits. names: arrays that broadcast.

    Raises UserError E0122 for operators that floating point lacks, and for the bits of a tensor.
    """

    def value(e: Expr) -> NDArray[Real]:
        return evaluate_in(dtype, functions, e, names)

    match expr:
        case Const(value=number):
            return np.asarray(number, dtype)
        case Name(id=name) if name in names:
            return np.asarray(names[name], dtype)
        case Unary(op="-", value=inner):
            return -value(inner)
        case Binary(op=op, left=left, right=right) | Compare(op=op, left=left, right=right) if op in _OPERATORS:
            return np.asarray(_OPERATORS[op](value(left), value(right)), dtype)
        case Logic(op=op, values=values):
            truth = [value(v) != 0 for v in values]
            return np.asarray((np.logical_and if op == "and" else np.logical_or).reduce(truth), dtype)
        case Choose(condition=condition, then=then, other=other):
            return np.where(value(condition) != 0, value(then), value(other))
        case Call(function=Name(id="from_bits"), args=(bits,)):
            return _of_bits(bits, names).astype(dtype)
        case Call(function=Name(id=name), args=args) if name in functions:
            return np.asarray(functions[name](*map(value, args)), dtype)
        case _:
            raise fail("E0122", "this cannot be computed in floating point", expr.span)


def _of_bits(expr: Expr, names: Mapping[str, Array]) -> Floats:
    """The float32 with the bits of a whole number, which float64 holds exactly."""
    if any(isinstance(e, Name) and e.id in names and names[e.id].dtype == np.float32 for e in walk(expr)):
        raise fail("E0122", "the bits of a float32 are no tensor's", expr.span)
    return evaluate_in(np.float64, {}, expr, names).astype(np.int64).astype(np.uint32).view(np.float32)


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


def wrap(x: Ints) -> Ints:
    """The low 32 bits of a whole number, in two's complement."""
    return (x & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


def _nearest(x: Floats) -> Ints:
    """Ties go to the even number."""
    return np.rint(x).astype(np.int64)


def _truncated(x: Floats) -> Ints:
    return np.trunc(x).astype(np.int64)


def _root(x: Ints) -> Ints:
    """The floor of the square root; 0 below zero."""
    found = np.sqrt(np.maximum(x, 0).astype(np.float64)).astype(np.int64)
    found -= found * found > np.maximum(x, 0)
    return found + ((found + 1) ** 2 <= x)


_OF_WHOLE: Mapping[str, Callable[[Ints], Ints]] = MappingProxyType({"wrap": wrap, "root": _root})
_OF_SINGLE: Mapping[str, Callable[[Floats], Ints]] = MappingProxyType({"nearest": _nearest, "truncate": _truncated})
WHOLE_ARGUMENTS: Mapping[str, int] = MappingProxyType({**dict.fromkeys((*_OF_WHOLE, *_OF_SINGLE, "single", "sqrt"), 1), "ratio": 2})
"""How many arguments the functions take that stages of whole numbers may call, beside those of all expressions. Inside `nearest` and `truncate`
stands float32: single(x) is a whole number rounded to it, ratio(a, b) is a / b, and `*`, ratio and sqrt round once."""


def evaluate_whole(expr: Expr, names: Mapping[str, Array]) -> Ints:
    """The value of an expression over int64 arrays that broadcast. Raises UserError E0122 where it leaves 62 bits or mixes in floating point."""
    found: dict[str, Ints] = {}

    def change(e: Expr) -> Expr | None:
        match e:
            case Call(function=Name(id=name), args=(inner,)) if name in _OF_WHOLE:
                value = _OF_WHOLE[name](evaluate_whole(inner, names))
            case Call(function=Name(id=name), args=(inner,)) if name in _OF_SINGLE:
                value = _OF_SINGLE[name](_single(inner, names))
            case _:
                return None
        found[f"({len(found)})"] = value
        return Name(f"({len(found) - 1})")

    return evaluate_arrays(rewrite(expr, change), {**names, **found})


def _single(expr: Expr, names: Mapping[str, Array]) -> Floats:
    match expr:
        case Call(function=Name(id="single"), args=(inner,)):
            return evaluate_whole(inner, names).astype(np.float32)
        case Call(function=Name(id="sqrt"), args=(inner,)):
            return np.sqrt(_single(inner, names))
        case Call(function=Name(id="ratio"), args=(top, bottom)):
            return np.asarray(_single(top, names) / _single(bottom, names), np.float32)
        case Binary(op="*", left=left, right=right):
            return np.asarray(_single(left, names) * _single(right, names), np.float32)
        case _:
            raise fail("E0122", "this is no product, ratio or root of float32 numbers", expr.span, "single(...) makes one of a whole number")


def evaluate_arithmetic(kind: OperationKind, numbers: Mapping[str, int], operands: Mapping[str, Array]) -> Ints:
    """The exact whole numbers before the ending, of the result's axes. operands: stored integers less their zeros.

    Raises UserError E0122 as `evaluate_whole`.
    """
    assert kind.arithmetic is not None
    wide = {name: np.asarray(array, np.int64) for name, array in operands.items()}
    return run_stages(kind, kind.arithmetic.stages, numbers, wide, evaluate_whole)


def constants_of(arithmetic: Arithmetic, scales: Mapping[str, float], numbers: Mapping[str, int]) -> dict[str, int]:
    """The whole numbers that follow from the scales of the operands, rounded to the nearest. scales: by operand; numbers: of the operation.

    Raises UserError E0122 for one that is no number.
    """
    names, found = _reals(scales, numbers), dict[str, int]()
    for name, expr in arithmetic.constants.items():
        found[name] = math.floor(_finite(expr, names, f"the constant '{name}'") + 0.5)
        names[name] = np.asarray(found[name], np.float64)
    return found


def _finite(expr: Expr, names: Mapping[str, Array], told: str) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(evaluate_reals(expr, names))
    if not math.isfinite(value):
        raise fail("E0122", f"{told} is {value}", expr.span)
    return value


def step_of(arithmetic: Arithmetic, scales: Mapping[str, float], numbers: Mapping[str, int]) -> float:
    """The value of 1 in the exact whole numbers. numbers: the constants and the operation's."""
    return float(evaluate_reals(arithmetic.step, _reals(scales, numbers)))


def most_factor(kind: OperationKind, numbers: Mapping[str, int]) -> int:
    """The largest whole number by which the operation multiplies a channel, at least 1. numbers: of the operation.

    Raises UserError E0122 for a limit that is no number.
    """
    if kind.arithmetic is None or kind.arithmetic.factors is None:
        return MOST_FACTOR
    return max(1, min(int(_finite(kind.arithmetic.factors, _reals({}, numbers), "the largest factor")), MOST_FACTOR))


def unmet(arithmetic: Arithmetic, numbers: Mapping[str, int]) -> str:
    """The message of the first condition that does not hold, empty where all do. numbers: the constants and the operation's."""
    return next((each.message for each in arithmetic.requires if not constant(each.that, numbers)), "")


def _reals(scales: Mapping[str, float], numbers: Mapping[str, int]) -> dict[str, Array]:
    given = {**numbers, **{f"scale_{name}": scale for name, scale in scales.items()}}
    return {name: np.asarray(value, np.float64) for name, value in given.items()}
