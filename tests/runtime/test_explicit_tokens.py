"""First pushed is first popped, also across flushes, and what a flush has answered needs no token."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.isa.sync_tokens import POST, WAIT
from toolchain.runtime.explicit_tokens import QueuedInstruction, TokenBook
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine

MACHINE = load_machine("vta")
UNITS = [unit.name for unit in MACHINE.units]
KINDS = {"load": "LOAD", "compute": "GEMM", "store": "STORE"}


@dataclass
class Queue:
    """Commands beside their book; `done` are those of earlier flushes."""

    commands: list[QueuedInstruction] = field(default_factory=list[QueuedInstruction])

    def __post_init__(self) -> None:
        self.book = TokenBook(MACHINE, self.commands)

    def add(self, unit: str) -> QueuedInstruction:
        kind = [i.name for i in MACHINE.instructions].index(KINDS[unit])
        command = QueuedInstruction(kind, UNITS.index(unit), {f.name: 0 for f in MACHINE.instructions[kind].fields})
        self.book.queued(command)
        self.commands.append(command)
        return command

    def flush(self) -> list[QueuedInstruction]:
        self.book.settle()
        done = list(self.commands)
        self.commands.clear()
        return done

    def has(self, command: QueuedInstruction, action: str, source: str, target: str) -> bool:
        channel = self.book.known.channels[UNITS.index(source), UNITS.index(target)]
        bit = self.book.known.bits[command.kind, command.unit, action, channel.counter]
        return bool(command.values[bit.field] >> bit.bit & 1)


def test_a_push_and_a_pop_set_two_bits() -> None:
    queue = Queue()
    load = queue.add("load")
    queue.book.push("load", "compute")
    queue.book.pop("load", "compute")
    other = queue.add("store")
    gemm = queue.add("compute")
    assert queue.has(load, POST, "load", "compute")
    assert queue.has(gemm, WAIT, "load", "compute")
    assert not any(other.values.values())
    assert queue.flush() == [load, other, gemm]
    assert queue.has(load, POST, "load", "compute")


def test_a_flush_answers_what_is_open() -> None:
    queue = Queue()
    load = queue.add("load")
    queue.book.push("load", "compute")
    queue.flush()
    assert not queue.has(load, POST, "load", "compute")
    queue.book.pop("load", "compute")
    assert not queue.has(queue.add("compute"), WAIT, "load", "compute")
    queue.book.pop("load", "compute")
    queue.add("compute")
    with pytest.raises(UserError, match="E1127"):
        queue.flush()


def test_a_pop_that_waits_for_its_command_is_answered_too() -> None:
    queue = Queue()
    queue.add("load")
    queue.book.push("load", "compute")
    queue.book.pop("load", "compute")
    queue.flush()
    assert not queue.has(queue.add("compute"), WAIT, "load", "compute")
    queue.book.pop("load", "compute")
    with pytest.raises(UserError, match="E1127"):
        queue.book.settle()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["load", "compute", "push", "pop", "flush"]), max_size=40))
def test_posts_and_waits_are_even_in_every_flush(actions: list[str]) -> None:
    """Whatever legal order: a flush has as many posts as waits, the k-th post before the k-th wait, and no pop is lost."""
    queue, open_, bits = Queue(), 0, 0
    for action in [*actions, "flush"]:
        if action in ("load", "compute"):
            queue.add(action)
        elif action == "push" and any(c.unit == UNITS.index("load") and not queue.has(c, POST, "load", "compute") for c in queue.commands[-1:]):
            queue.book.push("load", "compute")
            open_ += 1
        elif action == "pop" and open_ and not queue.book.links[UNITS.index("load"), UNITS.index("compute")].pending:
            queue.book.pop("load", "compute")
            open_ -= 1
        elif action == "flush":
            done = queue.flush()
            level = 0
            for command in done:
                if command.unit == UNITS.index("compute"):
                    level -= queue.has(command, WAIT, "load", "compute")
                elif command.unit == UNITS.index("load"):
                    level += queue.has(command, POST, "load", "compute")
                assert level >= 0
            assert level == 0
            bits += 1
    assert bits
