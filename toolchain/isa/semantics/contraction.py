"""Finds matrix products in an instruction: loops around `X[..][(b,) o] += dot(A[..][(b,) c], B[..][o, c])`.

Two shapes. *Temporary*: a lane temporary is set, summed into by inner loops (behind guards that skip), then used; the loops
outside the temporary's life are in any order. *Memory*: the sum goes straight to a memory; since the addition wraps (or
provably fits) all its loops may be interchanged. No engine or machine is named here.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.traverse import access_mentions, inline, inline_access, mentions, statements
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr
from toolchain.spec.model import Machine


@dataclass(frozen=True)
class Contraction:
    """A matrix product, its addresses free of local names: they mention loop variables, and values fixed outside the loops.

    loop: the outermost statement it covers. outer: the loops around one sum (temporary) or all loops (memory), outermost
    first; inner: the reduction loops (temporary only). Every bound is free of these loops' variables.
    a, b: the two factors; a has the lanes `pixel_lanes + sum_lanes` in some order, b has `group_lanes + sum_lanes`.
    target: the memory element summed into, or the temporary. when: conditions, fixed outside the loops, that select this sum;
    with another outcome `loop` has another effect. guards: a product counts only where all hold.
    before, after: the statements around the reduction in the body of the innermost outer loop (temporary only).
    lets: the local names that `outer`'s bodies set on the way, outermost first.
    """

    loop: ir.For
    outer: tuple[ir.For, ...]
    inner: tuple[ir.For, ...]
    a: ir.Access
    b: ir.Access
    target: ir.Access | str
    sum_lanes: tuple[str, ...]
    pixel_lanes: tuple[str, ...]
    group_lanes: tuple[str, ...]
    when: tuple[tuple[Expr, bool], ...]
    guards: tuple[Expr, ...]
    lets: tuple[ir.Let, ...]
    before: tuple[ir.Stmt, ...] = ()
    after: tuple[ir.Stmt, ...] = ()

    @property
    def pixel_loops(self) -> tuple[ir.For, ...]:
        """Outer loops that do not move B: its elements are used again for each of their iterations."""
        return tuple(f for f in self.outer if not access_mentions(self.b, [f.var]))

    @property
    def group_loops(self) -> tuple[ir.For, ...]:
        """Outer loops that move B only, neither A nor a guard: A's elements are used again."""
        return tuple(f for f in self.outer if access_mentions(self.b, [f.var]) and not self._moves_a(f.var))

    @property
    def serial_loops(self) -> tuple[ir.For, ...]:
        """Outer loops that move both."""
        return tuple(f for f in self.outer if access_mentions(self.b, [f.var]) and self._moves_a(f.var))

    def _moves_a(self, var: str) -> bool:
        return access_mentions(self.a, [var]) or any(mentions(guard, [var]) for guard in self.guards)


def find_contractions(machine: Machine, semantics: ir.Semantics) -> tuple[Contraction, ...]:
    """Every contraction of an instruction that may be reordered, in the order of the text."""
    in_place = machine.instruction[semantics.instruction].in_place
    found = (_match(loop) for loop in _outermost(semantics.body))
    return tuple(c for c in found if c and _legal(machine, semantics, c, in_place))


def written_memories(body: tuple[ir.Stmt, ...]) -> frozenset[str]:
    """The memories that statements store to."""
    return frozenset(s.access.view.memory for s in statements(body) if isinstance(s, ir.Store))


def _outermost(body: tuple[ir.Stmt, ...]) -> Iterator[ir.For]:
    """Loops to try, none inside one that matches."""
    for stmt in body:
        match stmt:
            case ir.For(body=inner):
                yield stmt
                if _match(stmt) is None:
                    yield from _outermost(inner)
            case ir.If(then=then, other=other):
                yield from _outermost((*then, *other))
            case _:
                pass


@dataclass
class _Path:
    """The statements that a walk from the outermost loop down to the sum has met."""

    outer: list[ir.For]
    inner: list[ir.For]
    lets: list[ir.Let]
    when: list[tuple[Expr, bool]]
    guards: list[Expr]

    def value(self, e: Expr) -> Expr:
        """Free of local names."""
        values: dict[str, Expr] = {}
        for let in self.lets:
            values[let.name] = inline(let.value, values)
        return inline(e, values)

    def access(self, access: ir.Access) -> ir.Access:
        values: dict[str, Expr] = {}
        for let in self.lets:
            values[let.name] = inline(let.value, values)
        return inline_access(access, values)

    def fixed(self, e: Expr) -> bool:
        """Whether no loop met so far moves the expression."""
        return not mentions(self.value(e), [f.var for f in (*self.outer, *self.inner)])


def _match(loop: ir.For) -> Contraction | None:
    path = _Path([], [], [], [], [])
    block: tuple[ir.Stmt, ...] = (loop,)
    while True:
        rest = _skip_lets(block, path)
        if rest is None:
            return None
        match rest:
            case (ir.For() as inside,) if path.fixed(inside.start) and path.fixed(inside.stop):
                path.outer.append(inside)
                block = inside.body
            case (ir.If(condition=condition, then=then, other=other),) if path.fixed(condition):
                side = any(_product(s) for s in statements(then))
                path.when.append((path.value(condition), side))
                block = then if side else other
            case (ir.Store(access=access, accumulate=True) as store,):
                return _build(loop, path, store, access, (), ())
            case _:
                return _temporary(loop, path, block)


