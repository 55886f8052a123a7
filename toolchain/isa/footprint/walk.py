"""Walks an instruction's semantics symbolically: every access with the loops and guards it stands under, all scalars in place.

An address becomes an expression over fields, registers, control memories and loop variables alone. A scalar
that is carried from iteration to iteration becomes a `Fold`. The replica index becomes the variable `@level`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.instances import replica_levels
from toolchain.isa.semantics.traverse import statements
from toolchain.spec import expr as ex
from toolchain.spec.expr import Binary, Choose, Const, Expr, Logic, Unary
from toolchain.spec.model import Machine

Env = Mapping[str, Expr]


@dataclass(frozen=True, slots=True)
class Fold(Expr):
    """The value of `name`, one of `names`, after stepping them all from `inits` by `updates` for var in [start, stop)."""

    var: str
    start: Expr
    stop: Expr
    names: tuple[str, ...]
    inits: tuple[Expr, ...]
    updates: tuple[Expr, ...]
    name: str


@dataclass(frozen=True, slots=True)
class Loop:
    """for var in [start, stop). step: the growth of the address in one iteration, where it is known and the same for all."""

    var: str
    start: Expr
    stop: Expr
    step: Expr | None = None


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on the steps below it: they happen where it is not zero."""

    condition: Expr


Path = tuple[Loop | Guard, ...]


@dataclass(frozen=True, slots=True)
class Occurrence:
    """kind: read | write | fill (a control memory gets `value`) | feed (the read of a fill) | latch | register (one is read).

    target: the access, or the register's name; index: its address with all scalars in place (also of a register).
    value: of a fill, a choice between loads of whole elements and scalars.
    """

    kind: str
    target: ir.Access | str
    index: tuple[Expr, ...]
    at: tuple[tuple[str, Expr], ...]
    path: Path
    value: Expr | None = None


def occurrences(machine: Machine, semantics: ir.Semantics) -> tuple[Occurrence, ...]:
    """Every access, latch and register read, in the order of the text; once where a place is under another's conditions."""
    walker = _Walker(machine)
    walker.block(semantics.body, (), {})
    kept: list[Occurrence] = []
    paths: dict[Occurrence, list[Path]] = {}
    for o in dict.fromkeys(walker.found):
        above = paths.setdefault(replace(o, path=()), [])
        if not any(o.path[: len(path)] == path for path in above):
            above.append(o.path)
            kept.append(o)
    return tuple(kept)


def replica_loops(machine: Machine) -> tuple[Loop, ...]:
    """The lockstep levels as loops."""
    return tuple(Loop(f"@{level.name}", Const(0), Const(level.count)) for level in replica_levels(machine))


@lru_cache(maxsize=1 << 14)
def free_vars(e: Expr) -> frozenset[str]:
    """Variables an expression depends on, also in the addresses of control reads. Kept: nests ask again and again for the same few, and a walk takes
    several times as long as a hash."""
    found, waiting = set[str](), [e]
    while waiting:
        match waiting.pop():
            case ex.Const():
                pass
            case ir.Var(name=name):
                found.add(name)
            case ir.ControlRead(access=access) | ir.Load(access=access):
                waiting += (*access.index, *(v for _, v in access.at))
            case Fold(var=var, names=names, updates=updates) as fold:
                found |= frozenset[str]().union(*map(free_vars, updates)) - {var, *names}
                waiting += (fold.start, fold.stop, *fold.inits)
            case part:
                waiting += ex.children(part)
    return frozenset(found)


