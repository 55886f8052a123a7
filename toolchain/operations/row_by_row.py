"""Operations that compute each row of their result of the same row of the operands: rows of several images may stand behind each other in one tensor.

Layers of dense networks and of a sequence's words are so, and convolutions of one pixel; windows over rows and attention are not.
"""

from collections.abc import Mapping
from typing import NamedTuple

from toolchain.operations.kind import Operand, OperationKind
from toolchain.operations.operation import PICTURE_AXES, Operation
from toolchain.operations.reads import read_all
from toolchain.spec.expr import Const, Expr, Index, Name, rewrite, walk

IMAGES, ROWS = 0, 2
"""Axes of a picture [batch, channels, height, width]."""


class Places(NamedTuple):
    """Where a tensor's axes of images and of rows stand among its own."""

    images: int
    rows: int


def row_by_row(operation: Operation) -> bool:
    """Whether each row of the result depends on the same row of the operands alone, in the same way as any other row does."""
    kind, numbers = operation.kind, operation.numbers
    tensors = {operand.name: _places(operand) for operand in (*(kind.operand[name] for name in kind.data), kind.result)}
    if not _expressions(kind) or None in tensors.values():
        return False
    known = {name: place for name, place in tensors.items() if place is not None}
    sizes = {tuple(numbers[_operand(kind, name).extents[axis]] for axis in place) for name, place in known.items()}
    return len(sizes) == 1 and all(_keeps(operation, axes, expr, known) for axes, expr in _expressions(kind))


def as_rows(operation: Operation, images: int) -> dict[str, int]:
    """The numbers of an operation `row_by_row` of so many times the rows."""
    rows = {operand.extents[place.rows] for operand in (*operation.kind.operands, operation.kind.result) if (place := _places(operand))}
    return {name: value * images if name in rows else value for name, value in operation.numbers.items()}


def _operand(kind: OperationKind, name: str) -> Operand:
    return kind.result if name == kind.result.name else kind.operand[name]


def _places(operand: Operand) -> Places | None:
    """None for a tensor without rows, or one of many."""
    axes = PICTURE_AXES.get(len(operand.axes), ())
    return Places(axes.index(IMAGES), axes.index(ROWS)) if ROWS in axes and operand.role in ("data", "result") and not operand.many else None


def _expressions(kind: OperationKind) -> tuple[tuple[tuple[str, ...], Expr], ...]:
    """The steps of an operation, in each of its forms, with the indices of their results; none where its description leaves open what it computes."""
    stages = (*kind.meaning.stages, *kind.halves, *(kind.arithmetic.stages if kind.arithmetic else ()))
    own = ((tuple(kind.result.axes), kind.meaning.of),) if kind.meaning.of is not None else ()
    return *own, *((stage.axes, stage.of) for stage in stages)


def _keeps(operation: Operation, axes: tuple[str, ...], expr: Expr, tensors: Mapping[str, Places]) -> bool:
    """Whether an expression reads at its own image and row, and needs them for nothing else. axes: of its result."""
    kind = operation.kind
    own = [list(kind.result.axes)[axis] for axis in tensors[kind.result.name]]
    if not {*own} <= {*axes}:
        return False
    steps = {stage: Places(indices.index(own[0]), indices.index(own[1])) for stage, indices in _steps(kind).items() if {*own} <= {*indices}}
    places, moved = {**steps, **tensors}, list[Index]()

    def without(part: Expr) -> Expr | None:
        if not isinstance(part, Index) or not isinstance(part.base, Name) or part.base.id not in places:
            return None
        place = places[part.base.id]
        if not all(_is(operation, part.index[axis], name) for axis, name in zip(place, own, strict=True)):
            moved.append(part)
        return Index(part.base, tuple(Const(0) if axis in place else each for axis, each in enumerate(part.index)))

    rest = rewrite(expr, without)
    return not moved and not any(isinstance(part, Name) and part.id in own for part in walk(rest))


def _steps(kind: OperationKind) -> dict[str, tuple[str, ...]]:
    """The indices of each step that later ones read."""
    stages = (*kind.meaning.stages, *kind.halves, *(kind.arithmetic.stages if kind.arithmetic else ()))
    return {stage.name: stage.axes for stage in stages}


def _is(operation: Operation, expr: Expr, name: str) -> bool:
    """Whether an index is always the result's: `p * sh + u - pad_top` with a stride of 1, a kernel of one row, and nothing above."""
    if isinstance(expr, Name):
        return expr.id == name
    kind, used = operation.kind, {part.id for part in walk(expr) if isinstance(part, Name)}
    extents = {**kind.indices, **kind.meaning.over}
    if not used & {name}:
        return False
    loops = {index: range(operation.numbers[extent]) for index, extent in extents.items() if index in used}
    scope = read_all({}, operation.numbers, loops, 0, unbounded=True)
    return bool((scope.value(expr, {}) == scope.names[name]).all())
