"""Steps to a program: their instructions are written as columns, constants get resident, synchronisation is derived, every line keeps its origin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from toolchain.analysis.state import State
from toolchain.isa.assembly import build_from_tables, misplaced_ends, write_line
from toolchain.isa.assembly_line import forms
from toolchain.isa.checks import Violation, join_programs, violations
from toolchain.isa.program import NONE, Origins, Program, Run, join_origins
from toolchain.schedule.kernels.constants import Residency, constant_bytes, plan_residency
from toolchain.schedule.kernels.instructions import Place, once, told
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.synchronisation.across import stopping_events, synchronise_phases, synchronise_streams
from toolchain.schedule.synchronisation.synchronise import Solved, Synchronised, moved_elsewhere, synchronise
from toolchain.schedule.writer import Listed, OperationPart, Writer
from toolchain.spec.arrays import Ints
from toolchain.spec.errors import Diagnostic, fail
from toolchain.spec.expr import Name, walk
from toolchain.spec.model import Machine
from toolchain.timing.simulate import Timeline


@dataclass(frozen=True)
class Emitted:
    """listing: the purpose of each instruction, for a reader; empty for one that only passes tokens. origins: the same by numbers, of parts.
    timeline: of the program, where synchronisation timed it. solved: the program before and after synchronisation."""

    program: Program
    listing: tuple[str, ...]
    origins: Origins
    timeline: Timeline | None = None
    solved: Solved | None = None


def pool_kernel(parts: Sequence[OperationPart]) -> Kernel | None:
    """The kernel whose `residency` says how constants get on chip; None where no operation has any.

    Raises UserError E1007 where kernels of one program keep constants in several memories or views.
    """
    found = [part.problem.kernel for part in parts if part.problem.kernel.constants and part.problem.kernel.loading]
    kept = {(k.constants[0].memory, k.loading.view if k.loading else "") for k in found}
    if len(kept) > 1:
        raise fail("E1007", f"the kernels of one program keep constants in several places: {', '.join(map(str, sorted(kept)))}", found[0].span)
    return found[0] if found else None


def together(copies: Sequence[Emitted], apart: int) -> Emitted:
    """Programs that run side by side as one. apart: how many streams on each is to run from the one before; 0 where they already do."""
    labels = tuple(label for each in copies for label in each.listing)
    return Emitted(join_programs([each.program for each in copies], apart), labels, join_origins([each.origins for each in copies]))


Sequenced = Sequence[tuple[int, int]]
"""Steps in the order of the program: (part, step of it)."""


def in_turn(parts: Sequence[OperationPart]) -> Sequenced:
    """One part after the other."""
    return [(number, index) for number, part in enumerate(parts) for index in range(len(part.steps))]


def plan_constants(machine: Machine, parts: Sequence[OperationPart], sequence: Sequenced) -> Residency:
    """Records that each step of the program needs, their places, and the fetches before it; in the order of `sequence`."""
    kernel = pool_kernel(parts)
    contents = [_contents(machine, part) for part in parts]
    uses = [contents[number][index] for number, index in sequence]
    if kernel is None:
        return Residency(b"", tuple(() for _ in uses), tuple(() for _ in uses))
    memory = machine.memory[kernel.constants[0].memory]
    return plan_residency(uses, memory.element.bytes, memory.elements)


def _contents(machine: Machine, part: OperationPart) -> list[list[bytes]]:
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
    parts: Sequence[OperationPart],
    sequence: Sequenced,
    residency: Residency,
    scopes: Sequence[Mapping[str, int]],
    state: State,
    dealt: Sequence[int] | None = None,
    barriers: bool = False,
    known: Solved | None = None,
) -> Emitted:
    """The program of the steps of these parts. scopes: the names that templates see of each part's tensors (X_base and the like), and
    `constants_base` where there are any. state: the contents of memory before it runs. dealt: the stream of each step of the sequence, in which all
    could run one by one; without it, one stream does all. barriers: one wait may take the tokens of several streams. known: of other streams,
    whose synchronisation is taken where it serves.

    Raises UserError E1005 for a template, E1007 for constants of several streams, E0304 for a field, E0309, E0404, E0405 for instructions that the
    machine refuses, and all of `synchronise`.
    """
    writer = Writer(machine)
    first, last = parts[0].problem, parts[-1].problem.kernel
    streams = sorted(set(dealt)) if dealt else [0]
    if dealt and residency.pool:
        raise fail("E1007", "kernels with records in a control memory run on one stream", first.kernel.span)
    for writer.stream in streams:
        writer.add(first.kernel, first.kernel.begin, {**first.numbers, **scopes[0]}, "begin", Run(0, NONE, None, NONE))
    places: list[list[tuple[int, ...]]] = [[()] * len(part.steps) for part in parts]
    for (number, instance), held in zip(sequence, residency.places, strict=True):
        places[number][instance] = held
    for number, (part, scope) in enumerate(zip(parts, scopes, strict=True)):
        writer.prepare(number, part, scope, places[number])
    for (number, instance), fetches, writer.stream in zip(sequence, residency.fetches, dealt or [0] * len(sequence), strict=True):
        writer.step(number, parts[number], instance, scopes[number], fetches, places[number][instance])
    for writer.stream in streams:
        writer.add(last, last.end, {}, "end", Run(0, NONE, None, NONE))
    listed = writer.listed()
    order = np.argsort(listed.stream, kind="stable")
    program = _built(_Instructions(machine, listed, order))
    rank = tuple(np.argsort(order, kind="stable").tolist()) if dealt else None
    lent = moved_elsewhere(known, program) if known and known.serves(program) else None
    found = lent or _synchronised(_Unsynchronised(program, state, rank, barriers))
    source = np.append(order, NONE)[found.source]
    labels = [*listed.labels(), ""]
    lines: list[int] = source.tolist()
    return Emitted(found.program, tuple(labels[i] for i in lines), listed.origins().taken(source), found.timeline, Solved(program, found))


@dataclass(frozen=True, slots=True, eq=False)
class _Instructions:
    """The instructions that were written, compared by content. order: int64 [n], the instructions stream by stream."""

    machine: Machine
    listed: Listed
    order: Ints

    def tables(self) -> list[Ints]:
        """The values of each kind of instruction in the program's order."""
        batch, none = self.listed.batch, np.zeros((0, 0), np.int64)
        kind, row = batch.kind[self.order], batch.row[self.order]
        forms_of = forms(self.machine).values()
        return [batch.tables.get(f.kind, none.reshape(0, len(f.fields)))[row[kind == f.kind]] for f in forms_of]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Instructions):
            return NotImplemented
        if self.machine is not other.machine or len(self.order) != len(other.order):
            return False
        one, two = self.listed, other.listed
        same = np.array_equal(one.batch.kind, two.batch.kind) and np.array_equal(one.stream, two.stream)
        return same and all(np.array_equal(a, b) for a, b in zip(self.tables(), other.tables(), strict=True))

    def __hash__(self) -> int:
        return hash((id(self.machine), self.listed.batch.kind.tobytes(), self.listed.stream.tobytes()))


