"""Checks of an instruction as a whole: lanes have extents, shared memory is not written differently by replicas."""

from collections.abc import Sequence

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.instances import access_differs, differs, replica_levels, replica_names
from toolchain.isa.semantics.traverse import nodes, statements
from toolchain.spec import expr as ex
from toolchain.spec.errors import fail
from toolchain.spec.expr import Expr
from toolchain.spec.model import Machine


def check_semantics(machine: Machine, semantics: ir.Semantics) -> None:
    """Raises UserError E0206 (a lane without extent), E0217 (a control memory filled with calculated data) and E0218 (a shared
    write that depends on the replica)."""
    for stmt in statements(semantics.body):
        if isinstance(stmt, ir.SetTemp):
            for lane in stmt.lanes:
                if lane not in semantics.lanes:
                    raise fail("E0206", f"nothing says how long lane '{lane}' is", stmt.span, "use it in the lanes of a memory as well")
        if isinstance(stmt, ir.Store) and machine.memory[stmt.access.view.memory].control and (stmt.accumulate or not _copied(stmt.value)):
            name = stmt.access.view.memory
            raise fail("E0217", f"'{name}' is a control memory and takes elements as they are", stmt.span, "copy an element, or write a number")
    levels = {level.name for level in replica_levels(machine)}
    if levels:
        _Sharing(machine, levels, replica_names(machine, semantics)).check(semantics.body, False)


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