class _Walker:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.levels = {level.name for level in replica_levels(machine)}
        self.found: list[Occurrence] = []
        self.fresh = 0

    # statements

    def block(self, stmts: tuple[ir.Stmt, ...], path: Path, env: Env) -> Env:
        for stmt in stmts:
            env = self.statement(stmt, path, env)
        return env

    def statement(self, stmt: ir.Stmt, path: Path, env: Env) -> Env:
        match stmt:
            case ir.Let(name=name, value=value):
                return {**env, name: self.scalar(value, path, env)}
            case ir.If(condition=condition, then=then, other=other):
                return self.branch(self.scalar(condition, path, env), then, other, path, env)
            case ir.For():
                return self.loop(stmt, path, env)
            case ir.SetTemp(value=value):
                self.data(value, path, env)
            case ir.Store(access=access, value=value, accumulate=accumulate):
                self.store(access, value, accumulate, path, env)
            case ir.Latch(register=register, index=index):
                self.found.append(Occurrence("latch", register, (self.scalar(index, path, env),), (), path))
            case _:
                raise TypeError(stmt)
        return env

    def branch(self, condition: Expr, then: tuple[ir.Stmt, ...], other: tuple[ir.Stmt, ...], path: Path, env: Env) -> Env:
        one = self.block(then, (*path, Guard(condition)), env)
        two = self.block(other, (*path, Guard(Unary("not", condition))), env)
        merged = {**two, **one}
        return merged | {n: Choose(condition, one[n], two[n]) for n in one if n in two and one[n] != two[n]}

    def loop(self, stmt: ir.For, path: Path, env: Env) -> Env:
        start, stop = self.scalar(stmt.start, path, env), self.scalar(stmt.stop, path, env)
        inside = (*path, Loop(stmt.var, start, stop))
        carried = tuple(dict.fromkeys(s.name for s in statements(stmt.body) if isinstance(s, ir.Let) and s.carried and s.name in env))
        if not carried:
            after = self.block(stmt.body, inside, env)
            last = {stmt.var: Binary("-", stop, Const(1))}
            return {**env, **{n: self.substitute(v, last) if stmt.var in free_vars(v) else v for n, v in after.items()}}
        fold = self.fold(stmt, start, carried, env)
        named = tuple(zip(carried, fold.names, strict=True))
        self.block(stmt.body, inside, {**env, **{n: replace(fold, stop=ir.Var(stmt.var), name=x) for n, x in named}})
        return {**env, **{n: replace(fold, stop=stop, name=x) for n, x in named}}

    def fold(self, stmt: ir.For, start: Expr, carried: tuple[str, ...], env: Env) -> Fold:
        """The effect of one iteration on the carried scalars, found by walking the body once without recording."""
        self.fresh += 1
        var = f"{stmt.var}#{self.fresh}"
        names = tuple(f"{n}#{self.fresh}" for n in carried)
        mark = len(self.found)
        before = {**env, **dict(zip(carried, map(ir.Var, names), strict=True)), stmt.var: ir.Var(var)}
        after = self.block(stmt.body, (), before)
        del self.found[mark:]
        return Fold(var, start, Const(0), names, tuple(env[n] for n in carried), tuple(after[n] for n in carried), names[0])

    # expressions

    def scalar(self, e: Expr, path: Path, env: Env) -> Expr:
        """The expression with scalars in place; records the registers and control memories that it reads."""
        resolved = self.substitute(e, env)
        self.reads(resolved, path)
        return resolved

    def substitute(self, e: Expr, env: Env) -> Expr:
        def change(inner: Expr) -> Expr | None:
            match inner:
                case ir.Var(name=name):
                    return env.get(name)
                case ir.Place(level=level) if level in self.levels:
                    return ir.Var(f"@{level}")
                case ir.ControlRead(access=access):
                    return replace(inner, access=self.access(access, env))
                case _:
                    return None

        return ex.rewrite(e, change)

    def access(self, access: ir.Access, env: Env) -> ir.Access:
        at = tuple((level, self.substitute(e, env)) for level, e in access.at)
        return replace(access, index=tuple(self.substitute(i, env) for i in access.index), at=at)

    def reads(self, e: Expr, path: Path) -> None:
        """Records control reads and register reads of a resolved expression, lazily."""
        match e:
            case Choose(condition=condition, then=then, other=other):
                self.reads(condition, path)
                self.reads(then, (*path, Guard(condition)))
                self.reads(other, (*path, Guard(Unary("not", condition))))
            case Logic(op=op, values=values):
                for value in values:
                    self.reads(value, path)
                    path = (*path, Guard(value if op == "and" else Unary("not", value)))
            case ir.ControlRead(access=access):
                self.touch("read", access, path)
            case ir.RegisterRead(register=register, index=index):
                self.reads(index, path)
                self.found.append(Occurrence("register", register, (index,), (), path))
            case Fold():
                pass  # its reads were recorded where the temporary is written
            case _:
                for child in ex.children(e):
                    self.reads(child, path)

    def touch(self, kind: str, access: ir.Access, path: Path, value: Expr | None = None) -> None:
        for part in (*access.index, *(e for _, e in access.at)):
            self.reads(part, path)
        self.found.append(Occurrence(kind, access, access.index, access.at, path, value))

    def data(self, e: Expr, path: Path, env: Env) -> None:
        """Records the reads of a data expression; a branch that data decides counts on both sides."""
        match e:
            case ir.Load(access=access):
                self.touch("read", self.access(access, env), path)
                for lane in access.lanes or ():
                    if isinstance(lane, Expr):
                        self.scalar(lane, path, env)
            case Choose(condition=condition, then=then, other=other) if not _holds_data(condition):
                test = self.scalar(condition, path, env)
                self.data(then, (*path, Guard(test)), env)
                self.data(other, (*path, Guard(Unary("not", test))), env)
            case Logic(op=op, values=values):
                for value in values:
                    self.data(value, path, env)
                    if not _holds_data(value):
                        test = self.substitute(value, env)
                        path = (*path, Guard(test if op == "and" else Unary("not", test)))
            case _ if not _holds_data(e):
                self.scalar(e, path, env)
            case _:
                for child in ex.children(e):
                    self.data(child, path, env)

    def store(self, access: ir.Access, value: Expr, accumulate: bool, path: Path, env: Env) -> None:
        self.data(value, path, env)
        for lane in access.lanes or ():
            if isinstance(lane, Expr):
                self.scalar(lane, path, env)
        resolved = self.access(access, env)
        if accumulate:
            self.touch("read", resolved, path)
        self.touch("write", resolved, path)
        if self.machine.memory[access.view.memory].control:
            self.fill(resolved, value, path, env)

    def fill(self, access: ir.Access, value: Expr, path: Path, env: Env) -> None:
        self.found.append(Occurrence("fill", access, access.index, access.at, path, self.source(value, path, env)))

    def source(self, value: Expr, path: Path, env: Env) -> Expr:
        """The value of a fill with its addresses in place; records where it comes from."""
        match value:
            case Choose(condition=condition, then=then, other=other) if not _holds_data(condition):
                test = self.substitute(condition, env)
                yes, no = (*path, Guard(test)), (*path, Guard(Unary("not", test)))
                return Choose(test, self.source(then, yes, env), self.source(other, no, env))
            case ir.Load(access=access):
                resolved = self.access(access, env)
                self.found.append(Occurrence("feed", resolved, resolved.index, resolved.at, path))
                return ir.Load(resolved)
            case _:
                return self.substitute(value, env)


def _holds_data(e: Expr) -> bool:
    return any(ir.is_lane_leaf(inner) for inner in ex.walk(e))
