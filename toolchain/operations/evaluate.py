"""One integer call of a graph in the reference: operands and attributes as in the ONNX call."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from toolchain.operations.ending import SCALINGS, first_stored, requantised, scaling_of
from toolchain.operations.kind import OperationKind
from toolchain.operations.numbers import extents_of, numbers_of
from toolchain.operations.reference import Ints, accumulate
from toolchain.spec.model.quantisation import Numerics

Array = np.typing.NDArray[Any]
Attributes = Mapping[str, Any]


def evaluate(kind: OperationKind, leaky: bool, attributes: Attributes, operands: Sequence[Array], numerics: Numerics) -> Array:
    """The stored result. operands: as many as the kind has, and what scales each channel where the machine's form has that."""
    if kind.form == "table":
        return np.asarray(operands[1])[operands[0].astype(np.int64) - first_stored(numerics)]
    total = call_sums(kind, attributes, operands)
    shape = _visible(kind, operands[0].ndim, total)
    if kind.copies:
        return (total.reshape(shape) + int(attributes.get(kind.zeros[0], 0) if kind.zeros else 0)).astype(numerics.stored)
    given: Mapping[str, Any] = attributes
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
    numbers |= {name: int(attributes[name]) for name in (*kind.multipliers, "unit") if name in attributes}
    arrays = {name: np.asarray(array).reshape(extents_of(kind.operand[name], array.shape)).astype(np.int64) for name, array in given.items()}
    for name in kind.data:
        arrays[name] = arrays[name] - int(attributes.get(f"zero_{name}", 0))
    if kind.bias:
        arrays[kind.bias] = arrays[kind.bias] << int(attributes["bias_shift"])
    return accumulate(kind, numbers, arrays)


def _visible(kind: OperationKind, axes: int, total: Ints) -> tuple[int, ...]:
    """The shape of the result in the graph: without the axes that the first operand lacks."""
    lacking = kind.operands[0].extents[axes:]
    return tuple(size for extent, size in zip(kind.result.extents, total.shape, strict=True) if extent not in lacking)
