"""The names an instruction's semantics may use where the reader stands, and those that are surely assigned there."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from toolchain.isa.semantics import ir
from toolchain.spec.errors import Span, fail
from toolchain.spec.model import Instruction, Machine


@dataclass
class Variable:
    """A scalar by its unique name in the IR. depth: the outermost loop depth at which it is assigned."""

    unique: str
    depth: int


@dataclass
class Scope:
    """Names, lanes and accesses of one instruction while its text is read, top to bottom. assigned: on every path so far."""

    machine: Machine
    instruction: Instruction
    loops: dict[str, str] = field(default_factory=dict[str, str])
    lets: dict[str, Variable] = field(default_factory=dict[str, Variable])
    records: dict[str, ir.Access] = field(default_factory=dict[str, ir.Access])
    temps: dict[str, ir.TempType] = field(default_factory=dict[str, ir.TempType])
    lanes: dict[str, int] = field(default_factory=dict[str, int])
    accesses: list[ir.Access] = field(default_factory=list[ir.Access])
    assigned: frozenset[str] = frozenset()
    depth: int = 0
    used: set[str] = field(default_factory=set[str])
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def fields(self) -> list[str]:
        return [f.name for f in self.instruction.fields]

    def taken(self, name: str) -> bool:
        """Whether a name of the machine or of the instruction stands for something already."""
        machine = self.machine
        fixed = name in machine.params or name in machine.memory or any(level.name == name for level in machine.levels)
        return fixed or name in self.fields or name in self.loops or name in self.lets or name in self.temps or name in self.records

    def require_new(self, name: str, span: Span, what: str = "loop, lane and local names must be new") -> None:
        """Raises UserError E0205 for a name that stands for something already."""
        if self.taken(name) or name in self.lanes:
            raise fail("E0205", f"the name '{name}' is taken", span, what)

    def unique(self, name: str) -> str:
        """A name that no other variable of the instruction has."""
        base = name
        while name in self.used or name in self.fields or name in self.machine.params or name in self.machine.memory:
            name = f"{base}_{next(self.numbers)}"
        self.used.add(name)
        return name

    def assign(self, name: str) -> None:
        self.assigned |= {name}

    def require_assigned(self, name: str, span: Span | None) -> None:
        """Raises UserError E0213 where some path reaches this place without assigning the name."""
        if name not in self.assigned:
            raise fail("E0213", f"'{name}' may be used before it is assigned", span, "assign it before the loop or branch as well")

    def let(self, name: str, span: Span) -> tuple[str, bool]:
        """Assigns a scalar here: (its unique name, whether an iteration hands it to the next)."""
        if name not in self.lets:
            self.require_new(name, span)
            self.lets[name] = Variable(self.unique(name), self.depth)
        variable = self.lets[name]
        carried = name in self.assigned and variable.depth < self.depth
        variable.depth = min(variable.depth, self.depth)
        self.assign(name)
        return variable.unique, carried

    def candidates(self) -> list[str]:
        """Every name that could stand in an expression, for suggestions."""
        machine = self.machine
        levels = [level.name for level in machine.levels]
        return [*self.loops, *self.lets, *self.temps, *self.records, *self.fields, *machine.params, *machine.view, *machine.memory, *levels]
