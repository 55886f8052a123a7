"""Names, lanes and accesses of an instruction whose text is read: which names are taken and assigned, the lanes of values and of
reductions, and where `view[index][lanes]` and `view.level(i)[index]` lead.
"""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.instances import replica_levels, scope_levels, stream_levels
from toolchain.spec import expr as ex
from toolchain.spec.errors import Span, fail, nearest
from toolchain.spec.expr import Expr
from toolchain.spec.model import Instruction, Machine, View


@dataclass
class Variable:
    """A scalar by its unique name in the IR. depth: the outermost loop depth at which it is assigned."""

    unique: str
    depth: int


@dataclass
class Scope:
    """Names, lanes and accesses of one instruction while its text is read, top to bottom. assigned: on every path so far.

    arguments: of the procedure whose statements are being read.
    """

    machine: Machine
    instruction: Instruction
    loops: dict[str, str] = field(default_factory=dict[str, str])
    lets: dict[str, Variable] = field(default_factory=dict[str, Variable])
    records: dict[str, ir.Access] = field(default_factory=dict[str, ir.Access])
    temps: dict[str, ir.TempType] = field(default_factory=dict[str, ir.TempType])
    lanes: dict[str, int] = field(default_factory=dict[str, int])
    accesses: list[ir.Access] = field(default_factory=list[ir.Access])
    arguments: Mapping[str, Expr] = field(default_factory=dict[str, Expr])
    assigned: frozenset[str] = frozenset()
    depth: int = 0
    used: set[str] = field(default_factory=set[str])
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def fields(self) -> list[str]:
        return [f.name for f in self.instruction.fields]

    def taken(self, name: str) -> bool:
        """Whether a name of the machine or of the instruction stands for something already."""
        machine = self.machine
        fixed = name in machine.params or name in machine.memory or any(level.name == name for level in machine.levels)
        return (
            fixed
            or name in self.arguments
            or name in self.fields
            or name in self.loops
            or name in self.lets
            or name in self.temps
            or name in self.records
        )

    def require_new(self, name: str, span: Span, what: str = "loop, lane and local names must be new") -> None:
        """Raises UserError E0205 for a name that stands for something already."""
        if self.taken(name) or name in self.lanes:
            raise fail("E0205", f"the name '{name}' is taken", span, what)

    def unique(self, name: str) -> str:
        """A name that no other variable of the instruction has."""
        base = name
        while name in self.used or name in self.fields or name in self.machine.params or name in self.machine.memory:
            name = f"{base}_{next(self.numbers)}"
        self.used.add(name)
        return name

    def assign(self, name: str) -> None:
        self.assigned |= {name}

    def require_assigned(self, name: str, span: Span | None) -> None:
        """Raises UserError E0213 where some path reaches this place without assigning the name."""
        if name not in self.assigned:
            raise fail("E0213", f"'{name}' may be used before it is assigned", span, "assign it before the loop or branch as well")

    def let(self, name: str, span: Span) -> tuple[str, bool]:
        """Assigns a scalar here: (its unique name, whether an iteration hands it to the next)."""
        if name not in self.lets:
            self.require_new(name, span)
            self.lets[name] = Variable(self.unique(name), self.depth)
        variable = self.lets[name]
        carried = name in self.assigned and variable.depth < self.depth
        variable.depth = min(variable.depth, self.depth)
        self.assign(name)
        return variable.unique, carried

    def candidates(self) -> list[str]:
        """Every name that could stand in an expression, for suggestions."""
        machine = self.machine
        levels = [level.name for level in machine.levels]
        return [
            *self.arguments,
            *self.loops,
            *self.lets,
            *self.temps,
            *self.records,
            *self.fields,
            *machine.params,
            *machine.view,
            *machine.memory,
            *levels,
        ]


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
            if isinstance(e, ir.Lookup):
                found.update((lane, None) for lane in free_lanes(e.position))
        case _:
            for child in ex.children(e):
                found.update((lane, None) for lane in free_lanes(child))
    return list(found)


def close_reductions(e: Expr, kept: Sequence[str]) -> Expr:
    """Fixes the lanes that each reduction sums over: those inside it that the statement does not keep. Raises UserError E0214."""

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
        return _closed_lookup(inner, value, over, kept) if isinstance(inner, ir.Lookup) else replace(inner, value=value, over=over)

    return ex.rewrite(e, change)


def _closed_lookup(e: ir.Lookup, value: Expr, over: tuple[str, ...], kept: Sequence[str]) -> ir.Lookup:
    if len(over) > 1:
        raise fail("E0214", f"this looks up one lane, not {' and '.join(over)}", e.span, "the statement writes all lanes of the table but one")
    return replace(e, value=value, over=over, position=close_reductions(e.position, kept))


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
    if lane.id in scope.fields and lane.id not in scope.arguments:
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
