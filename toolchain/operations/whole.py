"""A machine's own arithmetic, in whole numbers and single floating-point factors: the meaning of a softmax or GELU that a unit computes itself."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from toolchain.operations.kind import Arithmetic, OperationKind
from toolchain.operations.reals import evaluate_reals
from toolchain.operations.stages import run_stages
from toolchain.spec.arrays import Array, Floats, Ints, evaluate_arrays
from toolchain.spec.errors import fail
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Binary, Call, Expr, Name, rewrite


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
WHOLE_ARGUMENTS: Mapping[str, int] = MappingProxyType({**dict.fromkeys((*_OF_WHOLE, *_OF_SINGLE, "single"), 1), "ratio": 2})
"""How many arguments the functions take that stages of whole numbers may call, beside those of all expressions. Inside `nearest` and `truncate`
stands float32: single(x) is a whole number rounded to it, ratio(a, b) is a / b, and `*` and ratio round once."""


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
        case Call(function=Name(id="ratio"), args=(top, bottom)):
            return np.asarray(_single(top, names) / _single(bottom, names), np.float32)
        case Binary(op="*", left=left, right=right):
            return np.asarray(_single(left, names) * _single(right, names), np.float32)
        case _:
            raise fail("E0122", "this is no product or ratio of float32 numbers", expr.span, "single(...) makes one of a whole number")


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
        with np.errstate(divide="ignore", invalid="ignore"):
            value = float(evaluate_reals(expr, names))
        if not math.isfinite(value):
            raise fail("E0122", f"the constant '{name}' is {value}", expr.span)
        found[name] = math.floor(value + 0.5)
    return found


def step_of(arithmetic: Arithmetic, scales: Mapping[str, float], numbers: Mapping[str, int]) -> float:
    """The value of 1 in the exact whole numbers."""
    return float(evaluate_reals(arithmetic.step, _reals(scales, numbers)))


def unmet(arithmetic: Arithmetic, numbers: Mapping[str, int]) -> str:
    """The message of the first condition that does not hold, empty where all do. numbers: the constants and the operation's."""
    return next((each.message for each in arithmetic.requires if not constant(each.that, numbers)), "")


def _reals(scales: Mapping[str, float], numbers: Mapping[str, int]) -> dict[str, Array]:
    given = {**numbers, **{f"scale_{name}": scale for name, scale in scales.items()}}
    return {name: np.asarray(value, np.float64) for name, value in given.items()}
