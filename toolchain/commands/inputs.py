"""The data that the command line loads into a machine before a run, and writes afterwards."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from toolchain.analysis.state import State
from toolchain.commands.machine import pairs
from toolchain.spec.errors import UserError, fail
from toolchain.spec.model import Machine, Memory
from toolchain.spec.suggest import nearest

_NAME = re.compile(r"(?P<name>[A-Za-z_]\w*)(\[(?P<index>\d+)\])?\Z")


@dataclass(frozen=True)
class MemoryRegion:
    """A piece of one memory instance that stands in a file; length None is `as much as there is`."""

    memory: str
    instance: int
    path: Path
    offset: int = 0
    length: int | None = None


def load_memories(state: State, texts: Sequence[str]) -> list[MemoryRegion]:
    """Loads `NAME=FILE[@OFFSET]`. Raises UserError E0003 for an unknown memory, E0004 when a file does not fit."""
    regions = [_region(state.machine, text, "--memory NAME=FILE[@OFFSET]") for text in texts]
    return [_load(state, region) for region in regions]


def _load(state: State, region: MemoryRegion) -> MemoryRegion:
    target = state.memories[region.memory][region.instance]
    room = memoryview(target[region.offset :])
    try:
        with region.path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > len(room):
                raise _too_large(region, f"{size} bytes", len(target))
            count = file.readinto(room) if len(room) else 0
            if file.read(1):
                raise _too_large(region, f"more than {len(room)} bytes", len(target))
    except OSError as error:
        raise fail("E0001", f"cannot read the file: {error.strerror}", place=str(region.path)) from None
    return MemoryRegion(region.memory, region.instance, region.path, region.offset, count)


def _too_large(region: MemoryRegion, size: str, room: int) -> UserError:
    return fail("E0004", f"{size} at {region.offset:#x} do not fit into '{region.memory}' of {room} bytes", place=str(region.path))


def set_registers(state: State, texts: Sequence[str]) -> None:
    """Sets host registers: `NAME=VALUE` by an element's own name, or `REGISTER[I]=VALUE`."""
    for name, value in pairs(list(texts), "--register NAME=VALUE").items():
        register, index = _register(state.machine, name)
        try:
            number = int(value, 0)
        except ValueError:
            raise fail("E0002", f"'{value}' is not a number, for --register {name}") from None
        if not -(1 << 63) <= number < 1 << 63:
            raise fail("E0002", f"{value} does not fit into register {name} of 64 bits")
        state.host[register][:, index] = number


def _register(machine: Machine, name: str) -> tuple[str, int]:
    known: dict[str, tuple[str, int]] = {}
    for memory in machine.memories:
        if memory.host:
            known |= {label: (memory.name, i) for i, label in enumerate(memory.names)}
            known |= {f"{memory.name}[{i}]": (memory.name, i) for i in range(memory.depths[0])}
    if name not in known:
        raise fail("E0003", f"{machine.name} has no host register '{name}'", hint=nearest(name, known) or f"known: {', '.join(known) or 'none'}")
    return known[name]


def output_regions(machine: Machine, texts: Sequence[str]) -> list[MemoryRegion]:
    """Reads `NAME=FILE[@OFFSET:LENGTH]`."""
    return [_region(machine, text, "--out NAME=FILE[@OFFSET:LENGTH]") for text in texts]


def _region(machine: Machine, text: str, form: str) -> MemoryRegion:
    ((name, rest),) = pairs([text], form).items()
    memory, instance = _memory(machine, name)
    path, at, place = rest.rpartition("@")
    if not at or "/" in place:  # the @ of a folder's name
        return MemoryRegion(memory.name, instance, Path(rest))
    start, colon, count = place.partition(":")
    try:
        offset, length = int(start, 0), int(count, 0) if colon else None
    except ValueError:
        raise fail("E0002", f"'{text}' does not have the form {form}") from None
    if offset < 0 or (length or 0) < 0 or offset + (length or 0) > memory.bytes:
        raise fail("E0004", f"'{place}' is outside '{memory.name}' of {memory.bytes} bytes")
    return MemoryRegion(memory.name, instance, Path(path), offset, length)


def _memory(machine: Machine, text: str) -> tuple[Memory, int]:
    found = _NAME.match(text)
    known = [m.name for m in machine.memories if m.kind != "register"]
    name = found["name"] if found else text
    if not found or name not in known:
        raise fail("E0003", f"{machine.name} has no memory '{name}'", hint=nearest(name, known) or f"known: {', '.join(known)}")
    memory, instance = machine.memory[name], int(found["index"] or 0)
    if instance >= machine.instances(memory.scope):
        raise fail("E0003", f"'{name}' has {machine.instances(memory.scope)} instances, there is no {instance}")
    return memory, instance
