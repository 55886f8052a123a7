"""Instructions whose iterations are the steps of a pipeline: which accesses count, and which step each iteration is."""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from toolchain.isa.footprint.loop_nest import Nest, memories_alike, project
from toolchain.isa.footprint.walk import Loop, Occurrence, free_vars, occurrences
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec.errors import Diagnostic
from toolchain.spec.expr import Binary, Const, Expr
from toolchain.spec.fingerprint import MachineKey
from toolchain.spec.model import Instruction, Machine


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
    """By instruction, for those whose pipeline keeps elements apart; found once for each Machine object."""
    return _pipelined_steps(MachineKey(machine))


@functools.lru_cache(maxsize=128)
def _pipelined_steps(key: MachineKey) -> Mapping[str, tuple[Steps, ...]]:
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
