"""The parts of an instruction that must run iteration by iteration, where values live, and the dependencies of its address phase.

A loop may become an array axis unless a value passes from one of its iterations to the next, other than through
memory (transactions see to that) or as a sum, maximum or minimum gathered in a temporary. A part of the address phase
depends on fields, registers and control memories.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.traverse import addresses, expressions, nodes, statements
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
    """here: needs of the loops and branches around the current place."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self.all = reads.all
        self.here = Needs()

    def of(self, *parts: Expr) -> Needs:
        """The needs of expressions at the current place."""
        return self.here | self._reads.of(*parts)


Path = tuple[str, ...]
"""The variables of the enclosing loops, outermost first."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A place in the text that reads or writes a name. gathers: `+`, `min` or `max` for a write that only gathers."""

    path: Path
    write: bool
    gathers: str = ""


@dataclass
class Structure:
    """names, temps: where each is read and written, in text order. latches: paths of statements that latch fields."""

    semantics: ir.Semantics
    names: dict[str, list[Occurrence]] = field(default_factory=dict[str, list[Occurrence]])
    temps: dict[str, list[Occurrence]] = field(default_factory=dict[str, list[Occurrence]])
    serial: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self._walk(self.semantics.body, ())
        for found in self.names.values():
            self._serialise(found, home(found))
        for found in self.temps.values():
            self._serialise(found, home(found))

    def temp_depth(self, name: str) -> int:
        """How many loops enclose everything that touches a temporary."""
        return len(home(self.temps[name]))

    def _serialise(self, found: list[Occurrence], where: Path) -> None:
        for one in found:
            for depth in range(len(where), len(one.path)) if one.write else ():
                inside = [o for o in found if o.path[: depth + 1] == one.path[: depth + 1]]
                if not one.gathers or any(o.gathers != one.gathers for o in inside):
                    self.serial.add(one.path[depth])

    def _walk(self, body: tuple[ir.Stmt, ...], path: Path) -> None:
        for stmt in body:
            match stmt:
                case ir.For(var=var, start=start, stop=stop, body=inner):
                    self._reads(start, path)
                    self._reads(stop, path)
                    self._walk(inner, (*path, var))
                case ir.If(condition=condition, then=then, other=other):
                    self._reads(condition, path)
                    self._walk(then, path)
                    self._walk(other, path)
                case ir.Let(name=name, value=value):
                    self._reads(value, path)
                    self.names.setdefault(name, []).append(Occurrence(path, True))
                case ir.SetTemp(name=name):
                    self._set_temp(stmt, path)
                case ir.Store(access=access, value=value):
                    self._access(access, path)
                    self._reads(value, path)
                case ir.Latch(index=index):
                    self._reads(index, path)
                    self.serial.update(path)
                case _:
                    raise TypeError(stmt)

    def _set_temp(self, stmt: ir.SetTemp, path: Path) -> None:
        op, rest = gathering(stmt, self.semantics.temps[stmt.name])
        self._reads(rest, path)
        self.temps.setdefault(stmt.name, []).append(Occurrence(path, True, op))

    def _access(self, access: ir.Access, path: Path) -> None:
        for part in addresses(access):
            self._reads(part, path)

    def _reads(self, e: Expr, path: Path) -> None:
        for node in nodes(e):
            match node:
                case ir.Var(name=name) if name not in path:
                    self.names.setdefault(name, []).append(Occurrence(path, False))
                case ir.Temp(name=name):
                    self.temps.setdefault(name, []).append(Occurrence(path, False))
                case _:
                    pass


def home(found: list[Occurrence]) -> Path:
    """The loops that enclose every occurrence."""
    path = found[0].path
    for other in found[1:]:
        while other.path[: len(path)] != path:
            path = path[:-1]
    return path


def gathering(stmt: ir.SetTemp, kind: ir.TempType) -> tuple[str, Expr]:
    """The operation that gathers into the temporary in any order, and the gathered value; or an empty string and the value."""
    if any(isinstance(e, ir.Temp) and e.name == stmt.name for e in nodes(stmt.value)):
        return _running(stmt, kind.overflow)
    if stmt.accumulate:
        return ("" if kind.overflow == "saturate" else "+"), stmt.value
    return "", stmt.value


def _running(stmt: ir.SetTemp, overflow: str) -> tuple[str, Expr]:
    """`t[c] = max(t[c], x)`"""
    own = ir.Temp(stmt.name, stmt.lanes)
    match stmt.value:
        case ir.Extreme(op=op, values=(first, second)) if not stmt.accumulate and overflow != "wrap" and own in (first, second):
            rest = second if first == own else first
            if not any(isinstance(e, ir.Temp) and e.name == stmt.name for e in nodes(rest)):
                return op, rest
        case _:
            pass
    return "", stmt.value


def stores(body: tuple[ir.Stmt, ...]) -> Iterator[ir.Store]:
    """Every store, in text order."""
    return (stmt for stmt in statements(body) if isinstance(stmt, ir.Store))
