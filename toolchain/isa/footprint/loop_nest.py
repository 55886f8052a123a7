"""Projects an occurrence onto the loops that its address uses: the least nest that touches the same elements.

Loops that only guards use become an `Exists`; unused loops leave the condition that they run at all. Guards
move up to where their variables are known. The lockstep replicas are the innermost loops. The iterations of a pipelined
instruction are its steps: which accesses take part in them, and the step of each iteration.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from toolchain.isa.footprint.walk import Guard, Loop, Occurrence, Path, free_vars, occurrences, replica_loops
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.instances import replica_levels, scope_levels
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec.errors import Diagnostic
from toolchain.spec.expr import Binary, Choose, Compare, Const, Expr, Unary, conjuncts
from toolchain.spec.fingerprint import MeaningKey
from toolchain.spec.model import Instruction, Machine


@dataclass(frozen=True, slots=True)
class Exists(Expr):
    """1 when some combination of the loops meets every condition."""

    loops: tuple[Loop, ...]
    conditions: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Nest:
    """The projected loops and guards of one occurrence, outermost first. instance: of its memory, by level.

    replicas: how many lockstep replicas make this access besides those the nest loops over (1 where it loops or shares).
    """

    occurrence: Occurrence
    path: Path
    instance: Expr
    replicas: int = 1

    @property
    def access(self) -> ir.Access:
        assert isinstance(self.occurrence.target, ir.Access)
        return self.occurrence.target


def machine_nests(machine: Machine) -> Mapping[str, tuple[Nest, ...]]:
    """The nests of every instruction, by its name; found once for all machines that differ in prices alone."""
    return _machine_nests(MeaningKey(machine))[0]


def memories_alike(machine: Machine) -> frozenset[str]:
    """The memories whose runs are given for the first replica only."""
    return _machine_nests(MeaningKey(machine))[1]


@functools.lru_cache(maxsize=128)
def _machine_nests(key: MeaningKey) -> tuple[Mapping[str, tuple[Nest, ...]], frozenset[str]]:
    machine = key.machine
    found = {name: occurrences(machine, semantics) for name, semantics in machine_semantics(machine).items()}
    alike = uniform_memories(machine, [o for each in found.values() for o in each])
    return MappingProxyType({name: tuple(dict.fromkeys(project(machine, o, alike) for o in each)) for name, each in found.items()}), alike


def uniform_memories(machine: Machine, found: Iterable[Occurrence]) -> frozenset[str]:
    """Memories with one instance a replica, where every replica only ever touches its own, at the same addresses.

    Footprints give the first replica's for all.
    """
    levels = {level.name for level in replica_levels(machine)}
    names = {m.name for m in machine.memories if levels & {level.name for level in scope_levels(machine, m.scope)}}
    variables = {loop.var for loop in replica_loops(machine)}
    for o in found:
        if isinstance(o.target, ir.Access) and (o.at or variables & used(o)):
            names.discard(o.target.view.memory)
    return frozenset(names)


def used(o: Occurrence) -> frozenset[str]:
    """Every variable in the address, the guards and the bounds of an occurrence."""
    parts: list[Expr] = [*o.index, *(e for _, e in o.at)]
    for item in o.path:
        parts += [item.condition] if isinstance(item, Guard) else [item.start, item.stop]
    return frozenset[str]().union(*map(free_vars, parts))


def instance_of(machine: Machine, scope: str, at: Mapping[str, Expr], uniform: bool) -> Expr:
    """The number of the instance, as an expression of the place; the first replica's where all are alike."""
    number: Expr = Const(0)
    inner = {level.name for level in replica_levels(machine)}
    for level in scope_levels(machine, scope):
        own: Expr = at[level.name] if level.name in at else ir.Place(level.name)
        if level.name in inner and level.name not in at:
            own = Const(0) if uniform else ir.Var(f"@{level.name}")
        number = own if number == Const(0) else Binary("+", Binary("*", number, Const(level.count)), own)
    return number


def project(machine: Machine, o: Occurrence, uniform: frozenset[str], also: frozenset[str] = frozenset()) -> Nest:
    """The least nest of an occurrence that keeps the loops of `also`."""
    alike, instance = False, Const(0)
    if isinstance(o.target, ir.Access):
        memory = machine.memory[o.target.view.memory]
        alike = memory.name in uniform
        instance = instance_of(machine, memory.scope, dict(o.at), alike)
    path = (*o.path, *replica_loops(machine))
    loops = {item.var: item for item in path if isinstance(item, Loop)}
    value = () if o.value is None else (o.value,)
    needed = closure(also.union(*map(free_vars, (*o.index, *value, instance, *(e for _, e in o.at)))), loops)
    conditions = list(existential(path, loops, needed))
    kept = [item for item in path if isinstance(item, Loop) and item.var in needed]
    replicas = 1
    if alike:
        for level in replica_levels(machine):
            replicas *= level.count
    if o.kind in ("read", "write", "feed"):
        kept = regular_last(kept, conditions, o, instance)
    return Nest(o, stepped(scheduled(kept, conditions), o, instance), instance, replicas)


