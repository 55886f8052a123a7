"""Instructions that latch the fields which their register already holds: a program does without them.

Every step of a kernel sets the registers that it needs. Steps of one operation mostly set the same values, and an instruction costs its unit at least
a cycle and takes a place in a queue. Compilers call it redundant store elimination.
"""

from dataclasses import dataclass, field

from toolchain.isa.semantics.ir import Latch
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec.expr import Const
from toolchain.spec.model import Machine


def repeatable(machine: Machine) -> frozenset[str]:
    """Names of instructions that only latch their fields, in one element of a register that keeps them for any number of readers."""
    found: set[str] = set()
    for name, semantics in machine_semantics(machine).items():
        if len(semantics.body) == 1 and isinstance(latch := semantics.body[0], Latch) and isinstance(latch.index, Const):
            alone = sum(memory.latches == name for memory in machine.memories) == 1
            found |= {name} if alone and not machine.memory[latch.register].consumed else set()
    return frozenset(found)


@dataclass
class Latched:
    """The line that last set each register, by stream and instruction. only_latch: `repeatable` of the machine."""

    only_latch: frozenset[str]
    last: dict[tuple[int, str], str] = field(default_factory=dict[tuple[int, str], str])

    def repeats(self, stream: int, line: str) -> bool:
        """Whether an instruction's line sets its register to the fields that stand there; else it is remembered."""
        name = line.split(maxsplit=1)[0] if self.only_latch else ""
        if name not in self.only_latch:
            return False
        before, self.last[stream, name] = self.last.get((stream, name)), line
        return before == line
