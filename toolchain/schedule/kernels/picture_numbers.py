"""Numbers that every kernel may name: the extents of the first operand's and of the result's picture, whatever the operation calls them."""

from collections.abc import Mapping

from toolchain.operations.kind import Operand, OperationKind
from toolchain.operations.operation import PICTURE_AXES
from toolchain.spec.expr import Const, Expr, Name

PICTURE = "nchw"
"""The axes of a tensor that operations pass on."""
GIVEN = {"batch": "n", "in_channels": "c", "height": "h", "width": "w"}
MADE = {"out_channels": "c", "out_height": "h", "out_width": "w"}


def picture_extents(operand: Operand) -> dict[str, Expr]:
    """By axis of a picture, the number that says its extent; 1 for an axis that the tensor lacks, none where it has other axes."""
    axes = PICTURE_AXES.get(len(operand.axes))
    if axes is None or operand.many:
        return {}
    named: dict[str, Expr] = {PICTURE[axis]: Name(extent) for axis, extent in zip(axes, operand.extents, strict=True)}
    return {axis: named.get(axis, Const(1)) for axis in PICTURE}


def picture_numbers(kind: OperationKind) -> dict[str, Expr]:
    """The numbers by name, without those that the operation has itself."""
    given = picture_extents(kind.operand[kind.data[0]]) if kind.data else {}
    made = picture_extents(kind.result)
    found: Mapping[str, Expr] = {name: extents[axis] for names, extents in ((GIVEN, given), (MADE, made)) if extents for name, axis in names.items()}
    return {name: expr for name, expr in found.items() if name not in kind.numbers}
