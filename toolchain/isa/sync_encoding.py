"""The encoding of synchronisation: a machine's rules inverted, from a counter to the bit of an instruction that moves it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from toolchain.spec.errors import UserError
from toolchain.spec.evaluate import constant
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
