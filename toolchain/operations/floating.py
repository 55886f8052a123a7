"""Evaluate an operation in a machine's floating format, straight from its index expression: products and sums in float32, in the order that the
machine declares, one rounding to the machine's format at the end.

Shares no arithmetic with the ONNX bodies, which add up in whatever order ONNX Runtime likes. float32 and float16 are numpy's own, and bf16 is cut
from float32, so every operation is IEEE 754's, rounded to nearest, ties to even. Sources of the orders: the machine's file.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolchain.operations.float_stages import DTYPES, SINGLE, added_up, bits_of_held, blocks_of, evaluate_halves, held_of_bits, is_small, rounded
from toolchain.operations.kind import OperationKind
from toolchain.operations.numbers import Attributes, bits_of, extents_of, numbers_of, of_bits
from toolchain.operations.reads import Place, Read, in_parts, read_all
from toolchain.operations.reference import accumulate, visible
from toolchain.spec.arrays import Array, Floats, Ints
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Binary, Choose, Const, Expr, Index, Unary
from toolchain.spec.model import quantisation
from toolchain.spec.model.quantisation import Format
from toolchain.spec.reasons import Why, refuse

LEAST, MOST = -math.inf, math.inf


def integers_of(array: Array, single: bool = False) -> Array:
    """An array as kernels name it: floating numbers as signed integers of their bits, integers as they are. single: whether it is of float32, as a
    bias is, not of a format of 16 bits."""
    if array.dtype.kind != "f":
        return array
    return array.astype(SINGLE, copy=False).view(np.int32) if single else bits_of_held(array)


@dataclass(frozen=True)
class Bounds:
    """An activation in float32: numbers below zero times `slope`, then no less than `low` and no more than `high`."""

    low: float = LEAST
    high: float = MOST
    slope: float = 1.0

    @property
    def numbers(self) -> dict[str, int]:
        """Bits by the names that kernels give them; slope 0 where there is none."""
        return {"low": bits_of(self.low), "high": bits_of(self.high), "slope": 0 if self.slope == 1 else bits_of(self.slope)}

    def of(self, value: Floats) -> Floats:
        """NaN stays NaN; -0 is below 0."""
        if self.slope != 1:
            value = np.where(value < 0, value * np.float32(self.slope), value)
        low, high = np.float32(self.low), np.float32(self.high)
        kept = np.where(value <= low, low, value)
        return np.where(kept >= high, high, kept)


def activation_bounds(activation: str, attributes: Attributes) -> Bounds:
    """activation: '', relu, clip or leaky, with its attributes as ONNX functions have them."""
    match activation:
        case "relu":
            return Bounds(low=0.0)
        case "clip":
            return Bounds(float(attributes["minimum"]), float(attributes["maximum"]))
        case "leaky":
            return Bounds(slope=float(attributes["alpha"]))
        case _:
            return Bounds()


def number_bounds(numbers: Mapping[str, int]) -> Bounds:
    """Read back `Bounds.numbers` from an operation's numbers."""
    slope = numbers.get("slope", 0)
    return Bounds(of_bits(numbers["low"]), of_bits(numbers["high"]), of_bits(slope) if slope else 1.0)


def computable(kind: OperationKind) -> bool:
    """Whether a description says how an operation computes in a floating format: it is a sum, a mean, or a choice of elements, or has stages."""
    return bool(kind.halves) or kind.copies or (kind.form in ("weighted", "computed", "aligned", "average") and not kind.unit)


def ordered(kind: OperationKind, numbers: Mapping[str, int], floats: quantisation.Floats) -> bool:
    """Whether the machine says in which order an operation with these numbers adds up."""
    return order_of(kind, numbers, floats) is not None


def order_of(kind: OperationKind, numbers: Mapping[str, int], floats: quantisation.Floats) -> quantisation.SumOrder | None:
    """The order in which an operation with these numbers adds up; None where the machine names none for them."""
    return next((order for order in floats.orders(kind.name) if order.where is None or constant(order.where, numbers)), None)


def evaluate_call(kind: OperationKind, activation: str, attributes: Attributes, operands: Sequence[Array], floats: quantisation.Floats) -> Array:
    """In what holds the format, of the result's shape. operands: the kind's, in the same, and a float32 bias.

    Raises UserError E0919 as `compute` does.
    """
    bounds = activation_bounds(activation, attributes)
    if kind.meaning.join:
        return _selected(kind, {"axis": int(attributes["axis"])}, {kind.meaning.join: list(operands)}, floats.format)
    given = dict(zip((each.name for each in kind.operands), operands, strict=True))
    numbers = numbers_of(kind, {name: array.shape for name, array in given.items()}, attributes)
    arrays = {name: array.reshape(extents_of(kind.operand[name], array.shape)) for name, array in given.items()}
    found = compute(kind, numbers, arrays, bounds, floats)
    return found.reshape(visible(kind, operands[0].ndim, found))


