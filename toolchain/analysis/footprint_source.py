"""The address phase of a machine's accesses as C, on top of toolchain/templates/checker/footprint.c.

Addresses, guards and bounds are computed over columns of loop-invariant values.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from toolchain.isa.c_source import HELPERS, INT64, CValue, CWriter
from toolchain.isa.footprint.footprints import LONGEST
from toolchain.isa.footprint.loop_nest import Exists, Nest, instance_of, machine_nests, scheduled
from toolchain.isa.footprint.walk import Fold, Guard, Loop, free_vars
from toolchain.isa.semantics import ir
from toolchain.spec.compile import CHECKER
from toolchain.spec.expr import Choose, Expr
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
        slot = f"({instance} * {memory.elements} + {self.slot(memory, access.view, access.index[-1], True)})"
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
        unit, size, depth = view.unit or memory.element.bytes, memory.element.bytes, memory.elements
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


@dataclass(frozen=True)
class FootprintSource:
    """source: the whole C text. columns: for each kind the expressions of its columns, in order.

    A RegisterRead whose index has loop variables stands for a table of [rows, depth]; its index is Const(0) here.
    """

    source: str
    columns: tuple[tuple[Expr, ...], ...]


MANY = 100
"""Nests of a kind of instruction that is left out for programs which have none of it: one that stands for a whole loop takes as long to write and
to compile as all others together."""


def large_kinds(machine: Machine) -> frozenset[int]:
    """Kinds of instructions with MANY nests or more."""
    nests = machine_nests(machine)
    return frozenset(kind for kind, instruction in enumerate(machine.instructions) if len(nests[instruction.name]) >= MANY)


def footprint_source(machine: Machine, without: Collection[int] = ()) -> FootprintSource:
    """without: kinds of instructions that have no functions. Raises UserError E0707 for an address that C cannot hold."""
    parts = [f"#define LONGEST {float(LONGEST)}", (CHECKER / "footprint.c").read_text(), HELPERS, *_memories(machine)]
    columns: list[tuple[Expr, ...]] = []
    for kind, instruction in enumerate(machine.instructions):
        writer = _Kind(machine, kind)
        known = () if kind in without else machine_nests(machine)[instruction.name]
        nests = [n for n in known if n.occurrence.kind in ("read", "write", "feed", "fill")]
        parts += [writer.nest(number, nest) for number, nest in enumerate(sorted(nests, key=lambda n: n.occurrence.kind == "fill"))]
        calls = "".join(f" nest_{kind}_{n}(w, row);" for n in range(len(nests)))
        parts.append(f"static void kind_{kind}(Work *w, int64_t row) {{ (void)w; (void)row;{calls} }}\n")
        columns.append(tuple(writer.columns.found))
    cases = "".join(f"        case {k}: kind_{k}(&w, row); break;\n" for k in range(len(machine.instructions)))
    return FootprintSource("\n".join([*parts, DRIVER.replace("@CASES", cases)]), tuple(columns))


DRIVER = """
// 0; 1 without enough memory; 2 when an address has no value. The caller frees every buffer with footprints_free.
int footprints(Task *t) {
    Work w = {.task = t};
    tw_fault = 0;
    for (int64_t k = 0; k < t->n && !t->failed && !tw_fault; k++) {
        w.instruction = t->order[k];
        w.first_fault = t->faults.count;
        int64_t row = t->row[w.instruction];
        switch (t->kind[w.instruction]) {
@CASES        }
        if (w.count && !t->failed) flush(&w);
    }
    free(w.pieces);
    free(w.scratch);
    return t->failed ? 1 : tw_fault ? 2 : 0;
}

