"""Evaluate an operation in numpy's integers, straight from its index expression.

Shares no code and no arithmetic with the ONNX bodies. Every array is int64 inside; products run through float64 matrix products, exact below 2**53.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from toolchain.operations.ending import SCALINGS, first_stored, requantised, scaling_of
from toolchain.operations.kind import OperationKind
from toolchain.operations.numbers import Attributes, extents_of, numbers_of
from toolchain.operations.reads import Read, in_parts, read_all
from toolchain.operations.whole import evaluate_arithmetic
from toolchain.spec.arrays import Array, Ints
from toolchain.spec.expr import Binary, Choose, Expr, Index, Name, walk
from toolchain.spec.model.quantisation import Numerics

MOST = 1 << 25
"""Elements of one operand that are laid out at once; a larger computation goes in parts."""
LEAST = -(1 << 40)
"""Stands for less than any element."""
Operands = Mapping[str, Sequence[Ints]]


def accumulate(kind: OperationKind, numbers: Mapping[str, int], operands: Mapping[str, Array | Sequence[Array]]) -> Ints:
    """The exact int64 result before any bias is scaled, requantised or clipped; shape: of the result.

    operands: an array, or a sequence of arrays for one that stands for many, of as many axes as declared; bias at the sum's own position.
    """
    if kind.meaning.join:
        return np.concatenate([np.asarray(part, np.int64) for part in operands[kind.meaning.join]], numbers.get("axis", 1))
    arrays = {name: np.asarray(array, np.int64) for name, array in operands.items()}
    if kind.arithmetic:
        own = evaluate_arithmetic(kind, numbers, arrays)
        return own + _along(kind, arrays[kind.bias]) if kind.bias else own
    job = _Computation(kind, numbers, arrays)
    total = in_parts(_loops(kind, numbers), list(kind.result.axes), lambda loops: _elements(job, loops) <= MOST, partial(_whole, job))
    if kind.meaning.reduction == "mean":
        total = total * numbers["multiply"]
    return total + _along(kind, arrays[kind.bias]) if kind.bias else total


def _along(kind: OperationKind, bias: Ints) -> Ints:
    """The bias along its axis of the result."""
    axes = kind.operand[kind.bias].axes
    return bias.reshape([len(bias) if index in axes else 1 for index in kind.result.axes])


def _loops(kind: OperationKind, numbers: Mapping[str, int]) -> dict[str, range]:
    """Every axis of the result, then the reduced ones."""
    extents = {**kind.result.axes, **kind.meaning.over}
    return {index: range(numbers[extent]) for index, extent in extents.items()}


@dataclass(frozen=True)
class _Computation:
    kind: OperationKind
    numbers: Mapping[str, int]
    arrays: Mapping[str, Ints]

    @property
    def outer(self) -> int:
        """Axes of the result."""
        return len(self.kind.result.axes)


def _elements(job: _Computation, loops: Mapping[str, range]) -> int:
    """Elements of the largest operand as it is laid out over the loops."""
    assert job.kind.meaning.of is not None
    used = [{e.id for e in walk(read) if isinstance(e, Name)} for read in _reads(job.kind, job.kind.meaning.of)]
    return max((math.prod(len(loop) for name, loop in loops.items() if name in names) for names in used), default=1)


def _reads(kind: OperationKind, expr: Expr) -> list[Index]:
    return [e for e in walk(expr) if isinstance(e, Index) and isinstance(e.base, Name) and e.base.id in kind.operand]


def _whole(job: _Computation, loops: Mapping[str, range]) -> Ints:
    meaning, outer = job.kind.meaning, job.outer
    assert meaning.of is not None
    scope = read_all(job.arrays, job.numbers, loops, LEAST if meaning.outside == "least" else 0, bool(meaning.outside))
    product = _product(job.kind)
    if product is not None:
        reads = [scope.read(part) for part in product.reads]
        if product.condition is not None:
            reads[0] = reads[0].where(scope.value(product.condition, {}))
        return contract(reads[0].array, reads[1].array, outer, [len(loop) for loop in loops.values()])
    values = _element(job, meaning.of, scope)
    full = np.broadcast_to(values, [len(loop) for loop in loops.values()])
    axes = tuple(range(outer, full.ndim))
    if meaning.reduction in ("max", "min"):
        return np.asarray(full.max(axes) if meaning.reduction == "max" else full.min(axes))
    return full.sum(axes) if axes else np.array(full)


@dataclass(frozen=True)
class Product:
    """A sum of products of two elements: reads of two operands, and where the product counts."""

    reads: tuple[Index, Index]
    condition: Expr | None


def _product(kind: OperationKind) -> Product | None:
    """None for a meaning that is no sum of products."""
    of = kind.meaning.of
    inner = of.then if isinstance(of, Choose) and kind.factor is not None else of
    match inner:
        case Binary(op="*", left=Index() as left, right=Index() as right) if kind.meaning.reduction == "sum":
            return Product((left, right), kind.factor)
        case _:
            return None


def _element(job: _Computation, expr: Expr, scope: Read) -> Ints:
    """The expression over all loops, the summands by their multipliers."""
    if job.kind.form == "aligned":
        total = np.zeros((), np.int64)
        for term in job.kind.terms:
            total = total + term.sign * job.numbers[f"multiply_{term.operand}"] * scope.value(*scope.opened(term.of))
        return total
    return scope.value(*scope.opened(expr))


def contract(a: Ints, b: Ints, outer: int, sizes: Sequence[int]) -> Ints:
    """The sum of a * b over all axes behind the first `outer` ones. Both have an axis of extent 1 where they do not vary.

    Exact where no sum passes 2**53.
    """
    axes = range(len(sizes))
    a, b = (_summed(array, other, outer) for array, other in ((a, b), (b, a)))
    both = [k for k in range(outer) if a.shape[k] > 1 and b.shape[k] > 1]
    left = [k for k in range(outer) if k not in both and a.shape[k] > 1]
    right = [k for k in range(outer) if k not in both and k not in left]
    inner = [k for k in axes if k >= outer]
    shape = [sizes[k] for k in (*both, *left, *right)]
    batch, rows, columns = (math.prod(sizes[k] for k in part) for part in (both, left, right))
    first = a.transpose(*both, *left, *right, *inner).reshape(batch, rows, -1).astype(np.float64)
    second = np.broadcast_to(b, [sizes[k] if k in (*both, *right) else b.shape[k] for k in axes])
    second = second.transpose(*both, *right, *left, *inner).reshape(batch, columns, -1).astype(np.float64)
    found = (first @ second.transpose(0, 2, 1)).reshape(shape)
    order = np.argsort([*both, *left, *right])
    return found.transpose(order).astype(np.int64)


def _summed(array: Ints, other: Ints, outer: int) -> Ints:
    """Summed over the reduced axes along which it varies alone."""
    alone = tuple(k for k in range(outer, array.ndim) if array.shape[k] > 1 and other.shape[k] == 1)
    return array.sum(alone, keepdims=True) if alone else array


def evaluate(kind: OperationKind, leaky: bool, attributes: Attributes, operands: Sequence[Array], numerics: Numerics) -> Array:
    """The stored result of one integer call. operands: the kind's, then the scales of each channel where the machine's form has them."""
    if kind.form == "table":
        return np.asarray(operands[1])[operands[0].astype(np.int64) - first_stored(numerics)]
    total = call_sums(kind, attributes, operands)
    shape = visible(kind, operands[0].ndim, total)
    if kind.copies:
        return (total.reshape(shape) + int(attributes.get(kind.zeros[0], 0) if kind.zeros else 0)).astype(numerics.stored)
    given: Attributes = attributes
    if kind.bias and (own := operands[len(kind.operands) :]):
        given = {name: part.reshape(_column(kind, total)) for name, part in zip(SCALINGS[numerics.form], own, strict=True)}
    return requantised(total, scaling_of(given), leaky, attributes, numerics).reshape(shape)


def _column(kind: OperationKind, total: Ints) -> list[int]:
    """The shape in which one number for each row of the weights meets the sums."""
    rows = kind.operand[kind.bias].axes
    return [size if index in rows else 1 for index, size in zip(kind.result.axes, total.shape, strict=True)]


def call_sums(kind: OperationKind, attributes: Attributes, operands: Sequence[Array]) -> Ints:
    """The exact sums of a call, of as many axes as the kind declares; operands less their zeros, the bias scaled and included."""
    if kind.meaning.join:
        return accumulate(kind, {"axis": int(attributes["axis"])}, {kind.meaning.join: list(operands)})
    given = dict(zip((each.name for each in kind.operands), operands, strict=False))
    numbers = numbers_of(kind, {name: array.shape for name, array in given.items()}, attributes)
    numbers |= {name: int(attributes[name]) for name in (*kind.multipliers, *kind.constants, "unit") if name in attributes}
    arrays = {name: np.asarray(array).reshape(extents_of(kind.operand[name], array.shape)).astype(np.int64) for name, array in given.items()}
    for name in kind.data:
        arrays[name] = arrays[name] - int(attributes.get(f"zero_{name}", 0))
    if kind.bias:
        arrays[kind.bias] = arrays[kind.bias] << int(attributes["bias_shift"])
    return accumulate(kind, numbers, arrays)


def visible(kind: OperationKind, axes: int, total: Array) -> tuple[int, ...]:
    """The shape of the result in the graph: without the axes that the first operand lacks."""
    lacking = kind.operands[0].extents[axes:]
    return tuple(size for extent, size in zip(kind.result.extents, total.shape, strict=True) if extent not in lacking)
