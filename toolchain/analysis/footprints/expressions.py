"""Addresses, guards and bounds of the address phase as C, over columns of what does not depend on loops."""

from dataclasses import dataclass, field, replace

from toolchain.isa.c_source.expressions import CValue, CWriter
from toolchain.isa.c_source.interval import INT64
from toolchain.isa.footprint.loop_nest import Exists, instance_of, scheduled
from toolchain.isa.footprint.walk import Fold, Guard, Loop, free_vars
from toolchain.isa.semantics import ir
from toolchain.spec.expr import Expr
from toolchain.spec.model import Machine, Memory, View


@dataclass(frozen=True, slots=True)
class Table(Expr):
    """A whole register as each instruction finds it: int64 [rows, depth] of one latched field, or of a host register."""

    register: str
    field_name: str


@dataclass
class Columns:
    """Columns that the nests of one kind of instruction read by row: expressions without loop variables, and whole registers."""

    found: dict[Expr, int] = field(default_factory=dict[Expr, int])

    def number(self, e: Expr) -> int:
        return self.found.setdefault(e, len(self.found))


class AddressWriter:
    """Writes expressions of one kind of instruction. used: the columns that the function being written reads."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.columns = machine, Columns()
        self.used: dict[int, None] = {}
        self.fresh = 0

    def text(self, e: Expr) -> str:
        return f"({CWriter(self.leaf, data=False).value(e).text})"

    def leaf(self, e: Expr) -> CValue:
        return CValue(self.leaf_text(e), INT64, 64)

    def leaf_text(self, e: Expr) -> str:
        match e:
            case ir.Var(name=name):
                return variable(name)
            case ir.FieldRef() | ir.Place():
                return self.column(e)
            case ir.RegisterRead(register=register, index=index) if free_vars(index):
                depth = self.machine.memory[register].depths[0]
                table = self.columns.number(Table(register, e.field_name))
                return f"columns[{table}][row * {depth} + clipped({self.text(index)}, {depth - 1})]"
            case ir.RegisterRead():
                return self.column(e)
            case ir.ControlRead(access=access):
                return self.control(e, access)
            case Fold():
                return self.fold(e)
            case Exists(loops=loops, conditions=conditions):
                return self.exists(loops, conditions)
            case _:
                raise TypeError(e)

    def column(self, e: Expr) -> str:
        number = self.columns.number(replace(e, span=None))
        self.used[number] = None
        return f"f{number}"

    def control(self, e: ir.ControlRead, access: ir.Access) -> str:
        memory = self.machine.memory[access.view.memory]
        size = memory.element.bytes
        instance = self.text(instance_of(self.machine, memory.scope, dict(access.at), True))
        slot = f"({instance} * {sum(memory.depths)} + {self.slot(memory, access.view, access.index[-1], True)})"
        raw = f"element(w->task->control[{self.number(memory.name)}] + {slot} * {size}, {size})"
        member = next((f for f in access.view.element.record if f.name == e.member), None)
        lsb, kind = (member.lsb, member.type) if member else (0, access.view.element.scalar)
        up, sign = 64 - lsb - kind.bits, "int64_t" if kind.signed else "uint64_t"
        return f"((int64_t)(({sign})({raw} << {up}) >> {64 - kind.bits}))"

    def fold(self, e: Fold) -> str:
        names = [variable(n) for n in e.names]
        inits = " ".join(f"int64_t {n} = {self.text(i)};" for n, i in zip(names, e.inits, strict=True))
        news = " ".join(f"const int64_t new_{n} = {self.text(u)};" for n, u in zip(names, e.updates, strict=True))
        sets = " ".join(f"{n} = new_{n};" for n in names)
        v = variable(e.var)
        head = f"const int64_t first_{v} = {self.text(e.start)}, end_{v} = {self.text(e.stop)};"
        return f"({{ {head} {inits} for (int64_t {v} = first_{v}; {v} < end_{v}; {v}++) {{ {news} {sets} }} {variable(e.name)}; }})"

    def exists(self, loops: tuple[Loop, ...], conditions: tuple[Expr, ...]) -> str:
        self.fresh += 1
        found, text, closing = f"found_{self.fresh}", "", ""
        for item in scheduled(list(loops), list(conditions)):
            if isinstance(item, Guard):
                text += f"if ({self.text(item.condition)}) {{ "
            else:
                v = variable(item.var)
                text += f"const int64_t end_{v} = {self.text(item.stop)}; "
                text += f"for (int64_t {v} = {self.text(item.start)}; {v} < end_{v} && !{found}; {v}++) {{ "
            closing += "}"
        return f"({{ int {found} = 0; {text}{found} = 1; {closing} {found}; }})"

    def slot(self, memory: Memory, view: View, index: Expr, clip: bool) -> str:
        """The element of a control memory that an index means."""
        unit, size, depth = view.unit or memory.element.bytes, memory.element.bytes, sum(memory.depths)
        text = self.text(index)
        text = text if unit == size else f"tw_floordiv({text} * {unit}, {size})"
        if memory.kind == "ring":
            return f"tw_floormod({text}, {depth})"
        return f"clipped({text}, {depth - 1})" if clip else text

    def number(self, memory: str) -> int:
        return self.machine.memories.index(self.machine.memory[memory])


def variable(name: str) -> str:
    """A C name for a variable; loop variables and replica indices never collide with fields, which are numbered."""
    return f"v_{name.replace('@', 'at_').replace('#', '_n')}"
