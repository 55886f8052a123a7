"""The growing program: each step's instructions, by its template or its items, with their purpose and their origin, without those that latch the
fields which their register already holds.

Every step of a kernel sets the registers that it needs. Steps of one operation mostly set the same values, and an instruction costs its unit at least
a cycle and takes a place in a queue. Compilers call it redundant store elimination.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.assembly import read_lines
from toolchain.isa.columns import Value
from toolchain.isa.program import BRING, Origins, Run, StepName, origins_of
from toolchain.isa.semantics.ir import Latch
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.schedule.kernels.constants import Fetch
from toolchain.schedule.kernels.frame import Frame
from toolchain.schedule.kernels.instructions import Batch, InstructionWriter, join_batches, told_for, told_of_template
from toolchain.schedule.kernels.kernel import Code, Kernel, Step
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.sandbox import Renderer
from toolchain.schedule.tiling.order import Instance
from toolchain.spec.arrays import Ints
from toolchain.spec.errors import Source, UserError, fail
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Const, Expr
from toolchain.spec.model import Machine

POOL = "constants"


def repeatable(machine: Machine) -> frozenset[str]:
    """Names of instructions that only latch their fields, in one element of a register that keeps them for any number of readers."""
    found: set[str] = set()
    for name, semantics in machine_semantics(machine).items():
        if len(semantics.body) == 1 and isinstance(latch := semantics.body[0], Latch) and isinstance(latch.index, Const):
            alone = sum(name in memory.latches for memory in machine.memories) == 1
            register = machine.memory[latch.register]
            found |= {name} if alone and register.latches == (name,) and not register.consumed else set()
    return frozenset(found)


def repeated_latches(machine: Machine, kind: Ints, stream: Ints, row: Ints, tables: Mapping[int, Ints]) -> NDArray[np.bool_]:
    """bool [n]: whether an instruction sets its register to the fields that stand there, which its stream's last of the kind has set.

    kind, stream, row: int64 [n], in an order that keeps each stream's; row: where an instruction's fields stand in tables[kind].
    """
    found = np.zeros(len(kind), np.bool_)
    names = repeatable(machine)
    for number in (n for n, instruction in enumerate(machine.instructions) if instruction.name in names and n in tables):
        places = np.flatnonzero(kind == number)
        places = places[np.argsort(stream[places], kind="stable")]
        values = np.column_stack([stream[places], tables[number][row[places]]])
        found[places[1:]] = (values[1:] == values[:-1]).all(axis=1)
    return found


@dataclass(frozen=True)
class Resident:
    """A constant as templates see it: its records are first..stop - 1."""

    first: int
    stop: int


@dataclass(frozen=True)
class OperationPart:
    """The steps of one operation, and names: those by which they refer to each tile (Instance.names), step by step."""

    problem: Problem
    steps: Sequence[Instance]
    names: Sequence[Mapping[str, int]]


def part_of(problem: Problem, steps: Sequence[Instance]) -> OperationPart:
    """The steps with the names that their instructions see."""
    return OperationPart(problem, steps, [item.names(problem) for item in steps])


class Piece(NamedTuple):
    """Neighbouring instructions of one step: `length` from `first` of all that were written. run: which step, whatever its length."""

    first: int
    length: int
    stream: int
    label: str
    run: Run


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """The instructions of all streams in the order in which they could run one by one, without synchronisation.

    batch: their values. stream: int64 [n]. piece: int64 [n], index into `pieces`, which say their purpose.
    """

    batch: Batch
    stream: Ints
    piece: Ints
    pieces: Sequence[Piece]

    def labels(self) -> list[str]:
        """Each instruction's purpose."""
        return [self.pieces[n].label for n in self.piece.tolist()]

    def origins(self) -> Origins:
        """The step of each instruction."""
        counts = np.bincount(self.piece, minlength=len(self.pieces)).tolist()
        return origins_of([piece.run._replace(length=count) for piece, count in zip(self.pieces, counts, strict=True)])


