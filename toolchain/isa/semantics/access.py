"""`view[index][lanes]`, `view.level(i)[index]`: where an access of the semantics leads, with what it says checked."""

from collections.abc import Callable, Mapping

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.instances import replica_levels, scope_levels, stream_levels
from toolchain.isa.semantics.scope import Scope
from toolchain.spec import expr as ex
from toolchain.spec.errors import Span, fail, nearest
from toolchain.spec.expr import Expr
from toolchain.spec.model import Machine, View

Bound = Mapping[str, Expr]
"""The expressions that the parameters and local names of a function stand for."""

Resolve = Callable[[Expr, "Bound | None"], Expr]


def dotted(e: Expr) -> str:
    """`a.b.c` of a chain of members, or an empty string."""
    if isinstance(e, ex.Name):
        return e.id
    return f"{dotted(e.base)}.{e.name}" if isinstance(e, ex.Member) else ""


def view_of(scope: Scope, e: Expr) -> View | None:
    """The view that an expression indexes, or None."""
    if isinstance(e, ex.Index):
        return view_of(scope, e.base)
    if isinstance(e, ex.Call) and isinstance(e.function, ex.Member):
        return view_of(scope, e.function.base)
    return scope.machine.view.get(dotted(e))


def make_access(scope: Scope, e: ex.Index, scalar: Resolve, bound: Bound | None) -> ir.Access:
    """Resolves an access and adds it to the scope's. Raises UserError E0202, E0206, E0219."""
    base, index, lanes = e.base, e.index, None
    if isinstance(base, ex.Index):
        base, index, lanes = base.base, base.index, e.index
    at: list[tuple[str, Expr]] = []
    while isinstance(base, ex.Call) and isinstance(base.function, ex.Member) and len(base.args) == 1:
        at.insert(0, (base.function.name, scalar(base.args[0], bound)))
        base = base.function.base
    name = dotted(base)
    if name not in scope.machine.view:
        known = scope.machine.view
        raise fail("E0202", f"unknown memory or view '{name}'" if name else "only a memory or a view has elements", e.span, nearest(name, known))
    view = scope.machine.view[name]
    _check(scope.machine, view, index, [level for level, _ in at], e.span)
    where = tuple(scalar(i, bound) for i in index)
    access = ir.Access(len(scope.accesses), view, where, _lanes(scope, view, lanes, scalar, bound, e.span), tuple(at), e.span)
    scope.accesses.append(access)
    return access


def _check(machine: Machine, view: View, index: tuple[Expr, ...], at: list[str], span: Span | None) -> None:
    memory = machine.memory[view.memory]
    wanted = 1 if view.unit or memory.banks == 1 else 2
    if len(index) != wanted:
        raise fail("E0206", f"'{view.name}' takes {'a bank and an address' if wanted == 2 else 'one index'}, not {len(index)} indices", span)
    if not view.unit and view.element.bytes != memory.element.bytes:
        raise fail(
            "E0206", f"an element of '{view.name}' has {view.element.bytes} bytes, one of the banked '{memory.name}' {memory.element.bytes}", span
        )
    scoped = [level.name for level in scope_levels(machine, memory.scope)]
    for level in at:
        if level not in scoped or at.count(level) > 1:
            raise fail("E0202", f"'{memory.name}' has no instances to choose by '{level}'", span, nearest(level, scoped))
    require_place(machine, [level for level in scoped if level not in at], span)


def require_place(machine: Machine, levels: list[str], span: Span | None) -> None:
    """Raises UserError E0219 for a level at which an instruction has no place: below the streams and not in lockstep."""
    own = {level.name for level in (*stream_levels(machine), *replica_levels(machine))}
    for level in levels:
        if level not in own:
            raise fail("E0219", f"an instruction does not run on one {level}", span, f"say which: .{level}(number)")


def _lanes(
    scope: Scope, view: View, lanes: tuple[Expr, ...] | None, scalar: Resolve, bound: Bound | None, span: Span | None
) -> tuple[str | Expr, ...] | None:
    dims = view.element.dims
    if lanes is None:
        return None if dims or view.element.record else ()
    if len(lanes) != len(dims):
        raise fail("E0206", f"an element of '{view.name}' takes {len(dims)} lanes, not {len(lanes)}", span)
    return tuple(_lane(scope, lane, extent, scalar, bound) for lane, extent in zip(lanes, dims, strict=True))


def _lane(scope: Scope, lane: Expr, extent: int, scalar: Resolve, bound: Bound | None) -> str | Expr:
    """A new name is a lane loop; anything else is a fixed lane."""
    if not isinstance(lane, ex.Name) or lane.id in (bound or {}):
        return scalar(lane, bound)
    if lane.id in scope.fields:
        hint = "it is a field: name the lane otherwise, or assign the field to a new name first"
        raise fail("E0205", f"the name '{lane.id}' is taken", lane.span, hint)
    if scope.taken(lane.id):
        return scalar(lane, bound)
    declare_lane(scope, lane.id, extent, lane.span)
    return lane.id


def declare_lane(scope: Scope, name: str, extent: int, span: Span | None) -> None:
    """Gives a lane name its extent. Raises UserError E0206 when it has another one elsewhere."""
    if scope.lanes.setdefault(name, extent) != extent:
        raise fail("E0206", f"lane '{name}' is {scope.lanes[name]} long elsewhere and {extent} here", span, "give it another name")