void footprints_free(void *at) { free(at); }
"""


def _memories(machine: Machine) -> Iterator[str]:
    for number, m in enumerate(machine.memories):
        if m.kind != "register":
            bases = [sum(m.depths[:b]) * m.element.bytes for b in range(m.banks)]
            depths, starts = (", ".join(map(str, values)) for values in (m.depths, bases))
            yield f"static const int64_t depth_{number}[] = {{{depths}}}, base_{number}[] = {{{starts}}};"
            shape = f"{m.banks}, {int(m.kind == 'ring')}, {m.element.bytes}, {m.granule}, INT64_C({m.bytes}), depth_{number}, base_{number}"
            yield f"static const Memory memory_{number} = {{{shape}}};"


class _Kind(AddressWriter):
    """Writes the nests of one kind of instruction."""

    def __init__(self, machine: Machine, kind: int) -> None:
        super().__init__(machine)
        self.kind = kind

    def nest(self, number: int, nest: Nest) -> str:
        """The function nest_KIND_NUMBER."""
        self.used = {}
        body = "".join(f"    {line}\n" for line in self.lines(nest))
        loads = "".join(f"    const int64_t f{n} = columns[{n}][row];\n" for n in self.used)
        head = f"static void nest_{self.kind}_{number}(Work *w, int64_t row) {{\n"
        columns = f"    const int64_t *const *columns = w->task->columns[{self.kind}];\n    (void)columns; (void)row;\n"
        return f"{head}{columns}{loads}    int64_t weight = 1;\n    (void)weight;\n{body}}}\n"

    def lines(self, nest: Nest) -> Iterator[str]:
        path = nest.path
        leading = next((i for i, item in enumerate(path) if isinstance(item, Loop)), len(path))
        for item in path[:leading]:
            assert isinstance(item, Guard)
            yield f"if (!{self.text(item.condition)}) return;"
        yield from self.budget(nest, path[leading:])
        opened = 0
        for place, item in enumerate(path[leading:], leading):
            if isinstance(item, Guard):
                yield f"if (!{self.text(item.condition)}) continue;"
            elif place == len(path) - 1 and item.step is not None and nest.occurrence.kind != "fill":
                yield from self.run(nest, item)
                yield "}" * opened
                return
            else:
                yield from self.open(item)
                opened += 1
        yield from self.fill(nest) if nest.occurrence.kind == "fill" else self.emit(nest, "1", "1")
        yield "}" * opened + (" " if opened else "")

    def open(self, loop: Loop) -> Iterator[str]:
        """Opens a loop; one that never steps is taken once, with its count as weight."""
        v = variable(loop.var)
        outer = f"outer_{v}"
        yield f"const int64_t {outer} = weight;"
        yield f"int64_t stop_{v} = {self.text(loop.stop)};"
        yield f"const int64_t start_{v} = {self.text(loop.start)};"
        if loop.step is not None:
            yield f"const int still_{v} = {self.text(loop.step)} == 0 && stop_{v} - start_{v} > 1;"
            yield f"const int64_t times_{v} = still_{v} ? stop_{v} - start_{v} : 1;"
            yield f"if (still_{v}) stop_{v} = start_{v} + 1;"
        times = f" * times_{v}" if loop.step is not None else ""
        yield f"for (int64_t {v} = start_{v}; {v} < stop_{v}; {v}++) {{ weight = {outer}{times};"

    def budget(self, nest: Nest, path: tuple[Loop | Guard, ...]) -> Iterator[str]:
        factors: list[str] = []
        for loop in path:
            if isinstance(loop, Loop) and not (free_vars(loop.start) | free_vars(loop.stop)):
                count = f"({self.text(loop.stop)} - {self.text(loop.start)})"
                once = "0"
                if loop.step is not None and not free_vars(loop.step):
                    step = self.text(loop.step)
                    flat = f" || llabs({step}) * {self.unit(nest)} == {nest.access.view.element.bytes}" if loop is path[-1] else ""
                    once = f"({step} == 0{flat})"
                factors.append(f"({count} <= 0 ? 0.0 : {once} ? 1.0 : (double){count})")
        if factors:
            yield f"const double total = {' * '.join(factors)};"
            highest = "INT64_C(4611686018427387904)"
            yield f"const int64_t amount = total < 4611686018427387904.0 ? (int64_t)total : {highest};"
            yield f"if (total > LONGEST) {{ fault(w, {nest.access.number}, BUDGET, amount, amount); return; }}"

    def run(self, nest: Nest, loop: Loop) -> Iterator[str]:
        """The innermost loop: one run where it goes from neighbour to neighbour."""
        v = variable(loop.var)
        assert loop.step is not None
        yield "{"
        yield f"const int64_t start_{v} = {self.text(loop.start)}, stop_{v} = {self.text(loop.stop)}, step_{v} = {self.text(loop.step)};"
        yield f"if (start_{v} < stop_{v}) {{ if (llabs(step_{v}) * {self.unit(nest)} == {nest.access.view.element.bytes}) {{"
        yield f"const int64_t {v} = step_{v} < 0 ? stop_{v} - 1 : start_{v};"
        yield from self.emit(nest, f"(stop_{v} - start_{v})", f"llabs(step_{v})")
        yield "} else {"
        yield f"const int64_t end_{v} = step_{v} ? stop_{v} : start_{v} + 1, outer_{v} = weight;"
        yield f"if (!step_{v}) weight *= stop_{v} - start_{v};"
        yield f"for (int64_t {v} = start_{v}; {v} < end_{v}; {v}++) {{"
        yield from self.emit(nest, "1", "1")
        yield f"}} weight = outer_{v};"
        yield "} } }"

    def emit(self, nest: Nest, count: str, spacing: str) -> Iterator[str]:
        feed = nest.occurrence.kind == "feed"
        view, access = nest.access.view, -1 if feed else nest.access.number
        number, write = self.number(view.memory), nest.occurrence.kind == "write"
        yield "do {"
        for level, e in nest.occurrence.at:
            limit = next(x.count for x in self.machine.levels if x.name == level)
            failed = "" if feed else f"fault(w, {access}, INSTANCE, at, at); "
            yield f"{{ const int64_t at = {self.text(e)}; if (at < 0 || at >= {limit}) {{ {failed}break; }} }}"
        place = f"{self.text(nest.instance)}, {self.bank_address(nest.occurrence.index)}, {count}, {spacing}"
        yield f"touch(w, &memory_{number}, {number}, {self.unit(nest)}, {view.element.bytes}, {int(write)}, {access}, {place});"
        total = "traffic_written" if write else "traffic_read"
        bytes_each = view.element.bytes * nest.replicas
        if not feed:
            yield f"w->task->{total}[w->instruction * w->task->memories + {number}] += {count} * weight * {bytes_each};"
        yield "} while (0);"

    def fill(self, nest: Nest) -> Iterator[str]:
        """Writes an element of a control memory, and notes where it came from."""
        memory, value = self.machine.memory[nest.access.view.memory], nest.occurrence.value
        number, size = self.number(memory.name), memory.element.bytes
        assert value is not None
        index = self.slot(memory, nest.access.view, nest.occurrence.index[-1], False)
        yield f"const int64_t slot = {index};"
        yield f"const int within = slot >= 0 && slot < {memory.elements};"
        yield f"uint8_t *const to = w->task->control[{number}] + ({self.text(nest.instance)} * {memory.elements} + (within ? slot : 0)) * {size};"
        yield f"if (within) {{ {self.filled(value, size)} }}"

    def filled(self, value: Expr, size: int) -> str:
        """Statements that put a value of `size` bytes at `to`."""
        match value:
            case Choose(condition=condition, then=then, other=other):
                return f"if ({self.text(condition)}) {{ {self.filled(then, size)} }} else {{ {self.filled(other, size)} }}"
            case ir.Load(access=access):
                source, view = self.machine.memory[access.view.memory], access.view
                instance = self.text(instance_of(self.machine, source.scope, dict(access.at), True))
                byte = f"clipped({self.text(access.index[0])} * {view.unit}, INT64_C({source.bytes - size}))"
                return f"memcpy(to, w->task->source[{self.number(source.name)}] + {instance} * INT64_C({source.bytes}) + {byte}, {size});"
            case _:
                text = f"const uint64_t value = (uint64_t){self.text(value)};"
                return f"{text} for (int k = 0; k < {size}; k++) to[k] = (uint8_t)(value >> 8 * k);"

    def bank_address(self, index: tuple[Expr, ...]) -> str:
        return ", ".join(self.text(i) for i in index) if len(index) == 2 else f"0, {self.text(index[0])}"

    def unit(self, nest: Nest) -> int:
        view = nest.access.view
        return view.unit or self.machine.memory[view.memory].element.bytes
