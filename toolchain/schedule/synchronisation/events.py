"""Events: counters of a stream that any other may post to, by instructions of their own. The machine's rules say which these are."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from toolchain.isa.encode import matched_value
from toolchain.isa.semantics.instances import places, scope_levels
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.isa.sync_tokens import Channel
from toolchain.spec.errors import UserError
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Expr
from toolchain.spec.fingerprint import MachineKey
from toolchain.spec.model import Counter, Instruction, Level, Machine, SyncRule

Fields = Mapping[str, int]


@dataclass(frozen=True)
class Mover:
    """An instruction that posts one token to an event, or takes one or more.

    index: the field that says which event, '' where there is one. masks: by level, the field that selects instances. units: by unit, the other
    fields. amount: the field that says how many tokens, `most` at most; '' where it is always one.
    """

    kind: int
    index: str
    masks: Mapping[str, str]
    units: Mapping[int, Fields]
    amount: str
    most: int

    def fields(self, unit: int, index: int, masks: Mapping[str, int], amount: int = 1) -> dict[str, int]:
        """All fields of one on this unit."""
        own = ({self.index: index} if self.index else {}) | ({self.amount: amount} if self.amount else {})
        return {**self.units[unit], **own, **{self.masks[level]: mask for level, mask in masks.items()}}


@dataclass(frozen=True)
class Events:
    """count: of each stream. depth: None is unbounded. levels: whose instances have them, outermost first."""

    counter: str
    count: int
    depth: int | None
    levels: tuple[Level, ...]
    signal: Mover
    wait: Mover

    @property
    def kinds(self) -> frozenset[int]:
        """The instructions that move them."""
        return frozenset((self.signal.kind, self.wait.kind))

    def reaches(self, machine: Machine, source: int, target: int) -> bool:
        """Whether an instruction of one stream can post to another: levels without a mask are its own."""
        here, there = places(machine, source)[0], places(machine, target)[0]
        return all(here[level.name] == there[level.name] for level in self.levels if level.name not in self.signal.masks)


def find_events(machine: Machine) -> Events | None:
    """The events that every stream has, None where there are none that single instructions move. Found once for each Machine object."""
    return _find(MachineKey(machine))


@lru_cache(maxsize=128)
def _find(key: MachineKey) -> Events | None:
    machine = key.machine
    for counter in machine.counters:
        if counter.source or counter.target or counter.initial or counter.mode != "counting" or machine.instances(counter.scope) != machine.streams:
            continue
        signal, wait = (next(_movers(machine, counter, action), None) for action in ("post", "wait"))
        if signal and wait:
            return Events(counter.name, counter.count, counter.depth, scope_levels(machine, counter.scope), signal, wait)
    return None


def _movers(machine: Machine, counter: Counter, action: str) -> Iterator[Mover]:
    """Instructions that post one token to any event that is chosen, or take one, and touch no memory."""
    for rule in (r for r in machine.sync if r.kind == action and r.counter == counter.name):
        for kind, instruction in enumerate(machine.instructions):
            if instruction.name in rule.instructions and not machine_semantics(machine)[instruction.name].accesses:
                found = _mover(machine, counter, rule, kind)
                if found is not None:
                    yield found


def _mover(machine: Machine, counter: Counter, rule: SyncRule, kind: int) -> Mover | None:
    """None where no field alone says which event, which instance or how many."""
    instruction = machine.instructions[kind]
    usual = {f.name: max(f.low, matched_value(instruction, f) if f.name in instruction.match else f.default or 0) for f in instruction.fields}
    asked = _Asked(machine, instruction, usual)
    amount = asked.field(rule.amount, (1,))
    index = asked.field(rule.index, range(counter.count))
    masks = {level.name: asked.field(rule_mask, [1 << bit for bit in range(level.count)]) for level, rule_mask in _masks(machine, counter, rule)}
    if amount is None or index is None or None in masks.values():
        return None
    usual |= {amount: 1} if amount else {}
    able = [unit for unit, its in enumerate(machine.units) if its.name in rule.units and not its.overlaps]
    units = {unit: fields for unit in able if (fields := asked.routed(unit, usual))}
    if not units or not asked.holds(rule.when, usual):
        return None
    several = asked.field(rule.amount, (1, 2)) or ""
    most = next((f.high for f in instruction.fields if f.name == several), 1)
    return Mover(kind, index, {name: chosen for name, chosen in masks.items() if chosen}, units, several, most)


def _masks(machine: Machine, counter: Counter, rule: SyncRule) -> Iterator[tuple[Level, Expr]]:
    levels = {level.name: level for level in scope_levels(machine, counter.scope)}
    return ((levels[name], mask) for name, mask in rule.over)


@dataclass(frozen=True)
class _Asked:
    """Values of a rule's expressions for an instruction's fields. usual: each one's value where it is not chosen."""

    machine: Machine
    instruction: Instruction
    usual: Fields

    def field(self, expr: Expr, values: Iterable[int]) -> str | None:
        """The field whose value is the expression's, for all of these; '' where the usual ones do for the only value; None: there is none."""
        wanted = list(values)
        if len(wanted) == 1 and self._value(expr, self.usual) == wanted[0]:
            return ""
        free = (f for f in self.instruction.fields if f.name not in self.instruction.match)
        fits = (f.name for f in free if all(f.low <= v <= f.high and self._value(expr, {**self.usual, f.name: v}) == v for v in wanted))
        return next(fits, None)

    def routed(self, unit: int, fields: Fields) -> Fields | None:
        """The fields with which the instruction goes to a unit; None where no single field brings it there."""
        expr = self.instruction.unit
        if self._value(expr, fields) == unit:
            return MappingProxyType(dict(fields))
        free = (f for f in self.instruction.fields if f.name not in self.instruction.match and f.role != "sync" and f.low <= unit <= f.high)
        return next((MappingProxyType({**fields, f.name: unit}) for f in free if self._value(expr, {**fields, f.name: unit}) == unit), None)

    def holds(self, expr: Expr, fields: Fields) -> bool:
        return bool(self._value(expr, fields))

    def _value(self, expr: Expr, fields: Fields) -> int | None:
        """None where fields are not all that it depends on. Instances are those of the first stream."""
        try:
            return constant(expr, {**self.machine.params, **{level.name: 0 for level in self.machine.levels}, **fields})
        except UserError:
            return None


