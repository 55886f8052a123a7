"""Drives a device instruction by instruction: buffers, kernels of records, commands by name, dependences, and flushes when a queue is full.

Programs are made while they are needed: commands collect on the host, are encoded into a command buffer in DRAM, and run when the queue is full or
the host wants a result. Data on chip stays there from one flush to the next.

The caller may push and pop dependences: first pushed is first popped. A flush waits for everything, so a dependence that is pushed before it and
popped after it needs no token.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from toolchain.isa.assembly_line import LineReader, TokenError, forms, read_value
from toolchain.isa.checks import build_program, refuse, violations
from toolchain.isa.encode import encode_streams, matched_value
from toolchain.isa.program import Program
from toolchain.isa.sync_tokens import POST, WAIT, Bit, Channel, SyncEncoding, sync_encoding
from toolchain.runtime.device_memory import DeviceBuffer, DeviceMemory, QueueDevice, RecordAddress, RecordCache, Records, residency_of
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.synchronisation.synchronise import synchronise
from toolchain.spec.errors import Diagnostic, UserError, fail, nearest
from toolchain.spec.evaluate import constant
from toolchain.spec.model import Field, Instruction, Machine


@dataclass
class QueuedInstruction:
    """A queued instruction. kind, unit: indices as in a program. values: every field but those that identify it."""

    kind: int
    unit: int
    values: dict[str, int]


@dataclass
class _Link:
    """posts, takes: commands in order. pending: pops that wait for the next command of the target. settled: posts that a flush has answered."""

    channel: Channel
    posts: list[QueuedInstruction] = field(default_factory=list[QueuedInstruction])
    takes: list[QueuedInstruction] = field(default_factory=list[QueuedInstruction])
    pending: int = 0
    settled: int = 0


@dataclass
class TokenBook:
    """The links of a queue of commands, which callers hand over as they are queued."""

    machine: Machine
    commands: list[QueuedInstruction]

    def __post_init__(self) -> None:
        self.known: SyncEncoding = sync_encoding(self.machine)
        self.links: Mapping[tuple[int, int], _Link] = {ends: _Link(channel) for ends, channel in self.known.channels.items()}

    def push(self, source: str, target: str) -> None:
        """The last command of `source` posts. Raises UserError E1124 for units without a counter, E1125 for a command that cannot post."""
        link = self._link(source, target)
        last = next((command for command in reversed(self.commands) if command.unit == link.channel.source), None)
        if last is None:
            link.settled += 1
        elif link.channel.mode == "all_prior":
            link.posts.append(last)
        else:
            self._set(last, POST, link.channel)
            link.posts.append(last)

    def pop(self, source: str, target: str) -> None:
        """The next command of `target` waits. Raises UserError E1124."""
        link = self._link(source, target)
        if link.settled:
            link.settled -= 1
        else:
            link.pending += 1

    def queued(self, command: QueuedInstruction) -> None:
        """Takes the pops that waited for this command. Raises UserError E1125 where it cannot wait."""
        for link in self.links.values():
            if link.channel.target == command.unit and link.pending:
                if link.pending > 1:
                    raise fail("E1125", f"{self._name(command)} cannot wait twice for '{self._unit(link.channel.source)}'")
                self._set(command, WAIT, link.channel)
                link.takes.append(command)
                link.pending = 0

    def settle(self) -> None:
        """Before a flush: posts that are not yet taken need no token. Raises UserError E1127 for a wait without a post."""
        for link in self.links.values():
            open_takes = len(link.takes) - len(link.posts)
            if open_takes > 0 or link.pending > max(-open_takes, 0):
                ends = f"'{self._unit(link.channel.source)}' for '{self._unit(link.channel.target)}'"
                raise fail("E1127", f"the queue is flushed while a token of {ends} is awaited that nothing has pushed", hint="push it first")
        for link in self.links.values():
            spare = link.posts[len(link.takes) :]
            for command in spare if link.channel.mode != "all_prior" else ():
                self._clear(command, POST, link.channel)
            link.settled += len(spare) - link.pending
            link.posts, link.takes, link.pending = [], [], 0

    def _link(self, source: str, target: str) -> _Link:
        names = [unit.name for unit in self.machine.units]
        link = self.links.get((names.index(source), names.index(target))) if source in names and target in names else None
        if link is None or link.channel.mode == "flag":
            known = ", ".join(f"{names[a]} to {names[b]}" for (a, b), each in sorted(self.links.items()) if each.channel.mode != "flag")
            raise fail("E1124", f"no counter leads from '{source}' to '{target}'", hint=f"there are: {known or 'none'}")
        return link

    def _set(self, command: QueuedInstruction, action: str, channel: Channel) -> None:
        bit = self.known.bits.get((command.kind, command.unit, action, channel.counter))
        if bit is None:
            raise self._cannot(command, action, channel)
        if command.values.get(bit.field, 0) >> bit.bit & 1:
            raise fail("E1125", f"{self._name(command)} has a token of '{channel.counter}' already")
        command.values[bit.field] = command.values.get(bit.field, 0) | 1 << bit.bit

    def _clear(self, command: QueuedInstruction, action: str, channel: Channel) -> None:
        bit = self.known.bits[command.kind, command.unit, action, channel.counter]
        command.values[bit.field] &= ~(1 << bit.bit)

    def _cannot(self, command: QueuedInstruction, action: str, channel: Channel) -> UserError:
        return fail(
            "E1125", f"{self._name(command)} cannot {action} on '{channel.counter}'", hint="let another instruction of its unit carry the token"
        )

    def _name(self, command: QueuedInstruction) -> str:
        return self.machine.instructions[command.kind].name

    def _unit(self, number: int) -> str:
        return self.machine.units[number].name


def fenced(machine: Machine, commands: Sequence[QueuedInstruction], end: QueuedInstruction) -> list[QueuedInstruction]:
    """The commands and their end. A last command that posts to the end's unit already is waited for there, by an earlier command.

    Raises UserError E1125 where a unit's last command cannot say that it is done, or the end cannot wait for it.
    """
    known = sync_encoding(machine)
    for unit in range(len(machine.units)):
        last = next((command for command in reversed(commands) if command.unit == unit), None)
        if last is None or unit == end.unit:
            continue
        channel = known.channels.get((unit, end.unit))
        if channel is None or channel.mode == "flag":
            raise fail("E1125", f"the end of a flush cannot wait for unit '{machine.units[unit].name}'", hint="let dependences be derived")
        if channel.mode == "all_prior" or _newly_set(machine, known.bits.get((last.kind, unit, POST, channel.counter)), last, channel):
            _newly_set(machine, known.bits.get((end.kind, end.unit, WAIT, channel.counter)), end, channel)
    return [*commands, end]


def _newly_set(machine: Machine, bit: Bit | None, command: QueuedInstruction, channel: Channel) -> bool:
    """Sets a bit; False where it was set before."""
    if bit is None:
        raise fail("E1125", f"{machine.instructions[command.kind].name} has no token of '{channel.counter}'", hint="let dependences be derived")
    if command.values[bit.field] >> bit.bit & 1:
        return False
    command.values[bit.field] |= 1 << bit.bit
    return True


Value = int | str | RecordAddress
PLACE = "command queue"


@dataclass(frozen=True)
class Limits:
    """commands: how many instructions the queue holds before it is flushed. each: how many of one unit, None for any number."""

    commands: int = 1024
    each: int | None = None


@dataclass
class Counts:
    """Counts of the device's work so far. fetches: kernels brought on chip."""

    flushes: int = 0
    commands: int = 0
    cycles: float = 0.0


