"""The growing text of a program: each step's lines, by its template or its instructions, with what they are for and where they are from."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from toolchain.abi.origins import Run, StepName
from toolchain.isa.columns import Value
from toolchain.schedule.emission_errors import told_for
from toolchain.schedule.kernels.constants import Fetch
from toolchain.schedule.kernels.frame import Frame
from toolchain.schedule.kernels.kernel import Kernel, Step
from toolchain.schedule.kernels.lines import Line, LineWriter
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.kernels.render import Renderer
from toolchain.schedule.kernels.sequence import Code
from toolchain.schedule.redundant_latches import Latched, repeatable
from toolchain.schedule.tiling.order import Instance
from toolchain.spec.errors import Span, UserError
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Expr
from toolchain.spec.model import Machine

POOL = "constants"
TURN = ".stream "
"""How a line begins that says which stream the next ones belong to."""


@dataclass(frozen=True)
class Resident:
    """A constant as templates see it: its records are first..stop - 1."""

    first: int
    stop: int


@dataclass(frozen=True)
class OperationPart:
    """The steps of one operation, and names: what they name of each tile (Instance.names), step by step."""

    problem: Problem
    steps: Sequence[Instance]
    names: Sequence[Mapping[str, int]]


def part_of(problem: Problem, steps: Sequence[Instance]) -> OperationPart:
    """The steps with the names that their instructions see."""
    return OperationPart(problem, steps, [item.names(problem) for item in steps])


@dataclass
class Writer:
    """lines: the text; labels: what each is for; sources: the template or place of the kernel file that says it; runs: which steps they are from.

    streams: of each instruction. stream: of the next ones. written: the instructions of steps, by part and instance.
    """

    machine: Machine
    lines: list[str] = field(default_factory=list[str])
    labels: list[str] = field(default_factory=list[str])
    sources: list[Path | Span] = field(default_factory=list[Path | Span])
    runs: list[Run] = field(default_factory=list[Run])
    streams: list[int] = field(default_factory=list[int])
    stream: int = 0
    renderer: Renderer = field(default_factory=Renderer)
    written: dict[tuple[int, int], list[Line]] = field(default_factory=dict[tuple[int, int], list[Line]])
    writers: dict[Path, LineWriter] = field(default_factory=dict[Path, LineWriter])
    latched: Latched = field(init=False)

    def __post_init__(self) -> None:
        self.latched = Latched(repeatable(self.machine))

    def turn(self, stream: int) -> None:
        """Begin the lines of this stream."""
        if stream != self.stream:
            self.lines.append(f"{TURN}{stream}\n")
            self.labels.append("")
            self.sources.append(Path())
            self.stream = stream

    def step(self, number: int, part: OperationPart, instance: int, scope: Mapping[str, int], fetches: Sequence[Fetch], held: Sequence[int]) -> None:
        """A step after the constants that it lacks. held: where its constants are. Raises UserError E1005 for a template, E0304 for a field."""
        kernel, operation, item = part.problem.kernel, part.problem.operation, part.steps[instance]
        for fetch in fetches:
            names = {"slot": fetch.slot, "base": scope[f"{POOL}_base"] + fetch.offset, "count": fetch.count}
            run = Run(0, number, StepName(POOL, ""), instance)
            self.add(kernel, kernel.loading.code if kernel.loading else (), names, f"{operation.name} {POOL}", run)
        label, run = _label(part, instance), Run(0, number, StepName(item.step.kind, item.step.place), instance)
        if isinstance(item.step.code, str):
            own = part.names[instance]
            residents = _residents(part.problem, item, own, held)
            self._template(kernel, item.step.code, {**part.problem.numbers, **scope, **own, **residents}, label, run)
        else:
            self._keep(self.written[number, instance], label, run)

    def prepare(self, number: int, part: OperationPart, scope: Mapping[str, int], places: Sequence[Sequence[int]]) -> None:
        """The instructions of every step of a part, those of one step at once. places: where the constants of each instance are."""
        same: dict[int, list[int]] = {}
        for instance, item in enumerate(part.steps):
            same.setdefault(id(item.step), []).append(instance)
        writer, light = self._writer(part.problem.kernel), replace(part, problem=part.problem.without_weights())
        for chosen in same.values():
            if not isinstance(part.steps[chosen[0]].step.code, str):
                lines = _lines(_Instances.of(self.machine, writer, light, scope, chosen, places))
                self.written |= {(number, instance): own for instance, own in zip(chosen, lines, strict=True)}

    def add(self, kernel: Kernel, code: Code, scope: Mapping[str, int], label: str, run: Run) -> None:
        """The lines of a template or of instructions. run: what they are from, whatever its length."""
        if isinstance(code, str):
            self._template(kernel, code, scope, label, run)
        elif code:
            self._keep(self._writer(kernel).write(code, Frame(1, scope.__getitem__), lambda _: label)[0], label, run)

    def _template(self, kernel: Kernel, template: str, scope: Mapping[str, Any], label: str, run: Run) -> None:
        try:
            written = self.renderer.lines(kernel.folder, template, scope)
        except UserError as error:
            raise told_for(error, label) from None
        self._keep([(line, kernel.folder / template) for line in written], label, run)

    def _keep(self, written: Sequence[tuple[str, Path | Span]], label: str, run: Run) -> None:
        kept = [(text, source) for text, source in written if not self.latched.repeats(self.stream, text)]
        lines = [text for text, _ in kept]
        self.sources += [source for _, source in kept]
        self.lines += lines
        self.streams += [self.stream] * len(lines)
        self.labels += [label] * len(lines)
        self.runs.append(run._replace(length=len(lines)))

    def _writer(self, kernel: Kernel) -> LineWriter:
        if kernel.folder not in self.writers:
            self.writers[kernel.folder] = LineWriter(self.machine, kernel.folder)
        return self.writers[kernel.folder]


@dataclass(frozen=True, slots=True, eq=False)
class _Instances:
    """The instances of a step. key: everything that their lines say, which is compared beside the step itself; steps never change."""

    machine: Machine
    writer: LineWriter
    part: OperationPart
    scope: Mapping[str, int]
    chosen: Sequence[int]
    places: Sequence[Sequence[int]]
    key: tuple[Hashable, ...]

    @staticmethod
    def of(
        machine: Machine, writer: LineWriter, part: OperationPart, scope: Mapping[str, int], chosen: Sequence[int], places: Sequence[Sequence[int]]
    ) -> "_Instances":
        """These instances of a part."""
        names = tuple(tuple(part.names[n].items()) for n in chosen)
        held, used = tuple(tuple(places[n]) for n in chosen), tuple(part.steps[chosen[0]].slots)
        key = names, tuple(scope.items()), tuple(part.problem.numbers.items()), held, used
        return _Instances(machine, writer, part, scope, chosen, places, key)

    @property
    def step(self) -> Step:
        return self.part.steps[self.chosen[0]].step

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Instances):
            return NotImplemented
        return self.machine is other.machine and self.step is other.step and self.key == other.key

    def __hash__(self) -> int:
        return hash((id(self.machine), id(self.step), self.key))


@lru_cache(maxsize=1024)
def _lines(given: _Instances) -> list[list[Line]]:
    """By instance. A search writes most operations of a region several times with the same tiles in the same places."""
    code = given.step.code
    assert not isinstance(code, str)
    frame = step_frame(given.part, given.scope, given.chosen, given.places)
    return given.writer.write(code, frame, lambda row: _label(given.part, given.chosen[row]))


def _label(part: OperationPart, instance: int) -> str:
    item = part.steps[instance]
    where = " ".join(f"{d}={first}:{first + size}" for d, (first, size) in item.tile.items())
    return f"{part.problem.operation.name} {item.step.kind} {item.step.place} {where}".rstrip()


def _residents(problem: Problem, item: Instance, own: Mapping[str, int], held: Sequence[int]) -> dict[str, Resident]:
    """The step's constants by name."""
    counts, scope = {c.name: c for c in problem.kernel.constants}, {**problem.numbers, **own}
    lengths = [_length(counts[name].over.values(), scope) for name in item.step.constants]
    return {name: Resident(first, first + length) for name, first, length in zip(item.step.constants, held, lengths, strict=True)}


