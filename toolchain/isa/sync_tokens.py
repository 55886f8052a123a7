"""The sync rules of a machine: from a counter to the bit of an instruction that moves it, and in numbers for one program, who takes and gives how
many tokens of which counter."""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.columns import evaluate_columns, field_leaf
from toolchain.isa.program import Ints, Program, stream_index
from toolchain.isa.semantics.instances import scope_levels, stream_levels
from toolchain.spec.errors import UserError, fail
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Const, Expr, Name
from toolchain.spec.fingerprint import MachineKey
from toolchain.spec.model import Counter, Instruction, Machine, SyncRule

WAIT, POST = "wait", "post"


@dataclass(frozen=True)
class Bit:
    """A bit of a field of an instruction."""

    field: str
    bit: int


@dataclass(frozen=True)
class Channel:
    """A counter from one queue to another. depth: None is unbounded. event: which one of the target's stream, where instructions of their own
    post and take; of another channel -1.

    Queues are indices into machine.units where each stream has such a counter, and stream * units + unit in a plan of several streams.
    """

    counter: str
    source: int
    target: int
    mode: str
    depth: int | None
    event: int = -1


@dataclass(frozen=True)
class SyncEncoding:
    """channels: by (source, target). bits: by (kind of instruction, unit, WAIT or POST, counter), the bit that moves one token."""

    channels: Mapping[tuple[int, int], Channel]
    bits: Mapping[tuple[int, int, str, str], Bit]

    def carries(self, kind: int, unit: int, action: str, channel: Channel) -> bool:
        """Whether such an instruction can wait on the channel, or post to it; posts to all_prior need no bit, events are moved beside it."""
        return channel.event >= 0 or (kind, unit, action, channel.counter) in self.bits or (action == POST and channel.mode == "all_prior")


def sync_encoding(machine: Machine) -> SyncEncoding:
    """Counters between two units that start empty and of which every stream has its own, and the single bits that move them."""
    return _encoding(MachineKey(machine))


@lru_cache(maxsize=128)
def _encoding(key: MachineKey) -> SyncEncoding:
    """Found once for each Machine object: every program of a model asks."""
    machine = key.machine
    bits: dict[tuple[int, int, str, str], Bit] = {}
    pairs = {c.name for c in machine.counters if c.source}
    for kind, instruction in enumerate(machine.instructions):
        for unit, its in enumerate(machine.units):
            usual = _moved(machine, instruction, its.name, {})
            for bit in _bits(instruction):
                more = _moved(machine, instruction, its.name, {bit.field: 1 << bit.bit}) - usual
                for action, counter in (move for move in more if len(more) == 1 and move[1] in pairs):
                    bits.setdefault((kind, unit, action, counter), bit)
    channels: dict[tuple[int, int], Channel] = {}
    names = [u.name for u in machine.units]
    for c in machine.counters:
        if _own(machine, c):
            ends = names.index(c.source), names.index(c.target)
            channels.setdefault(ends, Channel(c.name, *ends, c.mode, c.depth))
    return SyncEncoding(MappingProxyType(channels), MappingProxyType(bits))


def _bits(instruction: Instruction) -> list[Bit]:
    fields = [f for f in instruction.fields if f.role == "sync" and f.name not in instruction.match and not f.minus and not f.signed]
    return [Bit(f.name, bit) for f in fields for bit in range(f.bits)]


def _own(machine: Machine, counter: Counter) -> bool:
    """Whether one queue posts to each instance and one waits on it, and it is empty at the start."""
    private = machine.instances(counter.scope) >= machine.streams or counter.mode == "all_prior"
    return bool(counter.source and counter.target) and counter.count == 1 and not counter.initial and private


def _moved(machine: Machine, instruction: Instruction, unit: str, fields: Mapping[str, int]) -> set[tuple[str, str]]:
    """(action, counter) of the rules that hold on a unit when the sync fields are these and all others 0."""
    values = {**machine.params, **{level.name: 0 for level in machine.levels}, **{f.name: 0 for f in instruction.fields}, **fields}
    rules = (r for r in machine.sync if unit in r.units and instruction.name in r.instructions and not r.over)
    return {(r.kind, r.counter) for r in rules if _holds(r, values)}


def _holds(rule: SyncRule, values: Mapping[str, int]) -> bool:
    """Whether it moves one token; a rule that other fields decide too is none that a single bit can answer for."""
    try:
        return bool(constant(rule.when, values)) and constant(rule.amount, values) == 1 and constant(rule.index, values) == 0
    except UserError:
        return False


COUNTING, FLAG, ALL_PRIOR = 0, 1, 2
_unknown = field_leaf({})
WINDOW = "interlock.window"
"""Name of the counter that stands for an interlock's window."""
MODES = {"counting": COUNTING, "flag": FLAG, "all_prior": ALL_PRIOR}