class CommandQueue:
    """explicit: dependences between units are pushed and popped by the caller; otherwise they are derived. For one thread.

    kernels: the machine's, which say how records get on chip.
    """

    def __init__(self, device: QueueDevice, kernels: Mapping[str, Kernel], limits: Limits | None = None, explicit: bool = False) -> None:
        self.device, self.machine, self.limits, self.explicit = device, device.machine, limits or Limits(), explicit
        if self.machine.streams > 1:
            raise fail("E1126", f"machine '{self.machine.name}' runs {self.machine.streams} streams, a command queue drives one")
        self.memory, self.counts = DeviceMemory(self.machine), Counts()
        self._commands: list[QueuedInstruction] = []
        self._book = TokenBook(self.machine, self._commands)
        self._forms = forms(self.machine)
        self._stream: DeviceBuffer | None = None
        residency = residency_of(self.machine, kernels)
        self.records = None if residency is None else RecordCache(residency, self._placed)

    def allocate(self, size: int) -> DeviceBuffer:
        """Consecutive bytes of shared DRAM. Raises UserError E1120 where there is no room."""
        return self.memory.allocate(size)

    def free(self, buffer: DeviceBuffer) -> None:
        """Gives a buffer back, after everything that may use it has run. Raises UserError E1121 for one that is not allocated."""
        self.memory.check(buffer)
        self.synchronize()
        self.memory.free(buffer)

    def copy_in(self, buffer: DeviceBuffer, data: bytes, offset: int = 0) -> None:
        """Host bytes to a buffer, after everything queued before has run. Raises UserError E1121 for bytes outside of it."""
        self.memory.check(buffer, offset, len(data))
        self.synchronize()
        self.device.write(buffer.address + offset, data)

    def copy_out(self, buffer: DeviceBuffer, offset: int = 0, count: int | None = None) -> bytes:
        """A buffer's bytes, after everything queued has run. Raises UserError E1121 for bytes outside of it."""
        wanted = buffer.bytes - offset if count is None else count
        self.memory.check(buffer, offset, wanted)
        self.synchronize()
        return self.device.read(buffer.address + offset, wanted)

    def kernel(self, records: Sequence[Mapping[str, int]]) -> Records:
        """A kernel of control-memory records, fields by name; equal ones are one. Raises UserError E1123, E1006."""
        if self.records is None:
            raise fail("E1123", f"machine '{self.machine.name}' has no kernel that says how records get on chip")
        return self.records.make(records)

    def push(self, instruction: str, **values: Value) -> None:
        """Queues an instruction, after a flush where the queue is full. values: fields by name, as numbers, as the names that assembly has for them,
        or as places in kernels, which are then on chip when it runs.

        Raises UserError E1122 for values that cannot be encoded, E1004 for kernels that do not fit.
        """
        if instruction not in self._forms:
            raise fail("E1122", f"unknown instruction '{instruction}'", hint=nearest(instruction, self._forms), place=PLACE)
        form = self._forms[instruction]
        held = {f.name: self._value(form.instruction, f, values.get(f.name)) for f in form.fields}
        if strange := sorted(values.keys() - held.keys()):
            raise fail("E1122", f"{instruction} has no field '{strange[0]}'", hint=nearest(strange[0], held), place=PLACE)
        kernels = list(dict.fromkeys(value.records for value in held.values() if isinstance(value, RecordAddress)))
        self._make_room(len(kernels) + 1)
        for line in self._fetched(kernels).splitlines():
            self._queue(*self._parsed(line))
        self._queue(form.kind, {name: self._resident(form.instruction.field(name), value) for name, value in held.items()})

    def push_dependence(self, source: str, target: str) -> None:
        """The last instruction of unit `source` tells `target` when it is done. Raises UserError E1124, E1125."""
        self._require_explicit()
        self._book.push(source, target)

    def pop_dependence(self, source: str, target: str) -> None:
        """The next instruction of unit `target` waits for the oldest such token. Raises UserError E1124."""
        self._require_explicit()
        self._book.pop(source, target)

    def synchronize(self) -> None:
        """Runs the queue and waits for its end. Raises UserError E1127 for a token that nobody pushed, E0404 for values that the machine forbids, and
        whatever the device does."""
        if not self._commands:
            return
        commands = list(self._commands)
        end = [self._command(kind, {}) for kind, i in enumerate(self.machine.instructions) if i.name == self.machine.program.ends]
        if self.explicit:
            self._book.settle()
        if self.explicit and end:
            commands = fenced(self.machine, commands, end[0])
        else:
            commands += end
        program = self._program(commands)
        self._commands.clear()
        if not self.explicit:
            program = synchronise(program, self.device.contents()).program
        self._run(program)

    def _run(self, program: Program) -> None:
        (data,) = program.streams
        stream = self._command_buffer(len(data))
        self.device.write(stream.address, data)
        self.counts.cycles += self.device.execute(stream.address, len(data))
        self.counts.flushes += 1
        self.counts.commands += len(program)

    def _command_buffer(self, size: int) -> DeviceBuffer:
        """The one of the flush before, or a larger one in its place."""
        if self._stream is None or size > self._stream.bytes:
            if self._stream is not None:
                self.memory.free(self._stream)
                self._stream = None
            self._stream = self.memory.allocate(size)
        return self._stream

    def _require_explicit(self) -> None:
        if not self.explicit:
            raise fail("E1124", "this queue derives its dependences", hint="make it with explicit=True to push and pop them", place=PLACE)

    def _make_room(self, count: int) -> None:
        held = [command.unit for command in self._commands]
        full = self.limits.each is not None and any(held.count(unit) >= self.limits.each for unit in set(held))
        if full or len(held) + count > self.limits.commands:
            self.synchronize()

    def _placed(self, content: bytes) -> DeviceBuffer:
        """New kernels go to DRAM at once: nothing that is queued can read there yet."""
        found = self.memory.allocate(len(content))
        self.device.write(found.address, content)
        return found

    def _fetched(self, kernels: Sequence[Records]) -> str:
        return self.records.need(kernels) if self.records is not None and kernels else ""

    def _value(self, instruction: Instruction, field: Field, value: Value | None) -> Value:
        found = field.default if value is None else value
        if found is None:
            raise fail("E1122", f"{instruction.name} lacks a value for '{field.name}'", place=PLACE)
        if isinstance(found, str):
            try:
                return read_value(field, found)
            except TokenError as error:
                raise fail("E1122", f"{instruction.name}: {error.message}", hint=error.hint, place=PLACE) from None
        return found

    def _resident(self, field: Field, value: Value) -> int:
        found = self.records.address(value) if isinstance(value, RecordAddress) and self.records is not None else value
        if not isinstance(found, int) or not field.low <= found <= field.high:
            raise fail("E1122", f"{field.name} is {found}, outside {field.low}..{field.high}", place=PLACE)
        return found

    def _parsed(self, line: str) -> tuple[int, dict[str, int]]:
        """Kind and fields of a line of assembly."""
        tokens, faults = line.split(), list[tuple[int, TokenError]]()
        reader = LineReader(self._forms[tokens[0]])
        values = reader.read(tokens, faults)
        for _, error in faults:
            raise fail("E1122", f"the template that fetches records: {error.message}", hint=error.hint, place=PLACE)
        return reader.form.kind, {f.name: value for f, value in zip(reader.form.fields, values, strict=True)}

    def _command(self, kind: int, values: Mapping[str, int]) -> QueuedInstruction:
        form = self._forms[self.machine.instructions[kind].name]
        full = {f.name: values.get(f.name, f.default or 0) for f in form.fields}
        return QueuedInstruction(kind, constant(form.instruction.unit, full), full)

    def _queue(self, kind: int, values: Mapping[str, int]) -> None:
        command = self._command(kind, values)
        if self.explicit:
            self._book.queued(command)
        self._commands.append(command)

    def _program(self, commands: Sequence[QueuedInstruction]) -> Program:
        machine = self.machine
        kind, stream = np.array([c.kind for c in commands], np.int64), np.zeros(len(commands), np.int64)
        columns: list[dict[str, np.typing.NDArray[np.int64]]] = []
        for number, instruction in enumerate(machine.instructions):
            rows = [c.values for c in commands if c.kind == number]
            fixed = {f.name: matched_value(instruction, f) for f in instruction.fields if f.name in instruction.match}
            columns.append({f.name: np.array([fixed.get(f.name, row.get(f.name, 0)) for row in rows], np.int64) for f in instruction.fields})
        streams, offset = encode_streams(machine, kind, stream, columns)
        program = build_program(machine, streams, kind, stream, offset, tuple(columns))
        refuse(violations(program), lambda v: Diagnostic(v.code, f"{program.label(v.index)}: {v.message}", place=PLACE))
        return program
