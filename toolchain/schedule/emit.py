"""Steps to a program: templates write assembly, constants get resident, synchronisation is derived, every line keeps its origin."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from jinja2.sandbox import SandboxedEnvironment

from toolchain.emulator.state import State, new_state
from toolchain.isa.assembly.assembler import assemble
from toolchain.isa.program import Program
from toolchain.schedule.constants import Fetch, Residency, constant_bytes, plan_residency
from toolchain.schedule.order import Instance
from toolchain.schedule.packing import Packing, Region, packing, place_regions, tensor_values
from toolchain.schedule.problem import Problem
from toolchain.schedule.synchronise import synchronise
from toolchain.spec.errors import Source, fail
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Expr, Name, walk

POOL = "constants"


@dataclass(frozen=True)
class Resident:
    """A constant as templates see it: its records are first..stop - 1."""

    first: int
    stop: int


@dataclass(frozen=True)
class Tensors:
    """The tensors of a problem in DRAM. stored: bytes of those whose values are known when compiling."""

    packings: Mapping[str, Packing]
    stored: Mapping[str, bytes]


@dataclass(frozen=True)
class Compiled:
    """listing: what each instruction is for; empty for one that only passes tokens. regions: by tensor, and `constants`."""

    problem: Problem
    program: Program
    text: str
    listing: tuple[str, ...]
    tensors: Tensors
    regions: Mapping[str, Region]
    pool: bytes

    def state(self, **inputs: Any) -> State:
        """A new state with everything in DRAM that the program reads; inputs: host tensors by name."""
        state = new_state(self.problem.machine)
        blobs = {
            **({POOL: self.pool} if self.pool else {}),
            **self.tensors.stored,
            **{name: self.tensors.packings[name].store(v) for name, v in inputs.items()},
        }
        views = {t.name: t.view for t in self.problem.kernel.tensors} | {POOL: _pool_view(self.problem)}
        for name, data in blobs.items():
            _write(state, self.problem, views[name], self.regions[name], data)
        return state

    def result(self, state: State, name: str) -> Any:
        """A host tensor out of a state."""
        tensor = next(t for t in self.problem.kernel.tensors if t.name == name)
        region, memory = self.regions[name], self.problem.machine.view[tensor.view].memory
        return self.tensors.packings[name].fetch(state.memories[memory][0, region.address : region.address + region.bytes])


def _pool_view(problem: Problem) -> str:
    return problem.kernel.loading.view if problem.kernel.loading else ""


def _write(state: State, problem: Problem, view: str, region: Region, data: bytes) -> None:
    memory = state.memories[problem.machine.view[view].memory]
    memory[:, region.address : region.address + len(data)] = np.frombuffer(data, np.uint8)


def pack_tensors(problem: Problem) -> Tensors:
    """Layouts and known values of every tensor; independent of tiles."""
    packings, stored = dict[str, Packing](), dict[str, bytes]()
    for tensor in problem.kernel.tensors:
        packings[tensor.name] = packing(problem.machine, tensor, problem.numbers)
        if tensor.values is not None:
            stored[tensor.name] = packings[tensor.name].store(tensor_values(problem.machine, tensor, problem.numbers, problem.operation.arrays))
    return Tensors(packings, stored)


def emit(problem: Problem, steps: Sequence[Instance], tensors: Tensors) -> Compiled:
    """The program of these steps. Raises UserError E1005 for a template, and all of `assemble` and `synchronise`."""
    machine, kernel = problem.machine, problem.kernel
    names = [item.names(problem) for item in steps]
    residency = _residency(problem, steps, names)
    sizes = {t.name: (t.view, tensors.packings[t.name].bytes) for t in kernel.tensors}
    if residency.pool:
        sizes[POOL] = (_pool_view(problem), len(residency.pool))
    regions = place_regions(machine, sizes)
    writer = _Writer(problem, regions)
    for item, own, fetches, places in zip(steps, names, residency.fetches, residency.places, strict=True):
        writer.step(item, own, fetches, places)
    writer.add(kernel.end, {}, "end")
    text = "".join(writer.lines)
    plain = assemble(machine, Source(f"{problem.operation.name}.asm", text))
    state = new_state(machine)
    if residency.pool:
        _write(state, problem, _pool_view(problem), regions[POOL], residency.pool)
    found = synchronise(plain, state)
    labels = [*writer.labels, ""]
    listing = tuple(labels[int(i)] for i in found.source)
    return Compiled(problem, found.program, text, listing, tensors, regions, residency.pool)


def _residency(problem: Problem, steps: Sequence[Instance], names: Sequence[Mapping[str, int]]) -> Residency:
    """Which records each step needs, and where they are."""
    machine, constants = problem.machine, {c.name: c for c in problem.kernel.constants}
    if not constants:
        return Residency(b"", tuple(() for _ in steps), tuple(() for _ in steps))
    memory = machine.memory[next(iter(constants.values())).memory]
    wanted = {name: _free_names(problem, name) for name in constants}
    made: dict[tuple[str, tuple[tuple[str, int], ...]], bytes] = {}
    uses: list[list[bytes]] = []
    for item, own in zip(steps, names, strict=True):
        contents: list[bytes] = []
        for name in item.step.constants:
            scope = {**problem.numbers, **own}
            key = (name, tuple((n, scope[n]) for n in wanted[name] if n in scope))
            if key not in made:
                made[key] = constant_bytes(machine, constants[name], dict(key[1]))
            contents.append(made[key])
        uses.append(contents)
    return plan_residency(uses, memory.element.bytes, sum(memory.depths))


def _free_names(problem: Problem, name: str) -> list[str]:
    item = next(c for c in problem.kernel.constants if c.name == name)
    exprs = [*item.over.values(), *item.fields.values()]
    return sorted({e.id for expr in exprs for e in walk(expr) if isinstance(e, Name)} - set(item.over))


@dataclass
class _Writer:
    """The growing text, and the label of each of its instructions."""

    problem: Problem
    regions: Mapping[str, Region]
    lines: list[str] = field(default_factory=list[str])
    labels: list[str] = field(default_factory=list[str])

    def step(self, item: Instance, names: Mapping[str, int], fetches: Sequence[Fetch], places: Sequence[int]) -> None:
        """A step, after the constants that it lacks."""
        kernel, operation = self.problem.kernel, self.problem.operation
        for fetch in fetches:
            base = self.regions[POOL].base + fetch.offset
            template = kernel.loading.template if kernel.loading else ""
            self.add(template, {"slot": fetch.slot, "base": base, "count": fetch.count}, f"{operation.name} {POOL}")
        counts = {c.name: c for c in kernel.constants}
        scope: dict[str, Any] = {**self.problem.numbers, **{f"{t}_base": r.base for t, r in self.regions.items()}, **names}
        for name, first in zip(item.step.constants, places, strict=True):
            scope[name] = Resident(first, first + _length(counts[name].over.values(), scope))
        where = " ".join(f"{d}={first}:{first + size}" for d, (first, size) in item.tile.items())
        self.add(item.step.template, scope, f"{operation.name} {item.step.kind} {item.step.place} {where}".rstrip())

    def add(self, template: str, scope: Mapping[str, Any], label: str) -> None:
        """What a template writes."""
        text = _render(self.problem.kernel.folder, template, scope)
        written = [line for line in text.splitlines() if line.strip()]
        self.lines += [f"{line}\n" for line in written]
        self.labels += [label] * len(written)


def _length(over: Iterable[Expr], scope: Mapping[str, Any]) -> int:
    return math.prod(constant(e, scope) for e in over)


@lru_cache(maxsize=8)
def _environment(folder: Path) -> SandboxedEnvironment:
    return SandboxedEnvironment(
        loader=jinja2.FileSystemLoader(folder), undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, auto_reload=False
    )


def _render(folder: Path, name: str, scope: Mapping[str, Any]) -> str:
    """Raises UserError E1005 for a template that cannot be read, or that names what is not there."""
    try:
        return _environment(folder).get_template(name).render(scope)
    except jinja2.TemplateSyntaxError as error:
        raise fail("E1005", f"cannot read the template: {error.message}", place=f"{folder / (error.name or name)}:{error.lineno}") from None
    except (jinja2.TemplateError, ArithmeticError, TypeError, ValueError) as error:
        raise fail("E1005", f"the template fails: {error}", place=str(folder / name)) from None