@lru_cache(maxsize=4)
def _built(given: _Instructions) -> Program:
    """A build emits the program again that its search has chosen, so the last ones are kept."""
    listed, machine = given.listed, given.machine
    kind, stream = listed.batch.kind[given.order], listed.stream[given.order]
    ends = [Violation(index, "E0309", message) for index, message in misplaced_ends(machine, kind, stream)]
    _refuse(given, ends)
    program = build_from_tables(machine, kind, stream, given.tables())
    _refuse(given, violations(program))
    return program


def _refuse(given: _Instructions, found: Sequence[Violation]) -> None:
    """Raises a UserError of the violations, if there are any, each told of the place that wrote the instruction."""
    if found:
        raise once(_told(given, violation) for violation in found)


def _told(given: _Instructions, violation: Violation) -> tuple[Diagnostic, Place]:
    """A violation of the machine's rules, told of the place that wrote the instruction."""
    index, batch = int(given.order[violation.index]), given.listed.batch
    form = list(forms(given.machine).values())[int(batch.kind[index])]
    label, place = given.listed.pieces[int(given.listed.piece[index])].label, batch.sources[int(batch.source[index])]
    return told(Diagnostic(violation.code, violation.message), write_line(form, batch.values(index)), label, place), place


@dataclass(frozen=True, slots=True, eq=False)
class _Unsynchronised:
    """A program and the contents of memory before it runs, both compared by identity. order: of its instructions, where streams share the work."""

    program: Program
    state: State
    order: tuple[int, ...] | None
    barriers: bool

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Unsynchronised):
            return NotImplemented
        return self.program is other.program and self.state is other.state and (self.order, self.barriers) == (other.order, other.barriers)

    def __hash__(self) -> int:
        return hash((id(self.program), id(self.state), self.order, self.barriers))


@lru_cache(maxsize=4)
def _synchronised(given: _Unsynchronised) -> Synchronised:
    if given.order is None:
        return synchronise(given.program, given.state, moving=True)
    order, events = np.array(given.order, np.int64), stopping_events(given.program.machine)
    if events:
        return synchronise_phases(given.program, order, given.state, events)
    return synchronise_streams(given.program, order, given.state, given.barriers)
