"""The end of a flush: it waits for the last command of every unit."""

from collections.abc import Sequence

from toolchain.isa.sync_encoding import POST, WAIT, Bit, Channel, sync_encoding
from toolchain.runtime.explicit_tokens import Command
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine


def fenced(machine: Machine, commands: Sequence[Command], end: Command) -> list[Command]:
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


def _newly_set(machine: Machine, bit: Bit | None, command: Command, channel: Channel) -> bool:
    """Sets a bit; False where it was set before."""
    if bit is None:
        raise fail("E1125", f"{machine.instructions[command.kind].name} has no token of '{channel.counter}'", hint="let dependences be derived")
    if command.values[bit.field] >> bit.bit & 1:
        return False
    command.values[bit.field] |= 1 << bit.bit
    return True
