"""The numbers of one operation: extents from shapes, attributes by their names, and the extents that follow from both."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from toolchain.operations.kind import Operand, OperationKind
from toolchain.spec.errors import fail
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Compare, Const, Expr, Name, conjuncts

Shape = tuple[int, ...]
Attributes = Mapping[str, Any]
"""The attributes of a call, by name, as ONNX has them: integers, floats, texts, or sequences of these."""


def numbers_of(kind: OperationKind, shapes: Mapping[str, Sequence[int]], attributes: Attributes, name: str = "") -> dict[str, int]:
    """Extents of operands and result, attributes and fixed numbers.

    shapes: of the operands; axes that a tensor lacks at its end have an extent of 1. name: the operation's, for messages.
    Raises UserError E1003 for shapes that do not fit each other, and where nothing is left of the result.
    """
    numbers: dict[str, int] = {}
    for operand in kind.operands:
        if operand.name in shapes:
            _join(numbers, operand, extents_of(operand, shapes[operand.name], name), name)
    numbers |= attribute_numbers(kind, attributes)
    return complete(kind, numbers, name)


def extents_of(operand: Operand, shape: Sequence[int], name: str = "") -> Shape:
    """One extent for each axis. Raises UserError E1003 for a tensor of more axes."""
    if len(shape) > len(operand.axes):
        raise fail("E1003", f"'{operand.name}' of '{name}' has {len(shape)} axes, not {len(operand.axes)}")
    return (*shape, *(1,) * (len(operand.axes) - len(shape)))


def _join(numbers: dict[str, int], operand: Operand, extents: Shape, name: str) -> None:
    for extent, size in zip(operand.extents, extents, strict=True):
        if numbers.setdefault(extent, size) != size:
            raise fail("E1003", f"the shapes of '{name}' do not fit each other: {extent} is {numbers[extent]} and, of '{operand.name}', {size}")


def attribute_numbers(kind: OperationKind, attributes: Attributes) -> dict[str, int]:
    """Attributes of an ONNX call by the names that the operation gives their integers."""
    found: dict[str, int] = {}
    for attribute in kind.attributes:
        if attribute.name in attributes:
            given = attributes[attribute.name]
            values = [bits_of(given) if attribute.real else given] if attribute.single else given
            found |= dict(zip(attribute.numbers, map(int, values), strict=True))
    return found


def bits_of(value: float) -> int:
    """The bits of a float32, as a signed integer: operations and kernels name floating numbers so."""
    return int(np.float32(value).view(np.int32))


def of_bits(bits: int) -> float:
    """The float32 of such bits."""
    return float(np.array([bits], np.int32).view(np.float32)[0])


def complete(kind: OperationKind, numbers: Mapping[str, int], name: str = "") -> dict[str, int]:
    """Numbers with fixed ones and derived extents. Raises UserError E1003 where a check fails or nothing is left of the result."""
    known = {**kind.defaults, **numbers, **kind.fixed}
    low = next((number for each in kind.attributes for number in each.numbers if known.get(number, 0) < 0), None)
    if low is not None:
        raise fail("E1003", f"'{name}' has {low} = {known[low]}, which is below zero")
    for extent, expr in kind.shape.items():
        known[extent] = constant(expr, known)
    for check in kind.checks:
        if not constant(check.that, known):
            raise fail("E1003", f"'{name}': {check.message}", check.that.span)
    empty = next((extent for extent in kind.result.extents if known.get(extent, 1) < 1), None)
    if empty is not None:
        raise fail("E1003", f"'{name}' has no output: {empty} is {known[empty]}")
    return known


def stated_numbers(kind: OperationKind) -> dict[str, int]:
    """The numbers that the checks give outright: of `channels == 128 and kh < 9`, that channels is 128."""
    return dict(pair for check in kind.checks for pair in stated(check.that))


def followed_numbers(kind: OperationKind, numbers: Mapping[str, int]) -> dict[str, int]:
    """The numbers that the checks give by others: of `cells == heads * keys`, how many cells there are."""
    equal = [check.that for check in kind.checks if isinstance(check.that, Compare) and check.that.op == "=="]
    return {e.left.id: constant(e.right, numbers) for e in equal if isinstance(e.left, Name) and not isinstance(e.right, Const)}


def stated(condition: Expr) -> Iterator[tuple[str, int]]:
    """The numbers that a condition gives outright."""
    for part in conjuncts(condition):
        match part:
            case Compare(op="==", left=Name(id=name), right=Const(value=value)) | Compare(op="==", left=Const(value=value), right=Name(id=name)):
                yield name, value
            case _:
                pass


def result_shape(kind: OperationKind, numbers: Mapping[str, int]) -> Shape:
    """The extents of the result."""
    return tuple(numbers[extent] for extent in kind.result.extents)


def macs_of(kind: OperationKind, numbers: Mapping[str, int]) -> int:
    """Multiply-accumulates, those with padding included; 0 for an operation that is no sum of products."""
    return sum(math.prod(numbers[extent] for extent in extents) for extents in kind.products)
