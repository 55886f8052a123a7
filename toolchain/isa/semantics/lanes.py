"""Lanes of a value, lanes that a reduction sums over, and the rules for both where the value is written."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from toolchain.isa.semantics import ir
from toolchain.spec import expr as ex
from toolchain.spec.errors import Span, fail
from toolchain.spec.expr import Expr


def lane_names(e: Expr, temps: Collection[str]) -> Iterator[str]:
    """Names that stand in lane subscripts of an expression before it is resolved."""
    for part in ex.walk(e):
        if isinstance(part, ex.Index) and (isinstance(part.base, ex.Index) or (isinstance(part.base, ex.Name) and part.base.id in temps)):
            yield from (lane.id for lane in part.index if isinstance(lane, ex.Name))


def free_lanes(e: Expr) -> list[str]:
    """Lane names an expression depends on, in order of appearance, those summed inside left out."""
    found: dict[str, None] = {}
    match e:
        case ir.Load(access=access) if access.lanes is not None:
            found.update((lane, None) for lane in access.lanes if isinstance(lane, str))
        case ir.Temp(lanes=lanes):
            found.update((lane, None) for lane in lanes)
        case ir.Lane(name=name):
            found[name] = None
        case ir.Reduce(value=value, over=over):
            found.update((lane, None) for lane in free_lanes(value) if lane not in over)
        case _:
            for child in ex.children(e):
                found.update((lane, None) for lane in free_lanes(child))
    return list(found)


def close_reductions(e: Expr, kept: Sequence[str]) -> Expr:
    """Fixes what each reduction sums over: the lanes inside it that the statement does not keep. Raises UserError E0214."""

    def change(inner: Expr) -> Expr | None:
        if not isinstance(inner, ir.Reduce):
            return None
        value = close_reductions(inner.value, kept)
        over = tuple(lane for lane in free_lanes(value) if lane not in kept)
        if not over:
            raise fail("E0214", "this reduces over nothing", inner.span, "every lane inside it is written by the statement, or summed already")
        for lane in (lane for e in ex.walk(value) if isinstance(e, ir.Reduce) for lane in e.over):
            if lane in over:
                raise fail("E0214", f"lane '{lane}' is reduced already inside this", inner.span, "give the inner lane another name")
        return replace(inner, value=value, over=over)

    return ex.rewrite(e, change)


def lane_value(e: Expr, kept: Sequence[str], span: Span) -> Expr:
    """A value written lane by lane: reductions closed, no lane left over, no whole element. Raises UserError E0206, E0214, E0215."""
    closed = close_reductions(e, kept)
    for lane in free_lanes(closed):
        if lane not in kept:
            raise fail("E0206", f"lane '{lane}' is neither written nor reduced", span, f"write it on the left side, or sum over '{lane}'")
    for part in ex.walk(closed):
        if isinstance(part, ir.Load) and part.access.lanes is None:
            raise fail("E0215", f"'{part.access.view.name}' is a whole element here, which can only be copied", part.span, "name its lanes")
    return closed


def copied_value(e: Expr, target: ir.Access) -> Expr:
    """The value of a whole-element copy: elements of the target's size, 0, or a choice of them. Raises UserError E0215."""
    match e:
        case ex.Choose(then=then, other=other):
            copied_value(then, target)
            copied_value(other, target)
        case ir.Load(access=source) if source.lanes is None:
            if source.view.element.bytes != target.view.element.bytes:
                sizes = f"{source.view.element.bytes} bytes of '{source.view.name}' do not fill {target.view.element.bytes} of '{target.view.name}'"
                raise fail("E0215", sizes, e.span, "name the lanes to convert each of them")
        case ex.Const(value=0):
            pass
        case _:
            raise fail(
                "E0215",
                f"'{target.view.name}' takes a whole element or 0 here",
                e.span or target.span,
                "name its lanes to write numbers",
            )
    return e
