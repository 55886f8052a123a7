"""Instructions that latch the fields which their register already holds: a program does without them.

Every step of a kernel sets the registers that it needs. Steps of one operation mostly set the same values, and an instruction costs its unit at least
a cycle and takes a place in a queue. Compilers call it redundant store elimination.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.semantics.ir import Latch
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec.arrays import Ints
from toolchain.spec.expr import Const
from toolchain.spec.model import Machine


def repeatable(machine: Machine) -> frozenset[str]:
    """Names of instructions that only latch their fields, in one element of a register that keeps them for any number of readers."""
    found: set[str] = set()
    for name, semantics in machine_semantics(machine).items():
        if len(semantics.body) == 1 and isinstance(latch := semantics.body[0], Latch) and isinstance(latch.index, Const):
            alone = sum(name in memory.latches for memory in machine.memories) == 1
            register = machine.memory[latch.register]
            found |= {name} if alone and register.latches == (name,) and not register.consumed else set()
    return frozenset(found)


def repeated_latches(machine: Machine, kind: Ints, stream: Ints, row: Ints, tables: Mapping[int, Ints]) -> NDArray[np.bool_]:
    """bool [n]: whether an instruction sets its register to the fields that stand there, which its stream's last of the kind has set.

    kind, stream, row: int64 [n], in an order that keeps each stream's; row: where an instruction's fields stand in tables[kind].
    """
    found = np.zeros(len(kind), np.bool_)
    names = repeatable(machine)
    for number in (n for n, instruction in enumerate(machine.instructions) if instruction.name in names and n in tables):
        places = np.flatnonzero(kind == number)
        places = places[np.argsort(stream[places], kind="stable")]
        values = np.column_stack([stream[places], tables[number][row[places]]])
        found[places[1:]] = (values[1:] == values[:-1]).all(axis=1)
    return found
