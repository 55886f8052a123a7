"""Numbers that every kernel may name: the extents of the first operand's and of the result's picture, whatever the operation calls them."""

from collections.abc import Mapping

from toolchain.operations.kind import Operand, OperationKind
from toolchain.operations.operation import PICTURE_AXES
from toolchain.schedule.kernels.affine import ZERO, plus, times
from toolchain.spec.expr import Call, Const, Expr, Name
from toolchain.spec.model.quantisation import Numerics

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


def sum_numbers(kind: OperationKind, numerics: Numerics | None) -> dict[str, Expr]:
    """`sum_least` and `sum_most`: between them are all sums of stored elements by the operation's multipliers. None for other operations, and where
    zero is not stored as zero."""
    if numerics is None or numerics.zero_points or kind.form not in ("average", "aligned"):
        return {}
    low, high = (-128, 127) if numerics.stored == "int8" else (0, 255)
    size: Expr = Const(1)
    for extent in kind.meaning.over.values():
        size = times(size, Name(extent))
    ends = {"sum_least": "min", "sum_most": "max"}
    sums: dict[str, Expr] = dict.fromkeys(ends, ZERO)
    for name in kind.multipliers:
        for end, choose in ends.items():
            reached = Call(Name(choose), (times(Const(low), Name(name)), times(Const(high), Name(name))))
            sums[end] = plus(sums[end], times(size, reached))
    return sums
