"""What each part of an instruction's address phase depends on: fields, and whether registers or control memories too."""

from dataclasses import dataclass

from toolchain.emulator.vectorised.structure import deep
from toolchain.isa import ir
from toolchain.spec.expr import Expr
from toolchain.spec.model import Instruction, Machine


@dataclass(frozen=True, slots=True)
class Needs:
    """fields: positions among the instruction's fields, ascending. changing: also registers or control memories."""

    fields: tuple[int, ...] = ()
    changing: bool = False

    def __or__(self, other: "Needs") -> "Needs":
        return Needs(tuple(sorted({*self.fields, *other.fields})), self.changing or other.changing)


class Dependencies:
    """names: what each loop variable and scalar needs; here: what the loops and branches around the current place need."""

    def __init__(self, machine: Machine, instruction: Instruction, semantics: ir.Semantics) -> None:
        self._machine = machine
        self._fields = {f.name: i for i, f in enumerate(instruction.fields)}
        self.all = Needs(tuple(range(len(instruction.fields))), True)
        self.here = Needs()
        self.names: dict[str, Needs] = {}
        before: dict[str, Needs] | None = None
        while before != self.names:
            before = dict(self.names)
            self._walk(semantics.body, Needs())

    def of(self, *parts: Expr) -> Needs:
        """What expressions need at the current place."""
        return self.here | self._of(*parts)

    def _of(self, *parts: Expr) -> Needs:
        found = Needs()
        for part in parts:
            for node in deep(part):
                match node:
                    case ir.FieldRef(name=name):
                        found |= Needs((self._fields[name],))
                    case ir.Var(name=name):
                        found |= self.names.get(name, Needs())
                    case ir.ControlRead():
                        found |= Needs((), True)
                    case ir.RegisterRead(register=register) if not self._machine.memory[register].host:
                        found |= Needs((), True)
                    case _:
                        pass
        return found

    def _walk(self, body: tuple[ir.Stmt, ...], here: Needs) -> None:
        for stmt in body:
            match stmt:
                case ir.For(var=var, start=start, stop=stop, body=inner):
                    inside = here | self._of(start, stop)
                    self.names[var] = self.names.get(var, Needs()) | inside
                    self._walk(inner, inside)
                case ir.If(condition=condition, then=then, other=other):
                    inside = here | self._of(condition)
                    self._walk(then, inside)
                    self._walk(other, inside)
                case ir.Let(name=name, value=value):
                    self.names[name] = self.names.get(name, Needs()) | here | self._of(value)
                case _:
                    pass
