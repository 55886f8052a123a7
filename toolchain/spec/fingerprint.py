"""Hashes of a machine, one of its architecture and one of each section; and caches: their key for a machine in memory, and answers by a digest."""

import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from toolchain.spec.expr import Call, Expr, Index, Member, Name, walk
from toolchain.spec.model import Machine
from toolchain.spec.render import NOTES, render, unparse
from toolchain.spec.typed_json import Tree

if TYPE_CHECKING:
    from toolchain.spec.arrays import Array


@dataclass(frozen=True, slots=True, eq=False)
class MachineKey:
    """A machine compared by identity: its mappings have no hash, and one Machine object never changes."""

    machine: Machine

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MachineKey) and self.machine is other.machine

    def __hash__(self) -> int:
        return id(self.machine)


PRICES = ("timing", "host", "without")
"""Members that say how long instructions take and which kernels are left out, not what instructions do."""
MEANINGS = tuple(member.name for member in fields(Machine) if member.name not in PRICES)


@dataclass(frozen=True, slots=True, eq=False)
class MeaningKey:
    """A machine compared by the identity of its members but PRICES: one whose ports several programs share has the same instructions as one alone.
    timed: how long they take counts, too."""

    machine: Machine
    timed: bool = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MeaningKey) or self.timed != other.timed:
            return False
        names = (*MEANINGS, "timing") if self.timed else MEANINGS
        return self.machine is other.machine or all(getattr(self.machine, name) is getattr(other.machine, name) for name in names)

    def __hash__(self) -> int:
        return id(self.machine.instructions)


ARCHITECTURE = ("topology", "memories", "views", "units", "encoding", "instructions", "functions", "numerics", "sync", "program")


def fingerprint(machine: Machine) -> str:
    """SHA-256 in hex of the architecture: all that decides which bits a program has and their effect.

    Timing, layouts, quantisation, operators, host, documentation, sources, the severity of hazards, memories that outlive a program, how many
    units reach a bank in a cycle, how far apart the steps of a pipeline are and which instructions are idle do not change it.
    """
    return _fingerprint(MachineKey(machine))


@lru_cache(maxsize=128)
def _fingerprint(key: MachineKey) -> str:
    """Found once for each Machine object: every schedule, program and bundle names it."""
    machine = key.machine
    sections = render(machine, NOTES | {"timing", "hazard", "transient", "ports", "pipelined", "nops"})
    found = {name: _code(sections[name]) for name in ARCHITECTURE if name in sections}
    return _digest({"name": machine.name, "params": _params(machine, sections), **found})


def section_hashes(machine: Machine, ordered: bool = False) -> dict[str, str]:
    """SHA-256 in hex of every section, without its documentation and sources; with `ordered` its entries' order counts too."""
    return dict(_section_hashes(MachineKey(machine), ordered))


@lru_cache(maxsize=128)
def _section_hashes(key: MachineKey, ordered: bool) -> Mapping[str, str]:
    return {name: _digest(_code(section), ordered) for name, section in render(key.machine, NOTES).items() if name != "assumptions"}


def placing_hash(machine: Machine) -> str:
    """SHA-256 in hex of all that decides in the timing section which operations a machine takes, and with which kernels: its clock, its peak, and
    the inputs of each class's cycles, but not how many they are."""
    timing = machine.timing
    classes = {c.name: sorted(_leaves(c.cycles, c.setup, c.latency, *(t.bytes for t in c.transfers))) for c in timing.classes}
    return _digest({"clock_khz": timing.clock_khz, "peak_macs": timing.peak_macs, "classes": classes})


def _leaves(*exprs: Expr) -> set[str]:
    """The fields, registers, memories and functions that expressions name."""
    return {unparse(e) for expr in exprs for e in walk(expr) if isinstance(e, Name | Member | Index) or (isinstance(e, Call) and _counts(e))}


def _counts(call: Call) -> bool:
    """Whether a call counts the bytes that an instruction moves."""
    return isinstance(call.function, Name) and call.function.id in ("reads", "writes")


def notes_hash(machine: Machine) -> str:
    """SHA-256 in hex of everything that the machine says, documentation, sources and assumptions included."""
    parameters = {name: [each.values, each.doc] for name, each in machine.parameters.items()}
    return _digest([render(machine), parameters, dict(machine.assumed_params)], ordered=True)


def _params(machine: Machine, sections: Mapping[str, Tree]) -> dict[str, Tree]:
    """The parameters that semantics name; elsewhere their values are in place already."""
    texts = [machine.functions.text if machine.functions else "", *(i.semantics.text for i in machine.instructions)]
    words = {word for text in texts for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", "\n".join(code_lines(text)))}
    held = sections.get("params")
    return {name: value for name, value in held.items() if name in words} if isinstance(held, dict) else {}


def named_params(machine: Machine) -> tuple[str, ...]:
    """Parameters whose names stand anywhere in the elaborated machine: in all its other values those of parameters are in place already."""
    sections = {name: section for name, section in render(machine, NOTES).items() if name not in ("target", "params", "assumptions", "costs")}
    words = words_of("\n".join(text for section in sections.values() for text in _texts(section)))
    return tuple(name for name in machine.params if name in words)


def _texts(tree: Tree) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield key
            yield from _texts(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _texts(value)


def words_of(text: str) -> frozenset[str]:
    """Everything in a text that can be a name."""
    return frozenset(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text))


def code_lines(text: str) -> list[str]:
    """A block's lines without comments, trailing blanks and empty lines; the language has no strings that hold a #."""
    lines = (line.partition("#")[0].rstrip() for line in text.splitlines())
    return [line for line in lines if line]


def _code(value: Tree) -> Tree:
    """The data with comments taken out of blocks of text."""
    if isinstance(value, dict):
        return {key: _code(item) for key, item in value.items()}
    if isinstance(value, str) and "\n" in value:
        return code_lines(value)
    return value


def _digest(data: Tree, ordered: bool = False) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=not ordered, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()


Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Memo(Generic[Answer]):
    """most: answers that are kept, those that were asked for last. Unlike `functools.lru_cache` it keeps the digest in place of the arguments, which
    may be whole networks."""

    most: int
    _held: OrderedDict[str, Answer] = field(default_factory=OrderedDict[str, Answer])
    _lock: Lock = field(default_factory=Lock)

    def of(self, key: str, make: Callable[[], Answer]) -> Answer:
        """The answer for the key, made where it is not known; nothing is kept that `make` raises. key: see `digest_of_parts`; empty for no digest."""
        if not key:
            return make()
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        found = make()
        with self._lock:
            self._held[key] = found
            while len(self._held) > self.most:
                self._held.popitem(last=False)
        return found


def digest_of_parts(parts: Iterable[bytes | memoryview]) -> str:
    """SHA-256 in hex of the parts and of where each one ends."""
    found = hashlib.sha256()
    for part in parts:
        found.update(hashlib.sha256(part).digest())
    return found.hexdigest()


def array_parts(arrays: "Mapping[str, Array]") -> Iterator[bytes]:
    """Names, types, shapes and elements of arrays, as parts of a digest; of objects their texts."""
    for name, array in sorted(arrays.items()):
        yield f"{name} {array.dtype.str} {array.shape}".encode(errors="surrogateescape")
        yield repr(array.tolist()).encode(errors="surrogateescape") if array.dtype.hasobject else array.tobytes()
