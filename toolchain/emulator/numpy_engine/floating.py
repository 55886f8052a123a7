"""Floating operations on arrays of bits: numpy's own where they round once to nearest even, integers where bits decide."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from toolchain.emulator.numpy_engine.expressions import is_int, where, wide
from toolchain.emulator.numpy_engine.formats import decode, encode, exact, from_integers, fused, is_nan, is_single, odd
from toolchain.emulator.numpy_engine.frame import Frame, Run, Value
from toolchain.emulator.numpy_engine.function_tables import function_table
from toolchain.isa.semantics import ir
from toolchain.spec.model import FloatType, ScalarType

Function = Callable[[Sequence[Value]], Value]
"""Of arrays of bits, or integers, to an array of them."""


def floating(e: ir.Float | ir.ToFloat | ir.ToInteger, values: list[Run]) -> Run:
    """The function of an operation. Ints in, an int out."""
    function = _function(e)

    def run(f: Frame) -> Value:
        found = [value(f) for value in values]
        with np.errstate(all="ignore"):
            result = function([np.asarray(x) for x in found])
        return int(result) if all(is_int(x) for x in found) else np.asarray(result)

    return run


def _function(e: ir.Float | ir.ToFloat | ir.ToInteger) -> Function:
    match e:
        case ir.ToFloat(type=kind, source=source, saturate=saturate):
            if source is None:
                return lambda v: encode(v[0].astype(np.float32) if is_single(kind) else from_integers(wide(v[0])), kind, saturate)
            return lambda v: encode(exact(v[0], source), kind, saturate)
        case ir.ToInteger(source=source, rounding=rounding, type=kind):
            return lambda v: rounded(decode(v[0], source), rounding, kind)
        case ir.Float(op=op, type=kind):
            return _operation(op, kind)


def _operation(op: str, kind: FloatType) -> Function:
    match op:
        case "add" | "sub" | "mul" | "div":
            apply = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[op]
            return lambda v: encode(apply(decode(v[0], kind), decode(v[1], kind)), kind)
        case "sqrt":
            return lambda v: encode(np.sqrt(decode(v[0], kind)), kind)
        case "fma":
            return lambda v: fused(v[0], v[1], v[2], kind)
        case "exp" | "log" | "tanh" | "erf":
            table = function_table(op, kind)
            return lambda v: table[wide(v[0]) & ((1 << kind.bits) - 1)]
        case "lt" | "le" | "eq":
            compare = {"lt": np.less, "le": np.less_equal, "eq": np.equal}[op]
            return lambda v: compare(decode(v[0], kind), decode(v[1], kind)).astype(np.int64)
        case "from_bits" | "neg" | "abs" | "to_bits" | "is_nan":
            return lambda v: _of_bits(op, wide(v[0]), kind)
        case _:
            return lambda v: _extreme(op, wide(v[0]), wide(v[1]), kind)


def reduced(e: ir.FloatReduce, terms: list[Value], over: tuple[int, ...]) -> Value:
    """Terms over axes, in row-major order; for `dot_exact` two lots of factors. terms: bits, spread over those axes."""
    ends = tuple(range(len(over)))
    rows = [np.moveaxis(x, over, ends) for x in terms]
    flat = [x.reshape(-1, *x.shape[len(over) :]) for x in rows]
    with np.errstate(all="ignore"):
        found = _folded(e, flat)
    return np.expand_dims(found, tuple(sorted(axis % terms[0].ndim for axis in over)))


def _folded(e: ir.FloatReduce, flat: list[Value]) -> Value:
    kind, terms = e.type, flat[0]
    if e.op in ("exact", "dot_exact"):
        return _exact_sum(flat, kind)
    step = _operation("add" if e.op in ("in_order", "tree") else e.op, kind)
    width = max(e.width, 1)
    while width > 1:
        terms, width = step([terms[::2], terms[1::2]]), width // 2
    total = terms[0]
    for term in terms[1:]:
        total = step([total, term])
    return total


def _exact_sum(flat: list[Value], kind: FloatType) -> Value:
    """Python's own integers and exact sums: slow, and never wrong."""
    columns = np.broadcast_arrays(*flat)
    shape = columns[0].shape
    rows = [exact(x, kind).reshape(shape[0], -1).T for x in columns]
    sums = [_round_sum(x.tolist()) for x in (rows[0] * rows[1] if len(rows) > 1 else rows[0])]
    return encode(np.array(sums, np.float64), kind).reshape(shape[1:])


def _round_sum(terms: list[float]) -> float:
    """The exact sum of doubles, rounded to an odd last bit where it is none of them."""
    if not all(map(math.isfinite, terms)):
        return sum(terms)
    total = math.fsum(terms)
    if total == 0:
        return total if any(math.copysign(1, x) > 0 for x in terms) or any(terms) else -0.0
    return float(odd(np.float64(total), np.float64(math.fsum([*terms, -total]))))


def _of_bits(op: str, x: Value, kind: FloatType) -> Value:
    """Operations that see no number."""
    match op:
        case "from_bits":
            return _signed(x, kind)
        case "to_bits":
            return x & ((1 << kind.bits) - 1)
        case "neg":
            return _signed(x ^ (1 << (kind.bits - 1)), kind)
        case "abs":
            return x & kind.magnitude
        case _:
            return is_nan(x, kind).astype(np.int64)


def _signed(x: Value, kind: FloatType) -> Value:
    return (x & kind.magnitude) - (x & 1 << (kind.bits - 1))


def _extreme(op: str, a: Value, b: Value, kind: FloatType) -> Value:
    """Compares bits; -0 is below +0."""
    below = _order(a, kind) < _order(b, kind)
    best = where(below if op.startswith("minimum") else ~below, a, b)
    no_a, no_b = is_nan(a, kind), is_nan(b, kind)
    if op.endswith("_number"):
        return where(no_a & no_b, kind.nan, where(no_a, b, where(no_b, a, best)))
    return where(no_a | no_b, kind.nan, best)


def _order(x: Value, kind: FloatType) -> Value:
    """Integers in the order of the numbers: the bits of negative ones count down."""
    return where(x < 0, -1 - (x & kind.magnitude), x)


def rounded(numbers: Value, rounding: str, kind: ScalarType) -> Value:
    """The nearest integers in the type's range, int64; NaN gives 0. Halves of float32 are exact in float64."""
    whole = ROUNDINGS[rounding](np.asarray(numbers, np.float64))
    above, below = whole >= kind.high + 1.0, whole < kind.low
    inside = ~(above | below | np.isnan(whole))
    return where(inside, where(inside, whole, 0.0).astype(np.int64), where(above, kind.high, where(below, kind.low, 0)))


def _half_away(x: Value) -> Value:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


ROUNDINGS: dict[str, Callable[[Value], Value]] = {
    "half_even": np.rint,
    "half_up": lambda x: np.floor(x + 0.5),
    "half_away": _half_away,
    "floor": np.floor,
    "truncate": np.trunc,
}