def _length(over: Iterable[Expr], scope: Mapping[str, int]) -> int:
    return math.prod(constant(e, scope) for e in over)


def step_frame(
    part: OperationPart, scope: Mapping[str, int], chosen: Sequence[int], places: Mapping[int, Sequence[int]] | Sequence[Sequence[int]]
) -> Frame:
    """Values that instances of one step name, a row each."""
    own = [part.names[n] for n in chosen]

    def find(name: str) -> Value:
        if name in own[0]:
            return _column([names[name] for names in own])
        return scope[name] if name in scope else part.problem.numbers[name]

    frame = Frame(len(chosen), find)
    used = part.steps[chosen[0]].slots
    for place in (p for p in part.problem.kernel.places if p.name in used):
        frame.formulas |= {f"{place.name}_{name}": (formula, frame) for name, formula in place.starts.items()}
    residents = [_residents(part.problem, part.steps[n], part.names[n], places[n]) for n in chosen]
    for name in residents[0]:
        frame.names[f"{name}.first"] = _column([each[name].first for each in residents])
        frame.names[f"{name}.stop"] = _column([each[name].stop for each in residents])
    return frame


def _column(values: list[int]) -> Value:
    """One number where all are the same."""
    return values[0] if values.count(values[0]) == len(values) else np.array(values, np.int64)