def closure(names: frozenset[str], loops: Mapping[str, Loop]) -> frozenset[str]:
    """The loops that these variables and their bounds need."""
    found = set[str]()
    waiting = names & loops.keys()
    while waiting:
        found |= waiting
        waiting = frozenset[str]().union(*(free_vars(loops[n].start) | free_vars(loops[n].stop) for n in waiting)) & loops.keys() - found
    return frozenset(found)


def existential(path: Path, loops: Mapping[str, Loop], needed: frozenset[str]) -> Iterator[Expr]:
    """The conditions of a path: those over needed variables as they are, the rest in groups that share other loops."""
    groups: list[tuple[frozenset[str], list[Expr]]] = []
    for item in path:
        if isinstance(item, Loop):
            extra = frozenset[str]() if item.var in needed else closure(frozenset((item.var,)), loops) - needed
            found: list[tuple[frozenset[str], list[Expr]]] = [(extra, [])] if extra else []
        else:
            found = [(closure(free_vars(c), loops) - needed, [c]) for c in conjuncts(item.condition)]
        for extra, conditions in found:
            touching = [g for g in groups if g[0] & extra]
            groups = [g for g in groups if g not in touching]
            groups.append((extra.union(*(g[0] for g in touching)), [*(c for g in touching for c in g[1]), *conditions]))
    for extra, conditions in groups:
        if not extra:
            yield from conditions
        elif len(extra) == 1 and not conditions:
            (name,) = extra
            yield Compare("<", loops[name].start, loops[name].stop)
        else:
            yield Exists(tuple(loops[n] for n in loops if n in extra), tuple(conditions))


def scheduled(loops: list[Loop], conditions: list[Expr]) -> Path:
    """The loops in their order, each condition as early as its variables allow."""
    variables, path, waiting = {loop.var for loop in loops}, list[Loop | Guard](), list(conditions)
    bound: set[str] = set()

    def release() -> None:
        for condition in [c for c in waiting if not outer_vars(c) & variables - bound]:
            waiting.remove(condition)
            path.append(Guard(condition))

    release()
    for loop in loops:
        path.append(loop)
        bound.add(loop.var)
        release()
    return tuple(path)


def outer_vars(e: Expr) -> frozenset[str]:
    """Free variables, those that an `Exists` binds left out."""
    if isinstance(e, Exists):
        inner: list[Expr] = [*e.conditions, *(b for loop in e.loops for b in (loop.start, loop.stop))]
        return frozenset[str]().union(*map(free_vars, inner)) - {loop.var for loop in e.loops}
    return free_vars(e)


def regular_last(loops: list[Loop], conditions: list[Expr], o: Occurrence, instance: Expr) -> list[Loop]:
    """Loops with an even step on which no other item depends become the inner ones: their elements are neighbours more often."""
    names = {loop.var for loop in loops}
    bounds = [free_vars(e) for loop in loops for e in (loop.start, loop.stop)]
    others = frozenset[str]().union(*bounds, *map(outer_vars, conditions))

    def regular(loop: Loop) -> bool:
        step = address_step(o, instance, loop.var)
        return loop.var not in others and step is not None and not free_vars(step) & names

    return sorted(loops, key=regular)


def stepped(path: Path, o: Occurrence, instance: Expr) -> Path:
    """Gives a loop its step where the address grows by the same amount in each iteration and no other item depends on it."""
    result: list[Loop | Guard] = []
    outer: set[str] = set()
    for place, item in enumerate(path):
        if isinstance(item, Loop):
            step = None if o.kind in ("fill", "feed", "register") or _mentioned(path[place + 1 :], item.var) else address_step(o, instance, item.var)
            inner = {loop.var for loop in path if isinstance(loop, Loop)} - outer
            item = Loop(item.var, item.start, item.stop, None if step is None or free_vars(step) & inner else step)
            outer.add(item.var)
        result.append(item)
    return tuple(result)


def _mentioned(path: Path, var: str) -> bool:
    return any(var in outer_vars(e) for item in path for e in ([item.condition] if isinstance(item, Guard) else [item.start, item.stop]))


def address_step(o: Occurrence, instance: Expr, var: str) -> Expr | None:
    """The amount that `var + 1` adds to the last index, if the bank and the instance do not depend on it."""
    if var in free_vars(instance) or any(var in free_vars(e) for e in o.index[:-1]):
        return None
    return coefficient(o.index[-1], var)


