"""Parts of a large program checked with the reference engine: one instruction, or a few of the elements it writes.

Of an instruction that writes millions of elements, only the iterations are executed that write one of the chosen, found
by following the addresses alone; whatever those read of the instruction's own earlier results is chosen as well.
"""

import functools
import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from toolchain.analysis.state import State
from toolchain.emulator.reference.elements import Element, read_bytes, write_bytes
from toolchain.emulator.reference.engine import Action, Frames, Listener, Reference, Statements, ignore
from toolchain.emulator.reference.scalar import element_of
from toolchain.isa.program import Program
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.loop_carried import assigned, exposed
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.isa.semantics.traverse import expressions, nodes, statements
from toolchain.spec.fingerprint import MachineKey
from toolchain.spec.model import Machine


@dataclass(frozen=True, slots=True)
class Written:
    """An element as it is after the instruction."""

    element: Element
    data: bytes


def recompute(program: Program, state: State, index: int, elements: int | None = None, seed: int = 0) -> tuple[Written, ...]:
    """Executes instruction `index` on `state`, which stays as it is: what it writes, in order of place.

    elements: only so many, drawn with `seed`; the others are not computed. Raises UserError E07xx as the engine does.
    """
    journal = _Journal(state)
    try:
        return _whole(program, state, index, journal) if elements is None else _some(program, state, index, journal, elements, seed)
    finally:
        journal.restore()


def disagreements(state: State, written: Sequence[Written]) -> tuple[Written, ...]:
    """Elements whose bytes differ in the state after another engine executed the instruction."""
    return tuple(w for w in written if read_bytes(state, w.element) != w.data)


class _Journal:
    """Keeps what elements and registers held, to put it back."""

    def __init__(self, state: State) -> None:
        self.state, self.registers = state, replace(state, memories={}).copy()
        self.old: dict[Element, bytes] = {}
        self.order: list[Element] = []

    def note(self, element: Element) -> None:
        if element not in self.old:
            self.old[element] = read_bytes(self.state, element)
            self.order.append(element)

    def restore(self) -> None:
        for element in reversed(self.order):
            write_bytes(self.state, element, self.old[element])
        for name in self.state.latched:
            self.state.latched[name][:] = self.registers.latched[name]
            self.state.written[name][:] = self.registers.written[name]
        self.old.clear()
        self.order.clear()


def _whole(program: Program, state: State, index: int, journal: _Journal) -> tuple[Written, ...]:
    Reference(program).execute(index, state, Listener(ignore, journal.note))
    return _results(state, journal.order)


def _results(state: State, elements: Collection[Element]) -> tuple[Written, ...]:
    return tuple(Written(e, read_bytes(state, e)) for e in sorted(set(elements), key=_place))


def _place(element: Element) -> tuple[str, int, int, int]:
    return element.memory, element.instance, element.start, element.size


def _some(program: Program, state: State, index: int, journal: _Journal, count: int, seed: int) -> tuple[Written, ...]:
    machine, engine = program.machine, Reference(program)
    follow, execute = _actions(MachineKey(machine), machine.instructions[int(program.kind[index])].name)
    written: set[Element] = set()
    follow(engine.frames(index, state, Listener(ignore, written.add)))
    drawn = random.Random(seed).sample(sorted(written, key=_place), min(count, len(written)))
    results, chosen = _blocks(machine, written), _blocks(machine, drawn)
    while True:
        read: set[Element] = set()
        frames = engine.frames(index, state, Listener(read.add, journal.note))
        for frame in frames:
            frame.chosen = frozenset(chosen)
        execute(frames)
        missing = (_blocks(machine, read) & results) - chosen
        if not missing:
            return _results(state, drawn)
        journal.restore()
        chosen |= missing


@functools.lru_cache(maxsize=256)
def _actions(key: MachineKey, name: str) -> tuple[Action, Action]:
    """Following an instruction's addresses, and executing what writes the chosen granules; made once for each Machine object."""
    semantics = machine_semantics(key.machine)[name]
    return _Addresses(key.machine, semantics).body(), _Chosen(key.machine, semantics).body()


Block = tuple[str, int, int]
"""Memory, instance and number of a granule."""


def _blocks(machine: Machine, elements: Iterable[Element]) -> set[Block]:
    found: set[Block] = set()
    for e in elements:
        step, past = machine.memory[e.memory].granule, max(e.start + e.size - e.end, 0)
        for start, stop in ((e.start, e.start + e.size - past), (e.base, e.base + past)):
            found.update((e.memory, e.instance, number) for number in range(start // step, -(-stop // step) if stop > start else start // step))
    return found


@dataclass(frozen=True)
class _Addresses(Statements):
    """Follows loops, branches and local names only; tells where every write goes, and writes nothing."""

    def block(self, body: Sequence[ir.Stmt]) -> Action:
        return super().block([stmt for stmt in body if _matters(stmt, self.semantics)])

    def _statement(self, stmt: ir.Stmt) -> Action:
        if not isinstance(stmt, ir.Store):
            return super()._statement(stmt)
        find = element_of(stmt.access)

        def tell(frames: Frames) -> None:
            for frame in frames:
                frame.writes(find(frame))

        return tell


def _matters(stmt: ir.Stmt, semantics: ir.Semantics) -> bool:
    """Whether a statement decides where a write goes: it holds one, or assigns a name that is used outside it."""
    inside = list(statements((stmt,)))
    if any(isinstance(inner, ir.Store) for inner in inside):
        return True
    names = {name for name, temp in assigned((stmt,)) if not temp}
    outside = [other for other in statements(semantics.body) if all(other is not inner for inner in inside)]
    return any(isinstance(e, ir.Var) and e.name in names for other in outside for part in expressions(other) for e in nodes(part))


@dataclass(frozen=True)
class _Chosen(Statements):
    """Executes what writes a chosen granule, and leaves out other iterations and the replicas that only write others."""

    def _for(self, stmt: ir.For) -> Action:
        if not _independent(stmt):
            return super()._for(stmt)
        addresses = _Addresses(self.machine, self.semantics)
        probe, body = addresses.block(stmt.body), self.block(stmt.body)

        def run_chosen(frames: Frames) -> None:
            taking = self._writers(probe, frames)
            if taking:
                body(taking)

        return self.loop(stmt, run_chosen)

    def _writers(self, probe: Action, frames: Frames) -> Frames:
        """The replicas that write a chosen granule."""
        found = [set[Element]() for _ in frames]
        told = [frame.writes for frame in frames]
        for frame, own in zip(frames, found, strict=True):
            frame.writes = own.add
        probe(frames)
        for frame, before in zip(frames, told, strict=True):
            frame.writes = before
        return [frame for frame, own in zip(frames, found, strict=True) if not frame.chosen.isdisjoint(_blocks(self.machine, own))]


def _independent(stmt: ir.For) -> bool:
    """The innermost of loops around a write whose iterations hand each other nothing but memory."""
    writes = any(isinstance(inner, ir.Store) for inner in statements(stmt.body))
    innermost = not (len(stmt.body) == 1 and isinstance(stmt.body[0], ir.For))
    return writes and innermost and not exposed(stmt.body)[0] & assigned(stmt.body)
