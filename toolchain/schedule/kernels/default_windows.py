"""The window of an operation along one axis, read off its index expression: stride, reach, padding before, extent."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from toolchain.operations.kind import OperationKind
from toolchain.schedule.kernels.affine import ONE, ZERO, minus, plus, times
from toolchain.schedule.kernels.picture_numbers import PICTURE, picture_extents
from toolchain.spec.expr import Binary, Call, Expr, Index, Name, walk


@dataclass
class _Sum:
    """An index as a sum: the factor of each loop, and the rest."""

    factors: dict[str, Expr] = field(default_factory=dict[str, Expr])
    rest: Expr = ZERO


def derived_window(kind: OperationKind, axis: str) -> dict[str, Expr]:
    """`stride`, `reach`, `before` and `extent` of the first operand's axis h or w, as numbers of the operation.

    None where its index is no sum of loops times numbers.
    """
    if not kind.data or kind.meaning.of is None or axis not in PICTURE:
        return {}
    name, extents = kind.data[0], picture_extents(kind.operand[kind.data[0]])
    reads = [e for e in walk(kind.meaning.of) if isinstance(e, Index) and isinstance(e.base, Name) and e.base.id == name]
    places = [number for number, extent in enumerate(kind.operand[name].extents) if extents.get(axis) == Name(extent)]
    indices = [read.index[places[0]] for read in reads] if len(places) == 1 else []
    if not indices or any(index != indices[0] for index in indices):
        return {}
    found = _sum_of(indices[0], {*kind.result.axes, *kind.meaning.over})
    moved = [factor for loop, factor in found.factors.items() if loop in kind.result.axes] if found else []
    if found is None or len(moved) != 1:
        return {}
    reach: Expr = ONE
    for loop, factor in found.factors.items():
        if loop in kind.meaning.over:
            reach = plus(reach, times(Binary("-", Name(kind.meaning.over[loop]), ONE), factor))
    return {"stride": moved[0], "reach": reach, "before": minus(ZERO, found.rest), "extent": extents[axis]}


def folded(window: Mapping[str, Expr], fold: Expr) -> dict[str, Expr]:
    """The window where the layout of the operand puts `fold` rows into one, of which the stride is a multiple: zeros make the first row whole."""
    if fold == ONE or not window:
        return dict(window)

    def up(expr: Expr) -> Expr:
        return Call(Name("ceil_div"), (expr, fold))

    begun = plus(window["reach"], Binary("%", minus(ZERO, window["before"]), fold))
    return {"stride": Binary("//", window["stride"], fold), "reach": up(begun), "before": up(window["before"]), "extent": up(window["extent"])}


def _sum_of(expr: Expr, loops: Iterable[str]) -> _Sum | None:
    """None for anything but sums of loops times numbers."""
    loops = frozenset(loops)
    if not any(isinstance(e, Name) and e.id in loops for e in walk(expr)):
        return _Sum({}, expr)
    match expr:
        case Name(id=name):
            return _Sum({name: ONE})
        case Binary(op="*", left=left, right=right):
            a, b = _sum_of(left, loops), _sum_of(right, loops)
            if a is None or b is None or (a.factors and b.factors):
                return None
            scaled, by = (a, b.rest) if a.factors else (b, a.rest)
            return _Sum({loop: times(factor, by) for loop, factor in scaled.factors.items()}, times(scaled.rest, by))
        case Binary(op="+" | "-" as op, left=left, right=right):
            a, b = _sum_of(left, loops), _sum_of(right, loops)
            if a is None or b is None or a.factors.keys() & b.factors.keys() or (op == "-" and b.factors):
                return None
            return _Sum({**a.factors, **b.factors}, plus(a.rest, b.rest) if op == "+" else minus(a.rest, b.rest))
        case _:
            return None