@dataclass
class Writer:
    """The growing program. batches: instructions as they were written, `total` in all. pieces: those of the program, in order.

    stream: of the next ones. written: the first of each step's instructions and their number, by part and instance.
    """

    machine: Machine
    batches: list[Batch] = field(default_factory=list[Batch])
    total: int = 0
    pieces: list[Piece] = field(default_factory=list[Piece])
    stream: int = 0
    renderer: Renderer = field(default_factory=Renderer)
    written: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict[tuple[int, int], tuple[int, int]])
    rendered: dict[tuple[Path, str], int] = field(default_factory=dict[tuple[Path, str], int])

    def __post_init__(self) -> None:
        self.writer = InstructionWriter(self.machine)

    def step(self, number: int, part: OperationPart, instance: int, scope: Mapping[str, int], fetches: Sequence[Fetch], held: Sequence[int]) -> None:
        """A step after the constants that it lacks. held: where its constants are. Raises UserError E1005 for a template, E0304 for a field."""
        kernel, operation, item = part.problem.kernel, part.problem.operation, part.steps[instance]
        for fetch in fetches:
            names = {"slot": fetch.slot, "base": scope[f"{POOL}_base"] + fetch.offset, "count": fetch.count}
            run = Run(0, number, StepName(POOL, ""), instance)
            self.add(kernel, kernel.loading.code if kernel.loading else (), names, f"{operation.name} {POOL}", run)
        label, run = _label(part, instance), Run(0, number, StepName(_kind(part, instance), item.step.place), instance)
        if isinstance(item.step.code, str):
            own = part.names[instance]
            residents = _residents(part.problem, item, own, held)
            self._template(kernel, item.step.code, {**part.problem.numbers, **scope, **own, **residents}, label, run)
        else:
            self.pieces.append(Piece(*self.written[number, instance], self.stream, label, run))

    def prepare(self, number: int, part: OperationPart, scope: Mapping[str, int], places: Sequence[Sequence[int]]) -> None:
        """The instructions of every step of a part, those of one step at once. places: where the constants of each instance are."""
        same: dict[int, list[int]] = {}
        for instance, item in enumerate(part.steps):
            same.setdefault(id(item.step), []).append(instance)
        light = replace(part, problem=part.problem.without_weights())
        for chosen in same.values():
            if not isinstance(part.steps[chosen[0]].step.code, str):
                batch = _batch(_Instances.of(self.machine, self.writer, light, scope, chosen, places))
                first = self._keep(batch)
                bounds: list[int] = np.searchsorted(batch.of, np.arange(len(chosen) + 1)).tolist()
                for instance, (start, stop) in zip(chosen, pairwise(bounds), strict=True):
                    self.written[number, instance] = first + start, stop - start

    def add(self, kernel: Kernel, code: Code, scope: Mapping[str, int], label: str, run: Run) -> None:
        """The instructions of a template or of items. run: the step that they are from, whatever its length."""
        if isinstance(code, str):
            self._template(kernel, code, scope, label, run)
        elif code:
            batch = self.writer.write(code, Frame(1, scope.__getitem__), lambda _: label)
            self.pieces.append(Piece(self._keep(batch), len(batch), self.stream, label, run))

    def listed(self) -> Listed:
        """The instructions so far, without those that set a register to the fields that it holds."""
        batch = join_batches(self.batches)
        first, count, stream = (np.array([piece[k] for piece in self.pieces], np.int64) for k in range(3))
        piece = np.repeat(np.arange(len(count)), count)
        index = np.arange(len(piece)) + np.repeat(first - np.cumsum(count) + count, count)
        streams = stream[piece]
        kept = ~repeated_latches(self.machine, batch.kind[index], streams, batch.row[index], batch.tables)
        index = index[kept]
        chosen = replace(batch, of=np.zeros(len(index), np.int64), kind=batch.kind[index], row=batch.row[index], source=batch.source[index])
        return Listed(chosen, streams[kept], piece[kept], self.pieces)

    def _template(self, kernel: Kernel, template: str, scope: Mapping[str, object], label: str, run: Run) -> None:
        path = kernel.folder / template
        try:
            text = "".join(self.renderer.lines(kernel.folder, template, scope))
        except UserError as error:
            raise told_for(error, label) from None
        if (path, text) not in self.rendered:
            self.rendered[path, text] = self._keep(_read(self.machine, path, text, label))
        first = self.rendered[path, text]
        self.pieces.append(Piece(first, text.count("\n"), self.stream, label, run))

    def _keep(self, batch: Batch) -> int:
        """The index of the batch's first instruction among all that were written."""
        self.batches.append(batch)
        self.total += len(batch)
        return self.total - len(batch)


def _read(machine: Machine, template: Path, text: str, label: str) -> Batch:
    """The instructions of a template's lines. Raises UserError E0301 to E0308 where they are none."""
    source = Source(f"{template}", text)
    try:
        lines = read_lines(machine, source)
    except UserError as error:
        raise told_of_template(error, source, label, template) from None
    if len(lines.kinds) != text.count("\n") or any(lines.streams):
        raise fail("E1005", f"{template} writes lines that are no instructions, for {label}", hint="comments and `.stream` do not belong there")
    kind, none = np.array(lines.kinds, np.int64), np.zeros(len(lines.kinds), np.int64)
    row, tables = none.copy(), {k: np.array(rows, np.int64).reshape(len(rows), -1) for k, rows in lines.rows.items()}
    for k, table in tables.items():
        row[kind == k] = np.arange(len(table))
    return Batch(none, kind, row, none, tables, (template,))


@dataclass(frozen=True, slots=True, eq=False)
class _Instances:
    """The instances of a step. key: everything that they say, which is compared beside the step itself; steps never change."""

    machine: Machine
    writer: InstructionWriter
    part: OperationPart
    scope: Mapping[str, int]
    chosen: Sequence[int]
    places: Sequence[Sequence[int]]
    key: tuple[Hashable, ...]

    @staticmethod
    def of(
        machine: Machine,
        writer: InstructionWriter,
        part: OperationPart,
        scope: Mapping[str, int],
        chosen: Sequence[int],
        places: Sequence[Sequence[int]],
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
def _batch(given: _Instances) -> Batch:
    """A search writes most operations of a region several times with the same tiles in the same places."""
    code = given.step.code
    assert not isinstance(code, str)
    frame = step_frame(given.part, given.scope, given.chosen, given.places)
    return given.writer.write(code, frame, lambda row: _label(given.part, given.chosen[row]))


def _label(part: OperationPart, instance: int) -> str:
    item = part.steps[instance]
    where = " ".join(f"{d}={first}:{first + size}" for d, (first, size) in item.tile.items())
    return f"{part.problem.operation.name} {_kind(part, instance)} {item.step.place} {where}".rstrip()


def _kind(part: OperationPart, instance: int) -> str:
    step = part.steps[instance].step
    return BRING if part.names[instance].get(f"{step.place}_near_brings") else step.kind


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
