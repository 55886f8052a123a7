"""The last rung: the fast engine leaves the same memory behind as the reference engine.

A large program is checked in parts: one instruction, or a few of the elements it writes. Of an instruction that writes millions of elements, only the
iterations are executed that write one of the chosen, found by following the addresses alone; results of the instruction that those read are chosen as
well. Memories are compared in the pages that were ever touched.
"""

import functools
import mmap
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil

import numpy as np
from numpy.typing import NDArray

from toolchain.analysis.state import Element, State, read_bytes, write_bytes
from toolchain.emulator import engine_named
from toolchain.emulator.reference.engine import Action, Frames, Listener, Reference, Statements, ignore
from toolchain.emulator.reference.scalar import element_of
from toolchain.isa.footprint.footprints import Footprints
from toolchain.isa.program import Ints, Program
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.loops import assigned, exposed
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.isa.semantics.traverse import expressions, nodes, statements
from toolchain.spec.fingerprint import MachineKey
from toolchain.spec.model import Machine
from toolchain.verify.on_chip import instruction_text
from toolchain.verify.verdict import Disagreement, Sampled

PAGES = "/proc/self/pagemap"
"""Eight bytes for each page of this process; the two highest bits: it is in memory, it is swapped out."""
HELD = np.uint64(3 << 62)

Bytes = NDArray[np.uint8]


def touched(memory: Bytes) -> list[tuple[int, int]]:
    """Ranges [start, stop) of a state's memory, instances end to end, ascending: all other bytes are zero, as they were made.

    All of it where the system does not tell.
    """
    flat = memory.reshape(-1)
    witness, pages = _held(np.ones(mmap.PAGESIZE, np.uint8)), _held(flat)
    if flat.ctypes.data % mmap.PAGESIZE or pages is None or witness is None or not witness.all():
        return [(0, flat.size)]
    edges = np.flatnonzero(np.diff(pages, prepend=False, append=False)) * mmap.PAGESIZE
    return [(start, min(stop, flat.size)) for start, stop in edges.reshape(-1, 2).tolist()]


def _held(flat: Bytes) -> NDArray[np.bool_] | None:
    """bool, for each page that an array lies in; None where the system does not tell."""
    first, last = flat.ctypes.data // mmap.PAGESIZE, -(-(flat.ctypes.data + flat.size) // mmap.PAGESIZE)
    try:
        entries = np.fromfile(PAGES, np.uint64, last - first, offset=8 * first)
    except OSError:
        return None
    return (entries & HELD) != 0 if len(entries) == last - first else None


def first_difference(one: Bytes, other: Bytes) -> tuple[int, int] | None:
    """Instance and byte of the first difference of two states' memories [instances, bytes] of one shape; None where both are equal."""
    flat = one.reshape(-1), other.reshape(-1)
    for start, stop in sorted({*touched(one), *touched(other)}):
        found = _first_byte(flat, start, stop)
        if found is not None:
            instance, byte = divmod(found, one.shape[1])
            return instance, byte
    return None


def _first_byte(flat: Sequence[Bytes], start: int, stop: int) -> int | None:
    """The first byte of a range that differs, looked for a few megabytes at a time."""
    for low, high in pairwise([*range(start, stop, 1 << 22), stop]):
        differs = flat[0][low:high] != flat[1][low:high]
        if differs.any():
            return low + int(np.argmax(differs))
    return None


@dataclass(frozen=True, slots=True)
class Written:
    """An element as it is after the instruction."""

    element: Element
    data: bytes


def recompute(program: Program, state: State, index: int, elements: int | None = None, seed: int = 0) -> tuple[Written, ...]:
    """Executes instruction `index` on `state`, which stays as it is: the written elements, in order of place.

    elements: only so many, drawn with `seed`; the others are not computed. Raises UserError E07xx as the engine does.
    """
    journal = _Journal(state)
    try:
        return (
            _recompute_whole(program, state, index, journal) if elements is None else _recompute_some(program, state, index, journal, elements, seed)
        )
    finally:
        journal.restore()


def disagreements(state: State, written: Sequence[Written]) -> tuple[Written, ...]:
    """Elements whose bytes differ in the state after another engine executed the instruction."""
    return tuple(w for w in written if read_bytes(state, w.element) != w.data)


class _Journal:
    """Keeps the contents of elements and registers, to put them back."""

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


def _recompute_whole(program: Program, state: State, index: int, journal: _Journal) -> tuple[Written, ...]:
    Reference(program).execute(index, state, Listener(ignore, journal.note))
    return _results(state, journal.order)


