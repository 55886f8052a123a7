"""Dependencies of each part of an instruction's address phase: fields, registers and control memories."""

from dataclasses import dataclass

from toolchain.emulator.numpy_engine.structure import Structure
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.traverse import expressions, statements
from toolchain.isa.semantics.traverse import nodes as all_nodes
from toolchain.spec.expr import Expr
from toolchain.spec.model import Instruction, Machine


@dataclass(frozen=True, slots=True)
class Needs:
    """fields: positions among the instruction's fields, ascending. memories: registers and control memories, sorted."""

    fields: tuple[int, ...] = ()
    memories: tuple[str, ...] = ()

    def __or__(self, other: "Needs") -> "Needs":
        if not other.fields and not other.memories:
            return self
        return Needs(tuple(sorted({*self.fields, *other.fields})), tuple(sorted({*self.memories, *other.memories})))


class Reads:
    """The dependencies in the text of one instruction, whatever the state. names: the needs of each loop variable and scalar.

    all: the needs of everything but the data: the fields that the text reads, or every one where they are latched.
    settled: whether it stays as it is until the instruction ends.
    """

    def __init__(self, machine: Machine, instruction: Instruction, semantics: ir.Semantics) -> None:
        self.semantics, self._machine = semantics, machine
        self.structure = Structure(semantics)
        self._fields = {f.name: i for i, f in enumerate(instruction.fields)}
        self._leaves: dict[int, tuple[Expr, Needs, frozenset[str]]] = {}
        self.names: dict[str, Needs] = {}
        before: dict[str, Needs] | None = None
        while before != self.names:
            before = dict(self.names)
            self._walk(semantics.body, Needs())
        body = list(statements(semantics.body))
        latched = {stmt.register for stmt in body if isinstance(stmt, ir.Latch)}
        read = self.of(*(e for stmt in body for e in expressions(stmt)))
        self.all = read | Needs(tuple(range(len(instruction.fields)))) if latched else read
        written = latched | {stmt.access.view.memory for stmt in body if isinstance(stmt, ir.Store)}
        self.settled = not written & set(self.all.memories)

    def of(self, *parts: Expr) -> Needs:
        """The needs of expressions, the place where they stand left aside."""
        found = Needs()
        for part in parts:
            _, needs, names = self._leaves.get(id(part)) or self._read(part)
            found = found | needs
            for name in names:
                found = found | self.names.get(name, Needs())
        return found

    def _read(self, part: Expr) -> tuple[Expr, Needs, frozenset[str]]:
        nodes = list(all_nodes(part))
        fields = sorted({self._fields[node.name] for node in nodes if isinstance(node, ir.FieldRef)})
        controls = {node.access.view.memory for node in nodes if isinstance(node, ir.ControlRead)}
        registers = {node.register for node in nodes if isinstance(node, ir.RegisterRead)}
        names = frozenset(node.name for node in nodes if isinstance(node, ir.Var))
        found = self._leaves[id(part)] = (part, Needs(tuple(fields), tuple(sorted(controls | registers))), names)
        return found

    def _walk(self, body: tuple[ir.Stmt, ...], here: Needs) -> None:
        for stmt in body:
            match stmt:
                case ir.For(var=var, start=start, stop=stop, body=inner):
                    inside = here | self.of(start, stop)
                    self.names[var] = self.names.get(var, Needs()) | inside
                    self._walk(inner, inside)
                case ir.If(condition=condition, then=then, other=other):
                    inside = here | self.of(condition)
                    self._walk(then, inside)
                    self._walk(other, inside)
                case ir.Let(name=name, value=value):
                    self.names[name] = self.names.get(name, Needs()) | here | self.of(value)
                case _:
                    pass


class Dependencies:
    """here: what the loops and branches around the current place need."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self.all = reads.all
        self.here = Needs()

    def of(self, *parts: Expr) -> Needs:
        """The needs of expressions at the current place."""
        return self.here | self._reads.of(*parts)
