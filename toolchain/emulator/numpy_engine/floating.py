"""Floating operations on arrays of bits: numpy's own where they round once to nearest even, integers where bits decide, tables for the functions
of narrow formats. float32 stays as it is, narrower formats become float64, which has all their values."""

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from toolchain.emulator.numpy_engine.expressions import is_int, where, wide
from toolchain.emulator.numpy_engine.frame import Frame, Run, Value
from toolchain.isa.semantics import ir
from toolchain.spec.expr import Expr, children
from toolchain.spec.float_functions import FUNCTIONS
from toolchain.spec.model import FloatType, ScalarType

FRACTION, BIAS = 52, 1023
"""The fraction's bits and the exponent's bias of float64."""

DOUBT = 2.0**-47
"""A bit more than the error of the math library in toolchain/spec/float_functions.py, whose proof this is in doubles."""

Function = Callable[[Sequence[Value]], Value]
"""From arrays of bits, or integers, to an array of them."""


def is_single(kind: FloatType) -> bool:
    """Whether numpy's float32 is the format."""
    return (kind.bits, kind.fraction) == (32, 23)


def decode(bits: Value, kind: FloatType) -> Value:
    """Bits as numbers: float32, or float64 for narrower formats."""
    if is_single(kind):
        return np.asarray(bits).astype(np.int32, copy=False).view(np.float32)
    return exact(bits, kind)


def is_half(kind: FloatType) -> bool:
    """Whether numpy's float16 is the format."""
    return (kind.bits, kind.fraction) == (16, 10)


def exact(bits: Value, kind: FloatType) -> Value:
    """Bits as float64."""
    if is_single(kind):
        return decode(bits, kind).astype(np.float64)
    if is_half(kind):
        return np.asarray(bits).astype(np.int16).view(np.float16).astype(np.float64)
    wide = np.asarray(bits).astype(np.int64)
    code = wide & kind.magnitude
    sizes = (code << (FRACTION - kind.fraction)).view(np.float64) * 2.0 ** (BIAS - kind.bias)
    if kind.infinities:
        sizes = where(code == kind.infinity, np.inf, sizes)
    sizes = where(is_nan(wide, kind), np.nan, sizes)
    return where(wide >> (kind.bits - 1) & 1, -sizes, sizes)


def encode(numbers: Value, kind: FloatType, saturate: bool = False) -> Value:
    """Numbers rounded to nearest even, as bits; every NaN the same one. saturate: past the greatest, the greatest."""
    if is_single(kind) and not saturate:
        single = np.asarray(numbers).astype(np.float32, copy=False)
        return where(np.isnan(single), np.int32(kind.nan), single.view(np.int32))
    x = np.asarray(numbers, np.float64)
    if is_half(kind) and not saturate:
        return where(np.isnan(x), np.int16(kind.nan), x.astype(np.float16).view(np.int16))
    size = np.abs(where(np.isfinite(x), x, 0.0))
    unit = np.maximum(np.frexp(size)[1] - 1, 1 - kind.bias) - kind.fraction
    count = np.rint(np.ldexp(size, -unit)).astype(np.int64)
    code = where(size == 0, 0, ((unit + kind.fraction + kind.bias - 1).astype(np.int64) << kind.fraction) + count)
    beyond = kind.greatest if saturate else kind.infinity if kind.infinities else kind.nan
    code = where(np.isinf(x) | (code > kind.greatest), beyond, code)
    lost = np.isnan(x) | (code == kind.nan)
    return where(lost, kind.nan, where(np.signbit(x), code - (1 << (kind.bits - 1)), code))


def is_nan(x: Value, kind: FloatType) -> Value:
    """Whether bits are no number."""
    return (x & kind.magnitude) > (kind.infinity if kind.infinities else kind.greatest)


def odd(numbers: Value, error: Value) -> Value:
    """float64 sums, and the signs of their rounding errors, as the neighbour with an odd last bit: rounding once more to fewer bits is then exact."""
    words = np.asarray(numbers, np.float64).view(np.int64)
    step = where((error > 0) == (numbers > 0), 1, -1)
    inexact = (error != 0) & np.isfinite(error) & (words & 1 == 0)
    return where(inexact, words + step, words).view(np.float64)


def fused(a: Value, b: Value, c: Value, kind: FloatType) -> Value:
    """a * b + c rounded once; a product of two of the formats is exact in float64."""
    product, term = exact(a, kind) * exact(b, kind), exact(c, kind)
    total = product + term
    part = total - product
    return encode(odd(total, (product - (total - part)) + (term - part)), kind)


def from_integers(x: Value) -> Value:
    """int64 as float64, or its odd neighbour where 53 bits are too few."""
    sticky = where(x & 0x7FF, 0x800, 0) | (x & ~np.int64(0xFFF)) | (x & 0x800)
    return where(np.abs(x) < 1 << FRACTION, x, sticky).astype(np.float64)


@functools.cache
def function_table(name: str, kind: FloatType) -> NDArray[np.int64]:
    """[2**bits] signed bits of the function of each code from 0 up. Raises ArithmeticError where rounding is not proved."""
    function = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        values = np.array([function(x) for x in exact(np.arange(1 << kind.bits), kind).tolist()], np.float64)
        low, high = encode(values * (1 - DOUBT), kind), encode(values * (1 + DOUBT), kind)
    if not np.array_equal(low, high):
        raise ArithmeticError(f"{name} of {kind} is not proved to be rounded correctly")
    return low


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


def factors(e: ir.FloatReduce) -> tuple[Expr, ...]:
    """The expressions that `reduced` takes: both factors where products are added without a look at their bits, else the term."""
    product = e.value
    in_order = e.op == "in_order" and is_single(e.type) and isinstance(product, ir.Float) and product.op == "mul"
    return tuple(children(product)) if in_order or e.op == "dot_exact" else (product,)


def reduced(e: ir.FloatReduce, terms: list[Value], over: tuple[int, ...], shape: tuple[int, ...]) -> Value:
    """Terms over axes, in row-major order, or the factors that `factors` names. terms: bits, that can be spread to the shape."""
    axes = tuple(axis % len(shape) for axis in over)
    first = tuple(shape[axis] for axis in axes)
    rest = tuple(extent for axis, extent in enumerate(shape) if axis not in axes)
    flat = [_terms_first(x.reshape((1,) * (len(shape) - x.ndim) + x.shape), axes, first, rest) for x in terms]
    with np.errstate(all="ignore"):
        found = _in_order(flat, e.type) if len(flat) > 1 and e.op == "in_order" else _folded(e, flat)
    return np.expand_dims(found, tuple(sorted(axes)))


def _terms_first(x: Value, axes: tuple[int, ...], first: tuple[int, ...], rest: tuple[int, ...]) -> Value:
    """[terms, *rest]: copied as it is, so that neighbours stand side by side, and spread afterwards."""
    moved = np.ascontiguousarray(np.moveaxis(x, axes, range(len(axes))))
    rows = np.broadcast_to(moved, (*first, *moved.shape[len(axes) :])).reshape(-1, *moved.shape[len(axes) :])
    return np.broadcast_to(rows, (len(rows), *rest))


def _in_order(flat: list[Value], kind: FloatType) -> Value:
    """Products one after the other. A NaN stays one whatever its bits, so those of the sum alone are made the same."""
    one, other = (decode(x, kind) for x in flat)
    total = one[0] * other[0]
    product = np.empty_like(total)
    for a, b in zip(one[1:], other[1:], strict=True):
        np.add(total, np.multiply(a, b, out=product), out=total)
    return encode(total, kind)


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
