"""Dependences that the caller pushes and pops: which instruction posts and which one waits, also across flushes.

First pushed is first popped. A flush waits for everything, so a dependence that is pushed before it and popped after it needs no token."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from toolchain.isa.sync_tokens import POST, WAIT, Bit, Channel, SyncEncoding, sync_encoding
from toolchain.spec.errors import UserError, fail
from toolchain.spec.model import Machine


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