def _skip_lets(block: tuple[ir.Stmt, ...], path: _Path) -> tuple[ir.Stmt, ...] | None:
    """The statements after the leading local names; None where one carries a value from one iteration to the next."""
    count = next((i for i, s in enumerate(block) if not isinstance(s, ir.Let)), len(block))
    lets = [s for s in block[:count] if isinstance(s, ir.Let)]
    if any(let.carried for let in lets):
        return None
    if len(block) - count == 1 and not isinstance(block[count], ir.SetTemp):
        path.lets.extend(lets)
    return block[count:]


def _temporary(loop: ir.For, path: _Path, block: tuple[ir.Stmt, ...]) -> Contraction | None:
    sums = [
        (i, s) for i, stmt in enumerate(block) if isinstance(stmt, ir.For) for s in statements((stmt,)) if isinstance(s, ir.SetTemp) and s.accumulate
    ]
    if len(sums) != 1:
        return None
    at, accumulate = sums[0]
    before, after = block[:at], block[at + 1 :]
    if any(not isinstance(s, ir.Let | ir.SetTemp) or (isinstance(s, ir.Let) and s.carried) for s in before):
        return None
    if not any(isinstance(s, ir.SetTemp) and s.name == accumulate.name and not s.accumulate for s in before):
        return None
    path.lets.extend(s for s in before if isinstance(s, ir.Let))
    reached = _reduction(block[at], path)
    return _build(loop, path, accumulate, accumulate.name, before, after) if reached is accumulate else None


def _reduction(stmt: ir.Stmt, path: _Path) -> ir.Stmt | None:
    """Follows loops and guards, one inside the other, down to the statement that sums."""
    while True:
        match stmt:
            case ir.For(start=start, stop=stop, body=body) if path.fixed(start) and path.fixed(stop):
                path.inner.append(stmt)
            case ir.If(condition=condition, then=body, other=()):
                path.guards.append(path.value(condition))
            case _:
                return stmt
        lets = [s for s in body[:-1] if isinstance(s, ir.Let) and not s.carried]
        if not body or len(lets) != len(body) - 1:
            return None
        path.lets.extend(lets)
        stmt = body[-1]


def _product(stmt: ir.Stmt) -> tuple[ir.Load, ir.Load, tuple[str, ...]] | None:
    """The factors and the summed lanes of a statement `X += dot(...)`."""
    match stmt:
        case ir.SetTemp(value=value, accumulate=True) | ir.Store(value=value, accumulate=True):
            match value:
                case ir.Reduce(op="+", value=ex.Binary(op="*", left=ir.Load() as left, right=ir.Load() as right), over=over) if over:
                    return left, right, over
                case _:
                    return None
        case _:
            return None


def _build(
    loop: ir.For, path: _Path, stmt: ir.Stmt, target: ir.Access | str, before: tuple[ir.Stmt, ...], after: tuple[ir.Stmt, ...]
) -> Contraction | None:
    product = _product(stmt)
    if product is None:
        return None
    left, right, over = product
    kept = stmt.lanes if isinstance(stmt, ir.SetTemp) else target.lanes if isinstance(target, ir.Access) else None
    a_lanes, b_lanes = _names(left.access), _names(right.access)
    if a_lanes is None or b_lanes is None or kept is None or not all(isinstance(lane, str) for lane in kept):
        return None
    a, b = left.access, right.access
    if not set(b_lanes) - set(over):
        a, b, a_lanes, b_lanes = b, a, b_lanes, a_lanes
    pixel, group = tuple(x for x in a_lanes if x not in over), tuple(x for x in b_lanes if x not in over)
    shared = set(pixel) & set(group)
    if shared or not group or not set(over) <= set(a_lanes) or not set(over) <= set(b_lanes) or sorted((*pixel, *group)) != sorted(map(str, kept)):
        return None
    return Contraction(
        loop, tuple(path.outer), tuple(path.inner), path.access(a), path.access(b), path.access(target) if isinstance(target, ir.Access) else target,
        over, pixel, group, tuple(path.when), tuple(path.guards), tuple(path.lets), before, after,
    )  # fmt: skip


def _names(access: ir.Access) -> tuple[str, ...] | None:
    names = tuple(lane for lane in access.lanes or () if isinstance(lane, str))
    return names if access.lanes and len(names) == len(access.lanes) else None


def _legal(machine: Machine, semantics: ir.Semantics, c: Contraction, in_place: bool) -> bool:
    """Whether the products may be summed, and the sums finished, in any order.

    An instruction that is not `in_place` never reads an element that another of its iterations wrote: such a program is refused.
    """
    written = written_memories((c.loop,))
    factors = {c.a.view.memory, c.b.view.memory}
    if isinstance(c.target, ir.Access):
        return not factors & written and machine.memory[c.target.view.memory].overflow != "saturate"
    read = {e.access.view.memory for s in (*c.before, *c.after) for e in _loads(s)} | factors
    return semantics.temps[c.target].overflow != "saturate" and not (in_place and read & written)


def _loads(stmt: ir.Stmt) -> Iterator[ir.Load]:
    if isinstance(stmt, ir.SetTemp | ir.Store):
        yield from (e for e in ex.walk(stmt.value) if isinstance(e, ir.Load))