def _results(state: State, elements: Collection[Element]) -> tuple[Written, ...]:
    return tuple(Written(e, read_bytes(state, e)) for e in sorted(set(elements), key=_ordinal))


def _ordinal(element: Element) -> tuple[str, int, int, int]:
    return element.memory, element.instance, element.start, element.size


def _recompute_some(program: Program, state: State, index: int, journal: _Journal, count: int, seed: int) -> tuple[Written, ...]:
    machine, engine = program.machine, Reference(program)
    follow, execute = _actions(MachineKey(machine), machine.instructions[int(program.kind[index])].name)
    written: set[Element] = set()
    follow(engine.frames(index, state, Listener(ignore, written.add)))
    drawn = random.Random(seed).sample(sorted(written, key=_ordinal), min(count, len(written)))
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
    """Following an instruction's addresses, and executing the writers of the chosen granules; made once for each Machine object."""
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
    """Executes the writers of chosen granules, and leaves out other iterations and the replicas that only write others."""

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


@dataclass(frozen=True)
class SampleSize:
    """How much the reference engine executes again. instructions: of a large program, each kind at least once; elements: of each of them.

    whole: a program that moves at most so many bytes, on chip and off, is executed as a whole. seed: of the draw.
    """

    instructions: int = 24
    elements: int = 4
    whole: int = 300_000
    seed: int = 0

    def share(self, number: int, regions: int) -> "SampleSize":
        """The part of region `number` of a model that has so many: all together take about as long as one large one, and each draws for itself."""
        return replace(self, instructions=ceil(self.instructions / regions), whole=self.whole // regions, seed=self.seed + number)


def sample_reference(
    program: Program, order: Ints, prints: Footprints, listing: Sequence[str], state: Callable[[], State], size: SampleSize
) -> Sampled:
    """order: in which instructions run one by one. state: makes a new state as it stands before the program.

    Raises UserError E07xx where an engine refuses the program."""
    traffic = int(prints.traffic_read.sum() + prints.traffic_written.sum())
    if traffic <= size.whole:
        return _whole(program, order, state)
    return _some(program, order, listing, state(), size)


def _whole(program: Program, order: Ints, state: Callable[[], State]) -> Sampled:
    fast, reference = state(), state()
    engine_named("fast")(program, fast, order)
    engine_named("reference")(program, reference, order)
    return Sampled(len(program), len(program), 0, _compare_states(reference, fast))


def _compare_states(reference: State, fast: State) -> Disagreement | None:
    for name, memory in reference.memories.items():
        place = first_difference(memory, fast.memories[name])
        if place:
            held = (f"{state.memories[name][place]:#04x}" for state in (reference, fast))
            return Disagreement("", "", f"byte {place[1]:#x} of {name}[instance {place[0]}]", *held)
    return None


def _some(program: Program, order: Ints, listing: Sequence[str], state: State, size: SampleSize) -> Sampled:
    fast, done, elements, rank = engine_named("fast"), 0, 0, np.argsort(order)
    chosen = sorted(draw_instructions(program, size), key=rank.__getitem__)
    for index in chosen:
        fast(program, state, order[done : rank[index]])
        wanted = recompute(program, state, index, size.elements, size.seed + index)
        fast(program, state, np.arange(index, index + 1, dtype=np.int64))
        done, elements = rank[index] + 1, elements + len(wanted)
        wrong = disagreements(state, wanted)
        if wrong:
            text, found = instruction_text(program, index), read_bytes(state, wrong[0].element)
            return Sampled(
                len(chosen), len(program), elements,
                Disagreement(text, listing[index], _place(wrong[0].element), wrong[0].data.hex(), found.hex()),
            )  # fmt: skip
    return Sampled(len(chosen), len(program), elements)


def draw_instructions(program: Program, size: SampleSize) -> list[int]:
    """Indices in the program's order, drawn with the seed: one of each kind that there is, then any."""
    draw = random.Random(size.seed)
    kinds: Ints = np.unique(program.kind)
    chosen = {int(draw.choice(np.flatnonzero(program.kind == kind).tolist())) for kind in kinds.tolist()}
    others = [index for index in range(len(program)) if index not in chosen]
    chosen.update(draw.sample(others, min(max(size.instructions - len(chosen), 0), len(others))))
    return sorted(chosen)


def _place(element: Element) -> str:
    return f"{element.size} bytes from {element.start:#x} of {element.memory}[instance {element.instance}]"
