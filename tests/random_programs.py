"""Random programs that run on any machine, made from its description alone, and random states to run them on.

Candidates are made and tried one after the other on the reference engine: what faults or takes long is undone and left out. A chained
program is one stream in which instructions of different queues wait for the one before them, all of them or most.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from toolchain.analysis.state import Element, State, new_state, read_bytes, write_bytes
from toolchain.emulator.reference.engine import Listener, Reference
from toolchain.isa.checks import build_program, violations
from toolchain.isa.encode import encode_streams, matched_value
from toolchain.isa.program import Ints, Program
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec.errors import UserError
from toolchain.spec.evaluate import constant, evaluate
from toolchain.spec.expr import Expr, Name, walk
from toolchain.spec.fingerprint import MachineKey
from toolchain.spec.model import Field, Instruction, Machine, SyncRule

Fields = dict[str, int]
FILLED = 1 << 18
CORNERS = np.array([0, 1, 127, 128, 255], np.uint8)
TRIES = 40
LONGEST = 300
"""Elements that one instruction may read and write."""


def random_state(machine: Machine, seed: int) -> State:
    """Random bytes in every memory (the first 256 KB of large ones), host registers that point near the start."""
    state = new_state(machine)
    for name, found in _contents(MachineKey(machine), seed).items():
        if name in state.memories:
            state.memories[name][:, : found.shape[1]] = found
        else:
            state.host[name][:] = found
    return state


@lru_cache(maxsize=1)
def _contents(key: MachineKey, seed: int) -> Mapping[str, NDArray[Any]]:
    """Drawn once for all engines that begin with them."""
    rng, state, found = np.random.default_rng(seed), new_state(key.machine), dict[str, NDArray[Any]]()
    for memory in key.machine.memories:
        if memory.name in state.memories:
            count, size = state.memories[memory.name].shape
            drawn = rng.integers(0, 256, (count, min(size, FILLED)), np.uint8)
            corners = CORNERS[rng.integers(0, len(CORNERS), drawn.shape[1], np.uint8)]
            found[memory.name] = np.where(rng.integers(0, 4, drawn.shape[1], np.uint8) == 0, corners, drawn)
        elif memory.host:
            found[memory.name] = rng.integers(0, 64, state.host[memory.name].shape) * 256
    return found


def random_program(machine: Machine, seed: int, length: int = 16, chained: float = 0.0) -> Program:
    """About `length` instructions and the end; on several streams, unless chained: the share of instructions that wait."""
    return _Generator(machine, seed, chained).program(length)


def programs(machine: Machine, length: int = 16, chained: float = 0.0) -> st.SearchStrategy[tuple[int, Program]]:
    """Seeds and their programs, as a hypothesis strategy."""
    return st.integers(0, 1 << 32).map(lambda seed: (seed, random_program(machine, seed, length, chained)))


class _TooLong(Exception):  # noqa: N818
    pass


@dataclass
class _Draft:
    """What was accepted, in order. unit: where each instruction runs."""

    kinds: list[int] = field(default_factory=list)
    streams: list[int] = field(default_factory=list)
    rows: list[Fields] = field(default_factory=list)
    units: list[str] = field(default_factory=list)


class _Generator:
    def __init__(self, machine: Machine, seed: int, chained: float) -> None:
        self.machine, self.chained = machine, chained
        self.rng = np.random.default_rng(seed)
        self.state = random_state(machine, seed)
        self.ends = next((k for k, i in enumerate(machine.instructions) if i.name == machine.program.ends), -1)
        self.draft = _Draft()

    def program(self, length: int) -> Program:
        streams = self._streams()
        for stream in streams:
            self._stream(stream, max(length // len(streams), 3))
            if self.ends >= 0:
                self._accept(self.ends, stream, self._end())
        return _build(self.machine, self.draft)

    def _streams(self) -> list[int]:
        most = 1 if self.chained else min(self.machine.streams, 3)
        return sorted(self.rng.choice(self.machine.streams, most, replace=False).tolist())

    def _end(self) -> Fields:
        instruction = self.machine.instructions[self.ends]
        return {f.name: _usual(instruction, f) for f in instruction.fields}

    def _stream(self, stream: int, length: int) -> None:
        usable = [k for k in range(len(self.machine.instructions)) if k != self.ends and not self._always_waits(k)]
        attempts = {k: self.rng.permutation(TRIES).tolist() for k in usable}
        start = len(self.draft.kinds)
        first = [k for k in attempts if _latches(self.machine, k) for _ in range(2)]
        for _ in range(8 * length):
            kinds = [k for k, left in attempts.items() if left]
            if len(self.draft.kinds) - start >= length or not kinds:
                return
            kind = first.pop(0) if first and attempts[first[0]] else int(self.rng.choice(kinds))
            candidate = self._candidate(kind, stream, attempts[kind])
            if candidate is not None:
                self._offer(candidate, kind, stream)

    def _offer(self, candidate: Program, kind: int, stream: int) -> None:
        """Accepts a candidate if it can follow what there is, and runs."""
        unit = self.machine.units[int(candidate.unit[0])].name
        fields = {name: candidate.field(0, name) for name in candidate.columns[kind]}
        linked = self._linked(kind, unit, fields) if self.draft.kinds and self.rng.random() < self.chained else (fields, self.draft.rows[-1:])
        if linked is not None and self._runs(Reference(candidate)):
            self.draft.rows[-1:] = linked[1]
            self._accept(kind, stream, linked[0], unit)

    def _accept(self, kind: int, stream: int, fields: Fields, unit: str = "") -> None:
        if kind == self.ends and self.chained and self.draft.kinds:
            unit = self.machine.units[constant(self.machine.instructions[kind].unit, self.machine.params | fields)].name
            fields, self.draft.rows[-1:] = self._linked(kind, unit, fields) or (fields, self.draft.rows[-1:])
        self.draft.kinds.append(kind)
        self.draft.streams.append(stream)
        self.draft.rows.append(fields)
        self.draft.units.append(unit)

    def _runs(self, engine: Reference) -> bool:
        undo: list[tuple[Element, bytes]] = []
        touched = 0

        def count() -> None:
            nonlocal touched
            touched += 1
            if touched > LONGEST:
                raise _TooLong

        def writes(element: Element) -> None:
            count()
            undo.append((element, read_bytes(self.state, element)))

        registers = [{k: v.copy() for k, v in held.items()} for held in (self.state.latched, self.state.written)]
        try:
            engine.execute(0, self.state, Listener(lambda _: count(), writes))
        except (UserError, _TooLong):
            for element, data in reversed(undo):
                write_bytes(self.state, element, data)
            for held, before in zip((self.state.latched, self.state.written), registers, strict=True):
                for name, array in before.items():
                    held[name][:] = array
            return False
        return True

    # synchronisation

    def _linked(self, kind: int, unit: str, fields: Fields) -> tuple[Fields, list[Fields]] | None:
        """The candidate made to wait for the last instruction, and that made to post; None where no counter leads there."""
        before, last = self.draft.units[-1], len(self.draft.kinds) - 1
        if before == unit:
            return fields, self.draft.rows[-1:]
        for counter in self.machine.counters:
            if (counter.source, counter.target) != (before, unit):
                continue
            waiting = self._enabled("wait", counter.name, kind, unit, fields)
            posting = self.draft.rows[last]
            if counter.mode != "all_prior":
                posting = self._enabled("post", counter.name, self.draft.kinds[last], before, posting)
            if waiting is not None and posting is not None:
                return waiting, [posting]
        return None

    def _enabled(self, action: str, counter: str, kind: int, unit: str, fields: Fields) -> Fields | None:
        """The fields with one bit more, so that exactly this counter is waited for or posted in addition."""
        instruction = self.machine.instructions[kind]
        wanted = {*self._active(instruction, unit, fields), (action, counter)}
        for part in instruction.fields:
            for bit in range(part.bits if part.role == "sync" and part.name not in instruction.match else 0):
                more = {**fields, part.name: fields[part.name] | 1 << bit}
                if self._active(instruction, unit, more) == wanted:
                    return more
        return None

    def _active(self, instruction: Instruction, unit: str, fields: Mapping[str, int]) -> set[tuple[str, str]]:
        rules = (r for r in self.machine.sync if unit in r.units and instruction.name in r.instructions)
        return {(r.kind, r.counter) for r in rules if self._holds(r, fields)}

    def _holds(self, rule: SyncRule, fields: Mapping[str, int]) -> bool:
        places = {level.name: 0 for level in self.machine.levels}
        return bool(constant(rule.when, {**self.machine.params, **places, **fields}))

    # candidates

    def _always_waits(self, kind: int) -> bool:
        instruction = self.machine.instructions[kind]
        fields = {f.name: _usual(instruction, f) for f in instruction.fields}
        return any(action == "wait" for u in self.machine.units for action, _ in self._active(instruction, u.name, fields))

    def _candidate(self, kind: int, stream: int, attempts: list[int]) -> Program | None:
        """An instruction that obeys the constraints; high attempts are bold. Takes attempts away until one succeeds; None where none does."""
        instruction = self.machine.instructions[kind]
        body = machine_semantics(self.machine)[instruction.name].body
        while attempts:
            boldness = 0.02 + 0.2 * attempts.pop() / TRIES
            fields = self._repaired(instruction, {f.name: self._value(instruction, f, boldness) for f in instruction.fields})
            with contextlib.suppress(UserError):
                one = _build(self.machine, _Draft([kind], [stream], [fields]), encoded=False)
                if _trips(body, fields) <= LONGEST * 4 and not violations(one):
                    return one
        return None

    def _repaired(self, instruction: Instruction, fields: Fields) -> Fields:
        """The fields of a broken constraint are drawn again, timidly."""
        for _ in range(40):
            broken = next((c.that for c in instruction.constraints if not self._allows(c.that, fields)), None)
            if broken is None:
                break
            named = {e.id for e in walk(broken) if isinstance(e, Name)}
            fields |= {f.name: self._value(instruction, f, 0.0) for f in instruction.fields if f.name in named}
        return fields

    def _allows(self, condition: Expr, fields: Fields) -> bool:
        try:
            return bool(constant(condition, {**self.machine.params, **fields}))
        except UserError:
            return True

    def _value(self, instruction: Instruction, part: Field, boldness: float) -> int:
        if part.name in instruction.match or part.role == "sync":
            return _usual(instruction, part)
        rng = self.rng
        if part.names and rng.random() < 0.7:
            return int(rng.choice(list(part.names.values())))
        if part.default is not None and rng.random() < 0.3:
            return _usual(instruction, part)
        if rng.random() < boldness:
            corners = [
                part.low,
                part.high,
                *(d - int(rng.integers(0, 9)) for d in self._depths()),
                int(rng.integers(part.low, part.high, endpoint=True)),
            ]
            found = int(rng.choice(corners))
        elif part.role == "address":
            found = int(rng.integers(-4, 24)) * int(rng.choice([1, 1, 16]))
        else:
            found = int(rng.choice([0, 1, 1, 1, 1, 2, 2, 3, 5, -1]))
        return min(max(found, part.low), part.high)

    def _depths(self) -> list[int]:
        return [depth for memory in self.machine.memories for depth in memory.depths]


def _trips(body: tuple[ir.Stmt, ...], fields: Fields) -> int:
    """How often the innermost loops start, as far as fields alone tell."""

    def leaf(e: Expr) -> int:
        if isinstance(e, ir.FieldRef):
            return fields[e.name]
        raise KeyError(e)

    total = 1
    for stmt in body:
        match stmt:
            case ir.For(start=start, stop=stop, body=inner):
                try:
                    times = evaluate(stop, leaf) - evaluate(start, leaf)
                except (KeyError, UserError):
                    times = 1
                total += max(times, 0) * _trips(inner, fields)
            case ir.If(then=then, other=other):
                total += _trips(then, fields) + _trips(other, fields)
            case _:
                pass
    return total


def _usual(instruction: Instruction, part: Field) -> int:
    if part.name in instruction.match:
        return matched_value(instruction, part)
    return min(max(part.default or 0, part.low), part.high)


def _latches(machine: Machine, kind: int) -> bool:
    return any(isinstance(stmt, ir.Latch) for stmt in machine_semantics(machine)[machine.instructions[kind].name].body)


def _build(machine: Machine, draft: _Draft, encoded: bool = True) -> Program:
    kind, stream = np.array(draft.kinds, np.int64), np.array(draft.streams, np.int64)
    columns: list[dict[str, Ints]] = []
    for number, instruction in enumerate(machine.instructions):
        rows = [row for k, row in zip(draft.kinds, draft.rows, strict=True) if k == number]
        columns.append({f.name: np.array([row[f.name] for row in rows], np.int64) for f in instruction.fields})
    data, offset = encode_streams(machine, kind, stream, columns) if encoded else ((), np.zeros(len(kind), np.int64))
    return build_program(machine, data, kind, stream, offset, tuple(columns))
