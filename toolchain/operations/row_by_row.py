"""Operations that compute each row of their result of the same row of the operands: rows of several images may stand behind each other in one tensor.

Layers of dense networks and of a sequence's words are so, and convolutions of one pixel; windows over rows and attention are not.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from toolchain.operations.kind import Operand, OperationKind, Stage
from toolchain.operations.numbers import complete
from toolchain.operations.operation import PICTURE_AXES, Operation
from toolchain.operations.reads import read_all
from toolchain.spec.errors import UserError
from toolchain.spec.expr import Const, Expr, Index, Name, rewrite, walk

IMAGES, ROWS = 0, 2
"""Axes of a picture [batch, channels, height, width]."""
SEEN = (2, 3)
"""Images whose rows are looked at: of one row alone any stride would do."""


class Places(NamedTuple):
    """Where a tensor's axes of images and of rows stand among its own."""

    images: int
    rows: int


def row_by_row(operation: Operation) -> bool:
    """Whether each row of the result depends on the same row of the operands alone, in the same way as any other row does."""
    kind, numbers = operation.kind, operation.numbers
    steps, places = _steps(kind), _places_of(kind)
    if not steps or places is None or _rows_elsewhere(kind):
        return False
    alike = {tuple(numbers[_operand(kind, name).extents[axis]] for axis in place) for name, place in places.items()}
    return len(alike) == 1 and all(_holds_for(operation, steps, places, images) for images in SEEN)


def as_rows(operation: Operation, images: int) -> dict[str, int]:
    """The numbers of an operation `row_by_row` of so many times the rows."""
    rows = _row_extents(operation.kind)
    return {name: value * images if name in rows else value for name, value in operation.numbers.items()}


def _operand(kind: OperationKind, name: str) -> Operand:
    return kind.result if name == kind.result.name else kind.operand[name]


def _places(operand: Operand) -> Places | None:
    """None for a tensor without rows, one of many, and one whose values are known."""
    axes = PICTURE_AXES.get(len(operand.axes), ())
    return Places(axes.index(IMAGES), axes.index(ROWS)) if ROWS in axes and operand.role in ("data", "result") and not operand.many else None


def _places_of(kind: OperationKind) -> dict[str, Places] | None:
    """By computed tensor; None where one has no rows."""
    found = {operand.name: _places(operand) for operand in (*(kind.operand[name] for name in kind.data), kind.result)}
    return None if None in found.values() else {name: place for name, place in found.items() if place is not None}


def _row_extents(kind: OperationKind) -> set[str]:
    return {operand.extents[place.rows] for operand in (*kind.operands, kind.result) if (place := _places(operand))}


def _rows_elsewhere(kind: OperationKind) -> bool:
    """Whether the extent of rows is that of another axis, too."""
    others = [
        extent
        for operand in (*kind.operands, kind.result)
        for axis, extent in enumerate(operand.extents)
        if not ((place := _places(operand)) and axis == place.rows)
    ]
    return bool(_row_extents(kind) & {*others, *kind.meaning.over.values(), *kind.fixed})


def _steps(kind: OperationKind) -> tuple[Stage, ...]:
    """The steps of an operation in each of its forms; none where its description leaves open what it computes."""
    meaning, own = kind.meaning, kind.arithmetic.stages if kind.arithmetic else ()
    plain = () if meaning.of is None else (Stage(kind.result.name, tuple(kind.result.axes), meaning.reduction, meaning.over, meaning.of),)
    return *plain, *meaning.stages, *kind.halves, *own


def _holds_for(operation: Operation, steps: Sequence[Stage], tensors: Mapping[str, Places], images: int) -> bool:
    """Whether the operation of so many times the rows has as many more rows of its result, each made of its own."""
    kind, numbers = operation.kind, as_rows(operation, images)
    try:
        whole = complete(kind, numbers, operation.name)
    except UserError:
        return False
    own = [list(kind.result.axes)[axis] for axis in tensors[kind.result.name]]
    made = {step.name: Places(step.axes.index(own[0]), step.axes.index(own[1])) for step in steps if {*own} <= {*step.axes}}
    return whole == {**whole, **numbers} and all(_keeps(kind, numbers, step, {**made, **tensors}, own) for step in steps)


def _keeps(kind: OperationKind, numbers: Mapping[str, int], step: Stage, places: Mapping[str, Places], own: Sequence[str]) -> bool:
    """Whether a step reads at its own image and row, and needs them for nothing else. own: the indices of both."""
    moved = list[Index]()

    def without(part: Expr) -> Expr | None:
        if not isinstance(part, Index) or not isinstance(part.base, Name) or part.base.id not in places:
            return None
        place = places[part.base.id]
        if not all(_is(kind, numbers, part.index[axis], name) for axis, name in zip(place, own, strict=True)):
            moved.append(part)
        return Index(part.base, tuple(Const(0) if axis in place else each for axis, each in enumerate(part.index)))

    rest = rewrite(step.of, without)
    return {*own} <= {*step.axes} and not moved and not any(isinstance(part, Name) and part.id in own for part in walk(rest))


def _is(kind: OperationKind, numbers: Mapping[str, int], expr: Expr, name: str) -> bool:
    """Whether an index is always the result's: `p * sh + u - pad_top` with a stride of 1, a kernel of one row, and nothing above."""
    if isinstance(expr, Name):
        return expr.id == name
    used = {part.id for part in walk(expr) if isinstance(part, Name)}
    loops = {index: range(numbers[extent]) for index, extent in {**kind.indices, **kind.meaning.over}.items() if index in used}
    scope = read_all({}, numbers, loops, 0, unbounded=True)
    return name in used and bool((scope.value(expr, {}) == scope.names[name]).all())
