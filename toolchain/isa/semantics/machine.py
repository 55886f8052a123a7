"""Reads the semantics of instructions: a subset of Python syntax, parsed with `ast`, resolved into toolchain/isa/semantics/ir.py."""

import functools
from collections.abc import Mapping
from types import MappingProxyType

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.checks import check_semantics
from toolchain.isa.semantics.expressions import Expressions
from toolchain.isa.semantics.functions import read_functions
from toolchain.isa.semantics.ranges import analyse
from toolchain.isa.semantics.scope import Scope
from toolchain.isa.semantics.statements import Statements
from toolchain.isa.semantics.text import Locator
from toolchain.spec.errors import fail
from toolchain.spec.fingerprint import MachineKey
from toolchain.spec.model import Instruction, Machine


def machine_semantics(machine: Machine) -> Mapping[str, ir.Semantics]:
    """The resolved semantics of every instruction by name, read and proved once for each Machine object.

    Raises UserError E02xx: E0220 to E0223 where a value may pass its range (toolchain/isa/semantics/ranges.py).
    """
    return _machine_semantics(MachineKey(machine))


@functools.lru_cache(maxsize=128)
def _machine_semantics(key: MachineKey) -> Mapping[str, ir.Semantics]:
    found = {i.name: read_semantics(key.machine, i) for i in key.machine.instructions}
    for semantics in found.values():
        analyse(key.machine, semantics)
    return MappingProxyType(found)


def read_semantics(machine: Machine, instruction: Instruction) -> ir.Semantics:
    """The resolved semantics of one instruction. Raises UserError E02xx with the position in the machine's file."""
    locator, scope = Locator(instruction.semantics), Scope(machine, instruction)
    statements = Statements(scope, Expressions(scope, read_functions(machine)), locator)
    try:
        body = statements.block(locator.parse())
    except RecursionError:
        raise fail("E0212", f"the semantics of {instruction.name} are nested too deep", instruction.semantics.span) from None
    semantics = ir.Semantics(instruction.name, body, scope.lanes, scope.temps, tuple(scope.accesses))
    check_semantics(machine, semantics)
    return semantics


__all__ = ["MachineKey", "machine_semantics", "read_semantics"]
