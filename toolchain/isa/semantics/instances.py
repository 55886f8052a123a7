"""Memory instances that an instruction accesses: those of its stream's place in the topology and of its lockstep replicas."""

import itertools
from collections.abc import Iterable, Iterator, Mapping

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.traverse import addresses, expressions, statements
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr
from toolchain.spec.model import Level, Machine, structure


def stream_levels(machine: Machine) -> tuple[Level, ...]:
    """The levels that a stream's number counts over, outermost first."""
    return structure.stream_levels(machine.levels)


def replica_levels(machine: Machine) -> tuple[Level, ...]:
    """The lockstep levels below the streams, outermost first: every statement runs once for each of their instances."""
    return tuple(level for level in machine.levels[len(stream_levels(machine)) :] if level.lockstep)


def places(machine: Machine, stream: int) -> tuple[Mapping[str, int], ...]:
    """For every replica of a stream, the index at each level; replicas in order, the outer level's index slowest."""
    outer: dict[str, int] = {}
    for level in reversed(stream_levels(machine)):
        stream, outer[level.name] = divmod(stream, level.count)
    inner = replica_levels(machine)
    numbers = itertools.product(*(range(level.count) for level in inner))
    return tuple(outer | dict(zip((level.name for level in inner), at, strict=True)) for at in numbers)


def scope_levels(machine: Machine, scope: str) -> tuple[Level, ...]:
    """The levels whose indices select one instance of a memory of this scope, outermost first."""
    if scope == "device":
        return ()
    return machine.levels[: [level.name for level in machine.levels].index(scope) + 1]


def instance(machine: Machine, scope: str, place: Mapping[str, int]) -> int:
    """The number of the instance at a place. Raises KeyError where the place does not name a level."""
    number = 0
    for level in scope_levels(machine, scope):
        number = number * level.count + place[level.name]
    return number


def replica_names(machine: Machine, semantics: ir.Semantics) -> frozenset[str]:
    """The variables and temporaries of an instruction whose value may differ between lockstep replicas."""
    levels = {level.name for level in replica_levels(machine)}
    found: set[str] = set()
    while True:
        before = len(found)
        _spread(machine, semantics.body, levels, found, False)
        if len(found) == before:
            return frozenset(found)


def paths_differ(machine: Machine, semantics: ir.Semantics) -> bool:
    """Whether lockstep replicas may take different branches or run a loop over different bounds."""
    levels, names = {level.name for level in replica_levels(machine)}, replica_names(machine, semantics)
    heads = [e for stmt in statements(semantics.body) if isinstance(stmt, ir.For | ir.If) for e in expressions(stmt)]
    return any(differs(machine, e, levels, names) for e in heads)


def _spread(machine: Machine, body: Iterable[ir.Stmt], levels: set[str], found: set[str], inside: bool) -> None:
    for stmt in body:
        match stmt:
            case ir.Let(name=name, value=value) | ir.SetTemp(name=name, value=value) if inside or differs(machine, value, levels, found):
                found.add(name)
            case ir.For(var=var, start=start, stop=stop, body=inner):
                apart = inside or differs(machine, start, levels, found) or differs(machine, stop, levels, found)
                if apart:
                    found.add(var)
                _spread(machine, inner, levels, found, apart)
            case ir.If(condition=condition, then=then, other=other):
                apart = inside or differs(machine, condition, levels, found)
                _spread(machine, (*then, *other), levels, found, apart)
            case _:
                pass


def differs(machine: Machine, expr: Expr, levels: set[str], names: Iterable[str]) -> bool:
    """Whether an expression may differ between replicas, `names` being the variables that do."""
    return any(_leaf_differs(machine, e, levels, names) for e in _deep(expr))


def _leaf_differs(machine: Machine, e: Expr, levels: set[str], names: Iterable[str]) -> bool:
    match e:
        case ir.Place(level=level):
            return level in levels
        case ir.Var(name=name) | ir.Temp(name=name):
            return name in names
        case ir.RegisterRead(register=register):
            return bool(levels & {level.name for level in scope_levels(machine, machine.memory[register].scope)})
        case ir.ControlRead(access=access) | ir.Load(access=access):
            return access_differs(machine, access, levels, names)
        case _:
            return False


def access_differs(machine: Machine, access: ir.Access, levels: set[str], names: Iterable[str]) -> bool:
    """Whether the replicas touch different elements (or lanes): by the memory's scope, or by the address."""
    own = {level.name for level in scope_levels(machine, machine.memory[access.view.memory].scope)} - {level for level, _ in access.at}
    return bool(own & levels) or any(differs(machine, part, levels, names) for part in addresses(access))


def _deep(expr: Expr) -> Iterator[Expr]:
    """Every node, those in the addresses of accesses left to their access."""
    yield expr
    if not isinstance(expr, ir.ControlRead | ir.Load):
        for child in ex.children(expr):
            yield from _deep(child)
