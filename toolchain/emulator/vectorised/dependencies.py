"""What each part of an instruction's address phase depends on: fields, and whether registers or control memories too."""

import functools
from dataclasses import dataclass

from toolchain.emulator.vectorised.structure import Structure
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.isa.semantics.traverse import nodes as all_nodes
from toolchain.spec.expr import Expr
from toolchain.spec.model import Instruction, Machine


@dataclass(frozen=True, slots=True)
class Needs:
    """fields: positions among the instruction's fields, ascending. changing: also registers or control memories."""

    fields: tuple[int, ...] = ()
    changing: bool = False

    def __or__(self, other: "Needs") -> "Needs":
        if not other.fields and not other.changing:
            return self
        return Needs(tuple(sorted({*self.fields, *other.fields})), self.changing or other.changing)


class Reads:
    """What the text of one instruction says, whatever the state. names: what each loop variable and scalar needs."""

    def __init__(self, machine: Machine, instruction: Instruction, semantics: ir.Semantics) -> None:
        self.semantics, self._machine = semantics, machine
        self.structure = Structure(semantics)
        self._fields = {f.name: i for i, f in enumerate(instruction.fields)}
        self._leaves: dict[int, tuple[Expr, Needs, frozenset[str]]] = {}
        self.all = Needs(tuple(range(len(instruction.fields))), True)
        self.names: dict[str, Needs] = {}
        before: dict[str, Needs] | None = None
        while before != self.names:
            before = dict(self.names)
            self._walk(semantics.body, Needs())

    def of(self, *parts: Expr) -> Needs:
        """What expressions need, the place where they stand left aside."""
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
        changing = any(isinstance(n, ir.ControlRead) or (isinstance(n, ir.RegisterRead) and not self._machine.memory[n.register].host) for n in nodes)
        names = frozenset(node.name for node in nodes if isinstance(node, ir.Var))
        found = self._leaves[id(part)] = (part, Needs(tuple(fields), changing), names)
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
        """What expressions need at the current place."""
        return self.here | self._reads.of(*parts)


@dataclass(frozen=True, eq=False)
class _Instruction:
    """Equal when it is the same instruction of the same Machine object."""

    machine: Machine
    name: str

    def __hash__(self) -> int:
        return hash((id(self.machine), self.name))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Instruction) and self.machine is other.machine and self.name == other.name


def reads_of(machine: Machine, name: str) -> Reads:
    """What the text of an instruction says; read once for each Machine object."""
    return _reads_of(_Instruction(machine, name))


@functools.lru_cache(maxsize=256)
def _reads_of(key: _Instruction) -> Reads:
    return Reads(key.machine, key.machine.instruction[key.name], machine_semantics(key.machine)[key.name])