def compute(kind: OperationKind, numbers: Mapping[str, int], arrays: Mapping[str, Array], bounds: Bounds, floats: quantisation.Floats) -> Array:
    """In what holds the format, of the result's axes. arrays: of the declared axes, in the same, and a float32 bias.

    Raises UserError E0919 for an operation whose meaning is no sum of products, no mean and no choice of elements.
    """
    if kind.halves:
        return evaluate_halves(kind, numbers, arrays, floats.format)
    if kind.copies:
        return _selected(kind, numbers, arrays, floats.format)
    if not computable(kind):
        raise refuse("E0919", Why.NO_FLOATS(operation=kind.name), kind.span)
    single = {name: np.asarray(array, SINGLE) for name, array in arrays.items()}
    loops = {index: range(numbers[extent]) for index, extent in kind.result.axes.items()}
    order = order_of(kind, numbers, floats) or quantisation.SumOrder()
    blocks = list(blocks_of(kind.meaning.over, numbers, order)) if kind.meaning.reduction else []

    def part(cut: Mapping[str, range]) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return rounded(bounds.of(_biased(kind, _total(kind, numbers, single, cut, blocks), single, cut)), floats.format)

    return in_parts(loops, list(loops), is_small, part)


def _biased(kind: OperationKind, total: Floats, arrays: Mapping[str, Floats], loops: Mapping[str, range]) -> Floats:
    if not kind.bias:
        return total
    axes = kind.operand[kind.bias].axes
    cut = arrays[kind.bias][tuple(slice(loops[index].start, loops[index].stop) for index in axes)]
    return total + cut.reshape([len(loops[index]) if index in axes else 1 for index in kind.result.axes])


def _total(
    kind: OperationKind, numbers: Mapping[str, int], arrays: Mapping[str, Floats], loops: Mapping[str, range], blocks: Sequence[Sequence[Place]]
) -> Floats:
    """The sum of its blocks, or the one term; of a mean, divided by the number of its terms."""
    assert kind.meaning.of is not None
    shape = [len(loop) for loop in loops.values()]
    if not kind.meaning.reduction:
        return np.broadcast_to(_terms(kind, numbers, arrays, loops), shape)
    whole = added_up(lambda places: _terms(kind, numbers, arrays, loops, places), blocks, loops)
    if kind.meaning.reduction == "mean":
        whole = whole / np.float32(math.prod(numbers[extent] for extent in kind.meaning.over.values()))
    return np.broadcast_to(whole, shape)


def _terms(
    kind: OperationKind, numbers: Mapping[str, int], arrays: Mapping[str, Floats], loops: Mapping[str, range], places: Sequence[Place] = ()
) -> Floats:
    """The terms at these places, by a first axis; without places the one term."""
    assert kind.meaning.of is not None
    given: Mapping[str, Any] = arrays
    scope = read_all(given, numbers, loops, 0, bool(kind.meaning.outside), places)
    return np.asarray(_value(scope, kind.meaning.of), SINGLE)


def _value(scope: Read, expr: Expr) -> Array:
    """An expression over elements, each operation rounded to float32."""
    match expr:
        case Index():
            return scope.read(expr).array
        case Binary(op="+", left=left, right=right):
            return _value(scope, left) + _value(scope, right)
        case Binary(op="-", left=left, right=right):
            return _value(scope, left) - _value(scope, right)
        case Binary(op="*", left=left, right=right):
            return _value(scope, left) * _value(scope, right)
        case Unary(op="-", value=value):
            return -_value(scope, value)
        case Choose(condition=condition, then=then, other=other):
            return np.where(scope.value(condition, {}) != 0, _value(scope, then), _value(scope, other))
        case Const(value=value):
            return np.full(1, value, SINGLE)
        case _:
            raise refuse("E0919", Why.NO_FLOATS(operation="this part"), expr.span)


def _selected(kind: OperationKind, numbers: Mapping[str, int], arrays: Mapping[str, Array | Sequence[Array]], form: Format) -> Array:
    """Elements as they are, by whole numbers in the same order: NaN above infinity, -0 below 0."""
    select = kind.form == "select"
    given = {
        name: [_ranks(part, select, form) for part in array] if isinstance(array, list) else _ranks(array, select, form)
        for name, array in arrays.items()
    }
    ranks = accumulate(kind, numbers, given)
    return held_of_bits(np.where(ranks < 0, -1 - ranks - (1 << 15), ranks), form)


def _ranks(given: Any, select: bool, form: Format) -> Ints:
    """int64 in the order of the format's values. select: whether they are compared, so that all NaN are one."""
    held = rounded(np.asarray(given), form) if select else np.asarray(given).astype(DTYPES[form], copy=False)
    bits = bits_of_held(held).astype(np.int64)
    return np.where(bits < 0, -1 - (bits & 0x7FFF), bits)