@dataclass(frozen=True)
class Moves:
    """Token movements of n instructions in rows: instruction i has entries start[i]..start[i + 1], counters ascending.

    start: int64 [n + 1]. counter: int64 [m], a counter instance. amount: int64 [m], at least 1.
    """

    start: Ints
    counter: Ints
    amount: Ints


@dataclass(frozen=True)
class Coupled:
    """Units that run while others feed them.

    lag: int64 per counter; posts to it show so many cycles after the poster's start, no later than its other posts; -1: only then. It must have mode
    ALL_PRIOR. ends: counters that an instruction needs before it ends; whoever counts there feeds it.
    """

    lag: Ints
    ends: Moves


@dataclass(frozen=True)
class SyncTokens:
    """Counter instances of the device and the moves of every instruction on them.

    names: of each instance. counters: which counter of the machine, or of its interlock, each is one of. depth: -1 is unbounded.
    mode: COUNTING, FLAG, or ALL_PRIOR, where a wait compares without taking, and every instruction of the source unit posts one.
    coupled: of time alone; without it, every post is seen when its instruction is done.
    """

    names: tuple[str, ...]
    counters: tuple[str, ...]
    depth: Ints
    initial: Ints
    mode: Ints
    waits: Moves
    posts: Moves
    coupled: Coupled | None = None


def sync_tokens(program: Program) -> SyncTokens:
    """Raises UserError E0502 for a counter index outside its array, E0503 for a negative amount."""
    machine = program.machine
    first: dict[str, int] = {}
    names: list[str] = []
    counters: list[str] = []
    shape: list[tuple[int, int, int]] = []
    for counter in machine.counters:
        first[counter.name] = len(names)
        names += _instance_names(machine, counter)
        counters += [counter.name] * (len(names) - len(counters))
        shape += [(-1 if counter.depth is None else counter.depth, counter.initial, MODES[counter.mode])] * (len(names) - len(shape))
    table = np.array(shape, np.int64).reshape(-1, 3)
    lowering = _Lowering(program, first)
    waits, posts = lowering.moves("wait", table[:, 2]), lowering.moves("post", table[:, 2])
    return SyncTokens(tuple(names), tuple(counters), table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy(), waits, posts)


def _copies(machine: Machine, counter: Counter) -> int:
    """Instances of a counter by scope; an all_prior counter looks at its own stream's instructions alone."""
    return machine.streams if counter.mode == "all_prior" else machine.instances(counter.scope)


def _instance_names(machine: Machine, counter: Counter) -> Iterator[str]:
    copies = _copies(machine, counter)
    scope = "stream" if counter.mode == "all_prior" else counter.scope
    for instance in range(copies):
        where = f" of {scope} {instance}" if copies > 1 else ""
        for index in range(counter.count):
            yield f"{counter.name}{f'[{index}]' if counter.count > 1 else ''}{where}"


