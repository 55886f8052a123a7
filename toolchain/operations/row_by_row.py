"""Operations that compute each row of their result of the same row of the operands, or each image of the same image alone: rows of several images may
stand behind each other in one tensor, or images beside each other.

Layers of dense networks and of a sequence's words compute row by row, and convolutions of one pixel; windows over rows and attention do not.
"""

from collections.abc import Mapping, Sequence

from toolchain.operations.kind import Operand, OperationKind, Stage
from toolchain.operations.numbers import complete
from toolchain.operations.operation import PICTURE_AXES, Operation
from toolchain.operations.reads import read_all
from toolchain.spec.errors import UserError
from toolchain.spec.expr import Const, Expr, Index, Name, rewrite, walk

Axes = tuple[int, ...]
"""Axes of a picture [batch, channels, height, width], or the places of the same ones among a tensor's own."""
IMAGES: Axes = (0,)
ROWS: Axes = (0, 2)
"""The axes of images, along the last of which there may be more."""
SEEN = (2, 3)
"""Images that are looked at: of one row alone any stride would do."""


def row_by_row(operation: Operation) -> bool:
    """Whether each row of the result depends on the same row of the operands alone, in the same way as any other row does."""
    return _apart(operation, ROWS)


def image_by_image(operation: Operation) -> bool:
    """Whether each image of the result depends on the same image of the operands alone, in the same way as any other image does."""
    return _apart(operation, IMAGES)


def as_rows(operation: Operation, images: int) -> dict[str, int]:
    """The numbers of an operation `row_by_row` of so many times the rows."""
    return _with_more(operation, images, ROWS)


def of_images(operation: Operation, images: int) -> dict[str, int]:
    """The numbers of an operation `image_by_image` of so many times the images."""
    return _with_more(operation, images, IMAGES)


def _apart(operation: Operation, axes: Axes) -> bool:
    kind, numbers = operation.kind, operation.numbers
    steps, places = _steps(kind), _places_of(kind, axes)
    if not steps or places is None or _elsewhere(kind, axes):
        return False
    alike = {tuple(numbers[_operand(kind, name).extents[axis]] for axis in place) for name, place in places.items()}
    return len(alike) == 1 and all(_holds_for(operation, steps, places, images, axes) for images in SEEN)


def _with_more(operation: Operation, images: int, axes: Axes) -> dict[str, int]:
    more = _extents(operation.kind, axes)
    return {name: value * images if name in more else value for name, value in operation.numbers.items()}


def _operand(kind: OperationKind, name: str) -> Operand:
    return kind.result if name == kind.result.name else kind.operand[name]


def _places(operand: Operand, axes: Axes) -> Axes | None:
    """None for a tensor without such an axis, one of many, and one whose values are known."""
    own = PICTURE_AXES.get(len(operand.axes), ())
    if operand.role not in ("data", "result") or operand.many or not all(axis in own for axis in axes):
        return None
    return tuple(own.index(axis) for axis in axes)


def _places_of(kind: OperationKind, axes: Axes) -> dict[str, Axes] | None:
    """By computed tensor; None where one lacks such an axis."""
    found = {operand.name: _places(operand, axes) for operand in (*(kind.operand[name] for name in kind.data), kind.result)}
    return None if None in found.values() else {name: place for name, place in found.items() if place is not None}


def _extents(kind: OperationKind, axes: Axes) -> set[str]:
    """The names of the extents of the last of these axes."""
    return {operand.extents[place[-1]] for operand in (*kind.operands, kind.result) if (place := _places(operand, axes))}


def _elsewhere(kind: OperationKind, axes: Axes) -> bool:
    """Whether the extent of the last of these axes is that of another one, too."""
    others = [
        extent
        for operand in (*kind.operands, kind.result)
        for axis, extent in enumerate(operand.extents)
        if not ((place := _places(operand, axes)) and axis == place[-1])
    ]
    return bool(_extents(kind, axes) & {*others, *kind.meaning.over.values(), *kind.fixed})


def _steps(kind: OperationKind) -> tuple[Stage, ...]:
    """The steps of an operation in each of its forms; none where its description leaves open what it computes."""
    meaning, own = kind.meaning, kind.arithmetic.stages if kind.arithmetic else ()
    plain = () if meaning.of is None else (Stage(kind.result.name, tuple(kind.result.axes), meaning.reduction, meaning.over, meaning.of),)
    return *plain, *meaning.stages, *kind.halves, *own


def _holds_for(operation: Operation, steps: Sequence[Stage], tensors: Mapping[str, Axes], images: int, axes: Axes) -> bool:
    """Whether the operation of so many times the rows, or images, has as many more of them in its result, each made of its own."""
    kind, numbers = operation.kind, _with_more(operation, images, axes)
    try:
        whole = complete(kind, numbers, operation.name)
    except UserError:
        return False
    own = [list(kind.result.axes)[axis] for axis in tensors[kind.result.name]]
    made = {step.name: tuple(step.axes.index(name) for name in own) for step in steps if {*own} <= {*step.axes}}
    return whole == {**whole, **numbers} and all(_keeps(kind, numbers, step, {**made, **tensors}, own) for step in steps)


def _keeps(kind: OperationKind, numbers: Mapping[str, int], step: Stage, places: Mapping[str, Axes], own: Sequence[str]) -> bool:
    """Whether a step reads at its own indices, and needs them for nothing else. own: the indices."""
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
