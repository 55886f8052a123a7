"""Reads the semantics of instructions: a subset of Python syntax, parsed with `ast`, resolved into toolchain/isa/semantics/ir.py,
and checked as a whole: lanes have extents, replicas agree on the shared memory that they write.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.access import Scope
from toolchain.isa.semantics.expressions import Expressions
from toolchain.isa.semantics.instances import access_differs, differs, replica_levels, replica_names
from toolchain.isa.semantics.ranges import analyse
from toolchain.isa.semantics.statements import Statements
from toolchain.isa.semantics.text import Locator, read_functions
from toolchain.isa.semantics.traverse import expressions, nodes, statements
from toolchain.spec import expr as ex
from toolchain.spec.errors import fail
from toolchain.spec.expr import Expr
from toolchain.spec.fingerprint import MeaningKey
from toolchain.spec.model import Instruction, Machine


def check_semantics(machine: Machine, semantics: ir.Semantics) -> None:
    """Raises UserError E0206 (a lane without extent), E0217 (a control memory filled with calculated data), E0218 (a shared
    write that depends on the replica) and E0226 (a sum that trees do not divide)."""
    for stmt in statements(semantics.body):
        if isinstance(stmt, ir.SetTemp):
            for lane in stmt.lanes:
                if lane not in semantics.lanes:
                    raise fail("E0206", f"nothing says how long lane '{lane}' is", stmt.span, "use it in the lanes of a memory as well")
        _check_trees(semantics, stmt)
        if isinstance(stmt, ir.Store) and machine.memory[stmt.access.view.memory].control and (stmt.accumulate or not _copied(stmt.value)):
            name = stmt.access.view.memory
            raise fail("E0217", f"'{name}' is a control memory and takes elements as they are", stmt.span, "copy an element, or write a number")
    levels = {level.name for level in replica_levels(machine)}
    if levels:
        _Sharing(machine, levels, replica_names(machine, semantics)).check(semantics.body, False)


def _check_trees(semantics: ir.Semantics, stmt: ir.Stmt) -> None:
    for e in (inner for part in expressions(stmt) for inner in ex.walk(part)):
        if isinstance(e, ir.FloatReduce) and e.width and math.prod(semantics.lanes.get(lane, 0) for lane in e.over) % e.width:
            raise fail("E0226", f"trees of {e.width} do not make up the terms over {', '.join(e.over)}", e.span or stmt.span)


def _copied(value: Expr) -> bool:
    """Whether a value is known before any arithmetic on tensor data: loaded as it is, or a number of the address phase."""
    match value:
        case ex.Choose(condition=condition, then=then, other=other):
            return _known(condition) and _copied(then) and _copied(other)
        case ir.Load():
            return True
        case _:
            return _known(value)


def _known(value: Expr) -> bool:
    return not any(ir.is_lane_leaf(e) for e in nodes(value))


class _Sharing:
    """Looks at every write to memory that the replicas share."""

    def __init__(self, machine: Machine, levels: set[str], names: frozenset[str]) -> None:
        self.machine, self.levels, self.names = machine, levels, names

    def check(self, body: Sequence[ir.Stmt], apart: bool) -> None:
        """apart: whether the replicas may take different paths to these statements."""
        for stmt in body:
            match stmt:
                case ir.For(start=start, stop=stop, body=inner):
                    self.check(inner, apart or any(differs(self.machine, e, self.levels, self.names) for e in (start, stop)))
                case ir.If(condition=condition, then=then, other=other):
                    self.check((*then, *other), apart or differs(self.machine, condition, self.levels, self.names))
                case ir.Store(access=access, value=value) if not access_differs(self.machine, access, self.levels, self.names):
                    if apart or differs(self.machine, value, self.levels, self.names):
                        shown = " and ".join(sorted(self.levels))
                        what = f"every {shown} writes the same element of '{access.view.memory}' with a value of its own"
                        raise fail("E0218", what, stmt.span, "the address must use its index too")
                case _:
                    pass


def machine_semantics(machine: Machine) -> Mapping[str, ir.Semantics]:
    """The resolved semantics of every instruction by name, read and proved once for all machines that differ in prices alone.

    Raises UserError E02xx: E0220 to E0223 where a value may pass its range (toolchain/isa/semantics/ranges.py).
    """
    return _machine_semantics(MeaningKey(machine))


@functools.lru_cache(maxsize=128)
def _machine_semantics(key: MeaningKey) -> Mapping[str, ir.Semantics]:
    found = {i.name: read_semantics(key.machine, i) for i in key.machine.instructions}
    for semantics in found.values():
        analyse(key.machine, semantics)
    return MappingProxyType(found)


def read_semantics(machine: Machine, instruction: Instruction) -> ir.Semantics:
    """The resolved semantics of one instruction. Raises UserError E02xx with the position in the machine's file."""
    locator, scope = Locator(instruction.semantics), Scope(machine, instruction)
    library = read_functions(machine)
    statements = Statements(scope, Expressions(scope, library.functions), locator, library)
    try:
        body = statements.block(locator.parse())
    except RecursionError:
        raise fail("E0212", f"the semantics of {instruction.name} are nested too deep", instruction.semantics.span) from None
    semantics = ir.Semantics(instruction.name, body, scope.lanes, scope.temps, tuple(scope.accesses))
    check_semantics(machine, semantics)
    return semantics