@dataclass(frozen=True)
class _Lowering:
    """first: the first instance of each counter. groups: instructions of one kind on some units, kept between rules."""

    program: Program
    first: dict[str, int]
    groups: dict[tuple[int, tuple[str, ...]], Ints] = field(default_factory=dict[tuple[int, tuple[str, ...]], Ints])

    def moves(self, kind: str, mode: Ints) -> Moves:
        present = {*np.flatnonzero(np.bincount(self.program.kind)).tolist()}
        entries = (entry for entry in _plan(MachineKey(self.program.machine), kind) if entry[2] in present)
        parts = [part for entry in entries for part in self._rule(*entry)]
        if kind == "post":
            parts += [self._prior_posts(c) for c in self.program.machine.counters if c.mode == "all_prior"]
        empty = np.zeros(0, np.int64)
        instruction, counter, amount = (np.concatenate([empty, *(part[k] for part in parts)]) for k in range(3))
        return rows_of_moves(len(self.program), instruction, counter, amount, mode)

    def _rule(self, rule: SyncRule, counter: Counter, kind: int) -> Iterator[tuple[Ints, Ints, Ints]]:
        """The posts and waits of a rule for the instructions of one kind."""
        who = self._group(kind, rule.units)
        who = who[self._value(rule.when, kind, who) != 0] if len(who) else who
        if len(who) and counter.mode != "all_prior":
            yield from self._tokens(rule, counter, kind, who)
        elif len(who) and rule.kind == "wait":
            yield self._prior_waits(counter, who)

    def _group(self, kind: int, units: tuple[str, ...]) -> Ints:
        if (kind, units) not in self.groups:
            wanted = np.array([u.name in units for u in self.program.machine.units])
            self.groups[kind, units] = np.flatnonzero((self.program.kind == kind) & wanted[self.program.unit])
        return self.groups[kind, units]

    def _tokens(self, rule: SyncRule, counter: Counter, kind: int, who: Ints) -> Iterator[tuple[Ints, Ints, Ints]]:
        index, amount = self._value(rule.index, kind, who), self._value(rule.amount, kind, who)
        bad = np.flatnonzero((index < 0) | (index >= counter.count))
        if len(bad):
            raise fail("E0502", f"{self.program.label(int(who[bad[0]]))}: no counter {counter.name}[{index[bad[0]]}]; it has {counter.count}")
        bad = np.flatnonzero(amount < 0)
        if len(bad):
            raise fail("E0503", f"{self.program.label(int(who[bad[0]]))}: {amount[bad[0]]} tokens of {counter.name}; an amount cannot be negative")
        masks = {level: self._value(mask, kind, who) for level, mask in rule.over}
        for some, instance in _targets(self.program, counter, who, masks):
            some = some & (amount != 0)
            yield who[some], self.first[counter.name] + instance[some] * counter.count + index[some], amount[some]

    def _value(self, expr: Expr, kind: int, who: Ints) -> Ints:
        """An expression over fields and the stream's indices, for some instructions of one kind."""
        if isinstance(expr, Const):
            return np.full(len(who), expr.value, np.int64)
        machine, rows, columns = self.program.machine, self.program.row[who], self.program.columns[kind]
        levels = {level.name for level in stream_levels(machine)}

        def leaf(e: Expr, chosen: Ints | None) -> Ints | int:
            if isinstance(e, Name) and e.id in columns:
                return columns[e.id][rows if chosen is None else rows[chosen]]
            if isinstance(e, Name) and e.id in levels:
                return stream_index(machine, e.id, self.program.stream[who if chosen is None else who[chosen]])
            return _unknown(e, chosen)

        return evaluate_columns(expr, leaf, len(who), lambda row: self.program.label(int(who[row])))

    def _prior_waits(self, counter: Counter, who: Ints) -> tuple[Ints, Ints, Ints]:
        """The amount is the number of the source's instructions before the waiter in its own stream."""
        stream = self.program.stream
        source = np.array([u.name == counter.source for u in self.program.machine.units])[self.program.unit]
        before = np.concatenate([[0], np.cumsum(source)])
        amount = before[who] - before[np.searchsorted(stream, stream[who])]
        some = amount > 0
        return who[some], self.first[counter.name] + stream[who[some]] * counter.count, amount[some]

    def _prior_posts(self, counter: Counter) -> tuple[Ints, Ints, Ints]:
        source = np.array([u.name == counter.source for u in self.program.machine.units])[self.program.unit]
        who = np.flatnonzero(source)
        return who, self.first[counter.name] + self.program.stream[who] * counter.count, np.ones(len(who), np.int64)


@functools.lru_cache(maxsize=256)
def _plan(key: MachineKey, kind: str) -> tuple[tuple[SyncRule, Counter, int], ...]:
    """Every rule that waits or posts, with its counter and each kind of instruction that it is about."""
    counters = {counter.name: counter for counter in reversed(key.machine.counters)}
    rules = [rule for rule in key.machine.sync if rule.kind == kind]
    names = [instruction.name for instruction in key.machine.instructions]
    return tuple((rule, counters[rule.counter], number) for rule in rules for number, name in enumerate(names) if name in rule.instructions)


def _targets(program: Program, counter: Counter, who: Ints, masks: dict[str, Ints]) -> Iterator[tuple[NDArray[np.bool_], Ints]]:
    """(which of `who`, instance) pairs: the own instance at every level, or each one that a mask selects."""
    choices: list[tuple[NDArray[np.bool_], Ints]] = [(np.ones(len(who), np.bool_), np.zeros(len(who), np.int64))]
    for level in scope_levels(program.machine, counter.scope):
        if level.name in masks:
            mask = masks[level.name]
            choices = [(some & ((mask >> bit & 1) != 0), base * level.count + bit) for some, base in choices for bit in range(level.count)]
        else:
            own = stream_index(program.machine, level.name, program.stream[who])
            choices = [(some, base * level.count + own) for some, base in choices]
    yield from choices


def rows_of_moves(n: int, instruction: Ints, counter: Ints, amount: Ints, mode: Ints) -> Moves:
    """Sorts entries by instruction and counter and merges those of one counter. mode: of every counter."""
    order = np.argsort(instruction * len(mode) + counter, kind="stable")
    instruction, counter, amount = instruction[order], counter[order], amount[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (instruction[1:] != instruction[:-1]) | (counter[1:] != counter[:-1])
    head = np.flatnonzero(new)
    if len(head):
        largest = np.maximum.reduceat(amount, head)
        amount = np.where(mode[counter[head]] == ALL_PRIOR, largest, np.add.reduceat(amount, head))
    start = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(instruction[head], minlength=n), out=start[1:])
    return Moves(start, counter[head], amount)