def coefficient(e: Expr, var: str) -> Expr | None:
    """d e / d var where e is linear in var, else None."""
    if var not in free_vars(e):
        return Const(0)
    match e:
        case ir.Var():
            return Const(1)
        case Unary(op="-", value=value):
            inner = coefficient(value, var)
            return None if inner is None else Unary("-", inner)
        case Binary(op=("+" | "-") as op, left=left, right=right):
            a, b = coefficient(left, var), coefficient(right, var)
            return None if a is None or b is None else b if op == "+" and a == Const(0) else a if b == Const(0) else Binary(op, a, b)
        case Binary(op="*", left=left, right=right) if var not in free_vars(left) or var not in free_vars(right):
            factor, part = (left, right) if var not in free_vars(left) else (right, left)
            inner = coefficient(part, var)
            return None if inner is None else factor if inner == Const(1) else Binary("*", factor, inner)
        case Choose(condition=condition, then=then, other=other) if var not in free_vars(condition):
            a, b = coefficient(then, var), coefficient(other, var)
            return None if a is None or b is None else Choose(condition, a, b)
        case _:
            return None


@dataclass(frozen=True)
class Steps:
    """The accesses of an instruction to one memory, each once. writes: which of them write. count: how many steps an instruction has;
    step: which one an iteration is. Paths take every iteration on its own."""

    memory: str
    nests: tuple[Nest, ...]
    writes: tuple[bool, ...]
    count: Expr
    step: Expr


def pipelined_steps(machine: Machine) -> Mapping[str, tuple[Steps, ...]]:
    """By instruction, for those whose pipeline keeps elements apart; found once for all machines that differ in prices alone."""
    return _pipelined_steps(MeaningKey(machine))


@functools.lru_cache(maxsize=128)
def _pipelined_steps(key: MeaningKey) -> Mapping[str, tuple[Steps, ...]]:
    machine = key.machine
    return {i.name: tuple(_steps(machine, memory, _touching(machine, i, memory)) for memory in i.pipelined.memories)
            for i in machine.instructions if i.pipelined}  # fmt: skip


def missing_steps(machine: Machine) -> Iterator[Diagnostic]:
    """E0225 for each memory of a pipelined instruction whose accesses do not stand in one nest of loops with bounds of their own."""
    for instruction in machine.instructions:
        for memory in instruction.pipelined.memories if instruction.pipelined else ():
            reason = _unordered(machine, _touching(machine, instruction, memory))
            if reason:
                yield Diagnostic("E0225", f"the accesses of {instruction.name} to '{memory}' {reason}", instruction.span)


def _touching(machine: Machine, instruction: Instruction, memory: str) -> list[Occurrence]:
    found = occurrences(machine, machine_semantics(machine)[instruction.name])
    return [o for o in found if o.kind in ("read", "write") and isinstance(o.target, ir.Access) and o.target.view.memory == memory]


def _unordered(machine: Machine, touching: list[Occurrence]) -> str:
    loops = {tuple(item for item in o.path if isinstance(item, Loop)) for o in touching}
    if not any(o.kind == "write" for o in touching):
        return "write nothing"
    if len(loops) > 1 or () in loops:
        return "do not stand in the same loops, so they are not steps of one pipeline"
    (nest,) = loops
    names = {loop.var for loop in nest}
    if any((free_vars(loop.start) | free_vars(loop.stop)) & names for loop in nest):
        return "stand in loops whose bounds depend on each other"
    if any(item.var not in names for nest in _nests(machine, touching) for item in nest.path if isinstance(item, Loop)):
        return "go to what lockstep copies share"
    return ""


def _nests(machine: Machine, touching: list[Occurrence]) -> list[Nest]:
    names = frozenset(item.var for o in touching for item in o.path if isinstance(item, Loop))
    return [project(machine, o, memories_alike(machine), names) for o in touching]


def _steps(machine: Machine, memory: str, touching: list[Occurrence]) -> Steps:
    """Steps of accesses that `missing_steps` accepts. A place that is read and then written in one iteration counts once, as written."""
    nests = _nests(machine, touching)
    alone = {(n.occurrence.index, n.occurrence.at, n.path, n.access.view): n for n in sorted(nests, key=lambda n: n.occurrence.kind == "write")}
    chosen = [replace(n, path=tuple(replace(i, step=None) if isinstance(i, Loop) else i for i in n.path)) for n in alone.values()]
    count, step = Const(1), Const(0)
    for loop in (item for item in touching[0].path if isinstance(item, Loop)):
        extent = ir.Extreme("max", (Const(0), Binary("-", loop.stop, loop.start)))
        count, step = Binary("*", count, extent), Binary("+", Binary("*", step, extent), Binary("-", ir.Var(loop.var), loop.start))
    return Steps(memory, tuple(chosen), tuple(n.occurrence.kind == "write" for n in chosen), count, step)
