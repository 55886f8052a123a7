"""Steps to a program: templates write assembly, constants get resident, synchronisation is derived, every line keeps its origin."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolchain.emulator.state import State
from toolchain.isa.assembly.assembler import assemble
from toolchain.isa.program import Program
from toolchain.schedule.emission_errors import blamed, told_for
from toolchain.schedule.kernels.constants import Fetch, Residency, constant_bytes, plan_residency
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.kernels.render import Renderer
from toolchain.schedule.origins import NONE, Origins, Run, StepName, origins_of
from toolchain.schedule.synchronisation.synchronise import synchronise
from toolchain.schedule.tiling.order import Instance
from toolchain.spec.errors import Source, UserError, fail
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Expr, Name, walk
from toolchain.spec.model import Machine

POOL = "constants"


@dataclass(frozen=True)
class Resident:
    """A constant as templates see it: its records are first..stop - 1."""

    first: int
    stop: int


@dataclass(frozen=True)
class Part:
    """The steps of one operation, and names: what they name of each tile (Instance.names), step by step."""

    problem: Problem
    steps: Sequence[Instance]
    names: Sequence[Mapping[str, int]]


@dataclass(frozen=True)
class Emitted:
    """listing: what each instruction is for, for a reader; empty for one that only passes tokens. origins: the same by numbers, of parts."""

    program: Program
    text: str
    listing: tuple[str, ...]
    origins: Origins


def part_of(problem: Problem, steps: Sequence[Instance]) -> Part:
    """The steps with the names that templates see."""
    return Part(problem, steps, [item.names(problem) for item in steps])


def pool_kernel(parts: Sequence[Part]) -> Kernel | None:
    """The kernel whose `residency` says how constants get on chip; None where no operation has any.

    Raises UserError E1007 where kernels of one program keep constants in several memories or views.
    """
    found = [part.problem.kernel for part in parts if part.problem.kernel.constants and part.problem.kernel.loading]
    kept = {(k.constants[0].memory, k.loading.view if k.loading else "") for k in found}
    if len(kept) > 1:
        raise fail("E1007", f"the kernels of one program keep constants in several places: {', '.join(map(str, sorted(kept)))}", found[0].span)
    return found[0] if found else None


Sequenced = Sequence[tuple[int, int]]
"""Steps in the order of the program: (part, step of it)."""


def in_turn(parts: Sequence[Part]) -> Sequenced:
    """One part after the other."""
    return [(number, index) for number, part in enumerate(parts) for index in range(len(part.steps))]


def plan_constants(machine: Machine, parts: Sequence[Part], sequence: Sequenced) -> Residency:
    """Which records each step of the program needs, where they are, and what is fetched before it; in the order of `sequence`."""
    kernel = pool_kernel(parts)
    contents = [_contents(machine, part) for part in parts]
    uses = [contents[number][index] for number, index in sequence]
    if kernel is None:
        return Residency(b"", tuple(() for _ in uses), tuple(() for _ in uses))
    memory = machine.memory[kernel.constants[0].memory]
    return plan_residency(uses, memory.element.bytes, sum(memory.depths))


def _contents(machine: Machine, part: Part) -> list[list[bytes]]:
    """The bytes of every constant of every step."""
    constants = {c.name: c for c in part.problem.kernel.constants}
    wanted = {name: _free_names(part.problem.kernel, name) for name in constants}
    made: dict[tuple[str, tuple[tuple[str, int], ...]], bytes] = {}
    uses: list[list[bytes]] = []
    for item, own in zip(part.steps, part.names, strict=True):
        contents: list[bytes] = []
        for name in item.step.constants:
            scope = {**part.problem.numbers, **own}
            key = (name, tuple((n, scope[n]) for n in wanted[name] if n in scope))
            if key not in made:
                made[key] = constant_bytes(machine, constants[name], dict(key[1]))
            contents.append(made[key])
        uses.append(contents)
    return uses


def _free_names(kernel: Kernel, name: str) -> list[str]:
    item = next(c for c in kernel.constants if c.name == name)
    exprs = [*item.over.values(), *item.fields.values()]
    return sorted({e.id for expr in exprs for e in walk(expr) if isinstance(e, Name)} - set(item.over))


def emit(
    machine: Machine,
    name: str,
    parts: Sequence[Part],
    sequence: Sequenced,
    residency: Residency,
    scopes: Sequence[Mapping[str, int]],
    state: State,
) -> Emitted:
    """The program of the steps of these parts. scopes: what templates see of each part's tensors (X_base and the like), and
    `constants_base` where there are any. state: what stands in memory before it runs.

    Raises UserError E1005 for a template, and all of `assemble` and `synchronise`.
    """
    writer = _Writer()
    first = parts[0].problem
    if first.kernel.begin:
        writer.add(first.kernel, first.kernel.begin, {**first.numbers, **scopes[0]}, "begin", Run(0, NONE, None, NONE))
    for (number, instance), fetches, places in zip(sequence, residency.fetches, residency.places, strict=True):
        writer.step(number, parts[number], instance, scopes[number], fetches, places)
    last = parts[-1].problem.kernel
    writer.add(last, last.end, {}, "end", Run(0, NONE, None, NONE))
    text = "".join(writer.lines)
    try:
        program = assemble(machine, Source(f"{name}.asm", text))
    except UserError as error:
        raise blamed(error, f"{name}.asm", writer.labels, writer.templates) from None
    found = synchronise(program, state)
    labels = [*writer.labels, ""]
    source: list[int] = found.source.tolist()
    return Emitted(found.program, text, tuple(labels[i] for i in source), origins_of(writer.runs).taken(found.source))


@dataclass
class _Writer:
    """The growing text, the template and label of each of its lines, and where they are from."""

    lines: list[str] = field(default_factory=list[str])
    templates: list[Path] = field(default_factory=list[Path])
    labels: list[str] = field(default_factory=list[str])
    runs: list[Run] = field(default_factory=list[Run])
    renderer: Renderer = field(default_factory=Renderer)

    def step(self, number: int, part: Part, instance: int, scope: Mapping[str, int], fetches: Sequence[Fetch], places: Sequence[int]) -> None:
        """A step of an operation, after the constants that it lacks."""
        kernel, operation, item = part.problem.kernel, part.problem.operation, part.steps[instance]
        for fetch in fetches:
            own = {"slot": fetch.slot, "base": scope[f"{POOL}_base"] + fetch.offset, "count": fetch.count}
            template = kernel.loading.template if kernel.loading else ""
            self.add(kernel, template, own, f"{operation.name} {POOL}", Run(0, number, StepName(POOL, ""), instance))
        names: dict[str, Any] = {**part.problem.numbers, **scope, **part.names[instance]}
        counts = {c.name: c for c in kernel.constants}
        for name, first in zip(item.step.constants, places, strict=True):
            names[name] = Resident(first, first + _length(counts[name].over.values(), names))
        where = " ".join(f"{d}={first}:{first + size}" for d, (first, size) in item.tile.items())
        label = f"{operation.name} {item.step.kind} {item.step.place} {where}".rstrip()
        self.add(kernel, item.step.template, names, label, Run(0, number, StepName(item.step.kind, item.step.place), instance))

    def add(self, kernel: Kernel, template: str, scope: Mapping[str, Any], label: str, run: Run) -> None:
        """Adds the lines of a template. run: what they are from, whatever its length."""
        try:
            written = self.renderer.lines(kernel.folder, template, scope)
        except UserError as error:
            raise told_for(error, label) from None
        self.lines += written
        self.templates += [kernel.folder / template] * len(written)
        self.labels += [label] * len(written)
        self.runs.append(run._replace(length=len(written)))


def _length(over: Iterable[Expr], scope: Mapping[str, Any]) -> int:
    return math.prod(constant(e, scope) for e in over)