@dataclass
class EventPool:
    """Assignment of events to channels between queues; queues are stream * units + unit.

    The last event of each stream is the link of a ring: from the stream before it, so that tokens get everywhere, by others, when a stream has
    more producers than events.
    """

    machine: Machine
    events: Events
    taken: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict[tuple[int, int], tuple[int, int]])
    usual: dict[int, int] = field(default_factory=dict[int, int])

    def ring(self, streams: Sequence[int]) -> Iterator[Channel]:
        """Channels from each of the streams to the next one, and from the last to the first."""
        unit = next((u for u in self.events.signal.units if u in self.events.wait.units), None)
        if unit is None or len(streams) < 2:
            return
        for source, target in zip(streams, [*streams[1:], streams[0]], strict=True):
            if self.events.reaches(self.machine, source, target):
                yield self._channel(self._queue(source, unit), self._queue(target, unit), self.events.count - 1)

    def open(self, source: int, target: int) -> Channel | None:
        """A channel of its own between two queues; None where there is no event left, or no instruction that says it."""
        (stream, unit), (goal, at) = (divmod(queue, len(self.machine.units)) for queue in (source, target))
        if unit not in self.events.signal.units or at not in self.events.wait.units or not self.events.reaches(self.machine, stream, goal):
            return None
        free = [index for index in range(self.events.count - 1) if (goal, index) not in self.taken]
        if not free:
            return None
        if source not in self.usual:
            others = list(self.usual.values())
            self.usual[source] = min(free, key=others.count)  # one of its own, so that one signal reaches all of its targets
        index = self.usual[source]
        return self._channel(source, target, index if index in free else free[0])

    def unused(self, targets: Sequence[int]) -> dict[int, int]:
        """By target queue, all of one unit, an event of its stream that no channel has: the same number for all, else for as many as have it free."""
        free = {target: [i for i in range(self.events.count) if (target // len(self.machine.units), i) not in self.taken] for target in targets}
        index = max(range(self.events.count), key=lambda i: sum(i in its for its in free.values()))
        return {target: index if index in its else its[0] for target, its in free.items() if its}

    def take(self, target: int, index: int) -> None:
        """Keeps an event of a queue for several sources."""
        self.taken[target // len(self.machine.units), index] = target, target

    def _channel(self, source: int, target: int, index: int) -> Channel:
        self.taken[target // len(self.machine.units), index] = source, target
        return Channel(self.events.counter, source, target, "counting", self.events.depth, index)

    def _queue(self, stream: int, unit: int) -> int:
        return stream * len(self.machine.units) + unit
