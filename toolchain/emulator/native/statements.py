"""Statements of an instruction as C, just as they are written; matrix products go to `products` first."""

from collections.abc import Callable, Mapping, Sequence

from toolchain.emulator.native.function import Function, c_type
from toolchain.emulator.native.lanes import LaneWriter, Sheet, is_scalar, lane_place, lane_strides, new_writer, temp_name, temp_type
from toolchain.isa.c_source import Interval
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.instances import access_differs, replica_levels, replica_names, scope_levels
from toolchain.spec import expr as ex
from toolchain.spec.errors import fail
from toolchain.spec.expr import Expr

Known = Mapping[Expr, Interval]
"""Bounds of expressions that a test at run time has made sure of."""

Lanes = tuple[list[str], list[str]]
"""The lines of a statement, and those among them that are done for every lane."""

Instead = Callable[[ir.Stmt], list[str] | None]
"""C for a statement that something else takes care of, or None."""


def block(function: Function, body: Sequence[ir.Stmt], instead: Instead = lambda _: None) -> list[str]:
    """The lines of statements in order."""
    return [line for stmt in body for line in (instead(stmt) or statement(function, stmt, instead))]


def statement(function: Function, stmt: ir.Stmt, instead: Instead) -> list[str]:
    """The lines of one statement."""
    match stmt:
        case ir.For(var=var, start=start, stop=stop, body=body):
            end = function.fresh("e")
            head = f"for (int64_t v_{var} = {function.scalar(start).text}, {end} = {function.scalar(stop).text}; v_{var} < {end}; v_{var}++) {{"
            return [*count_work(function, stmt), head, *block(function, body, instead), "}"]
        case ir.If(condition=condition, then=then, other=other):
            lines = [f"if ({function.scalar(condition).text}) {{", *block(function, then, instead)]
            return [*lines, *(["} else {", *block(function, other, instead)] if other else []), "}"]
        case ir.Let(name=name, value=value):
            return [f"v_{name} = {function.scalar(value).text};"]
        case ir.SetTemp():
            return set_temp(function, stmt)
        case ir.Store(access=access):
            lines = copy(function, stmt) if access.lanes is None else store(function, stmt)
            alone = function.apart and function.replicas > 1 and not _moves(function, access)
            return ["if (tw_r == 0) {", *lines, "}"] if alone else lines
        case ir.Latch(register=register, index=index):
            return latch(function, register, index)
        case _:
            raise TypeError(stmt)


def count_work(function: Function, loop: ir.For) -> list[str]:
    """Refuses to start loops that would run for ever."""
    if id(loop) not in function.chains:
        return []
    bounds = [(function.scalar(x.start), function.scalar(x.stop)) for x in function.chains[id(loop)]]
    text = "0"
    for start, stop in reversed(bounds):
        text = f"(double)tw_max({stop.text} - ({start.text}), 0) * (1 + {text})"
    return [f"if (tw_too_many(c, {text})) return;"]


def _moves(function: Function, access: ir.Access) -> bool:
    return access_differs(function.machine, access, function.levels, replica_names(function.machine, function.semantics))


def around(function: Function, sheet: Sheet, lines: list[str], once: bool = False) -> list[str]:
    """The statement's lines, repeated for each replica where replicas differ."""
    if sheet.varies and not once:
        lines = [*replica_loop(function), *sheet.own, *lines, "}"]
    else:
        several = function.replicas > 1 and not function.apart
        lines = [*(_places(function, "0") if sheet.own or several else []), *sheet.own, *lines]
    return ["{", *sheet.shared, *lines, "}"]


def replica_loop(function: Function) -> list[str]:
    """Opens the loop over replicas and sets the index at each lockstep level."""
    return [f"for (int64_t tw_r = 0; tw_r < {function.replicas}; tw_r++) {{", *_places(function, "tw_r")]


def _places(function: Function, number: str) -> list[str]:
    lines: list[str] = []
    inner = 1
    for level in reversed(replica_levels(function.machine)):
        lines.append(f"const int64_t p_{level.name} = {number} / {inner} % {level.count}; (void)p_{level.name};")
        inner *= level.count
    return lines if number == "tw_r" else ["const int64_t tw_r = 0; (void)tw_r;", *lines]


def lane_loops(function: Function, lanes: Sequence[str]) -> str:
    """Loops over lane names, the last one fastest: left to the vectoriser, which unrolling would keep from its work."""
    loops = [f"for (int l_{lane} = 0; l_{lane} < {function.semantics.lanes[lane]}; l_{lane}++)" for lane in lanes]
    return " ".join([*loops[:-1], "TW_LOOP", *loops[-1:]]) if loops else ""


def set_temp(function: Function, stmt: ir.SetTemp) -> list[str]:
    """A lane temporary, all its lanes at once where it reads itself crosswise."""
    kind = function.semantics.temps[stmt.name]
    value = ex.Binary("+", ir.Temp(stmt.name, stmt.lanes), stmt.value) if stmt.accumulate else stmt.value
    target, stored = temp_name(function, stmt.name), c_type(temp_type(function, stmt.name))
    crossed = any(isinstance(e, ir.Temp) and e.name == stmt.name and e.lanes != stmt.lanes for e in ex.walk(value))

    def write(known: Known) -> Lanes:
        sheet = Sheet(function)
        sheet.varies = function.replicas > 1 and not function.apart
        writer = new_writer(function, sheet, known)
        text, flat = writer.narrowed(value, kind.type, kind.overflow), writer.flat(stmt.lanes)
        place = "tw_new" if crossed else target
        lines = [lane_loops(function, stmt.lanes), "{", *sheet.body, f"{place}[{flat}] = ({stored}){text};", "}"]
        if crossed:
            lines = [f"{stored} tw_new[sizeof {target} / sizeof {target}[0]];", *lines, f"memcpy({target}, tw_new, sizeof tw_new);"]
        return around(function, sheet, lines), [*sheet.body, text]

    return narrowest(function, value, write)


def store(function: Function, stmt: ir.Store) -> list[str]:
    """All free lanes of an element: every lane is computed before the first is written."""
    access, memory = stmt.access, function.machine.memory[stmt.access.view.memory]
    kept = tuple(lane for lane in access.lanes or () if isinstance(lane, str))
    value = ex.Binary("+", ir.Load(access), stmt.value) if stmt.accumulate else stmt.value
    kind, total = access.view.element.scalar, 1
    for lane in kept:
        total *= function.semantics.lanes[lane]

    def write(known: Known) -> Lanes:
        sheet = Sheet(function)
        writer = new_writer(function, sheet, known)
        text, flat = writer.narrowed(value, kind, memory.overflow), writer.flat(kept)
        target = sheet.element(access, "")
        lines = [f"{c_type(kind)} tw_new[{total}];", lane_loops(function, kept), "{", *sheet.body, f"tw_new[{flat}] = {text};", "}"]
        if _dense(access, kept):
            lines.append(f"memcpy({target}, tw_new, sizeof tw_new);")
        else:
            lines += [lane_loops(function, kept), f"{{ {lane_place(writer, access, target)} = tw_new[{flat}]; }}"]
        return around(function, sheet, [*lines, *sheet.write_back(access)], once=not function.access_varies(access)), [*sheet.body, text]

    return narrowest(function, value, write)


def narrowest(function: Function, value: Expr, write: Callable[[Known], Lanes]) -> list[str]:
    """Twice where a left shift by an amount known only at run time would ask for 64 bits: in 32 for small amounts, and in full."""
    lines, lanes = write({})
    shifts = [e for e in ex.walk(value) if isinstance(e, ex.Binary) and e.op == "<<" and not is_scalar(e.left) and is_scalar(e.right)]
    amounts = list(dict.fromkeys(e.right for e in shifts if not isinstance(e.right, ex.Const)))
    if not amounts or not _wide(lanes) or any(function.varies(a) or not _plain(a) for a in amounts):
        return lines
    for most in (16, 8, 6, 4, 2, 0):
        short, lanes = write({a: Interval(0, most) for a in amounts})
        if not _wide(lanes):
            tests = " && ".join(f"{function.scalar(a).text} <= {most}" for a in amounts)
            return [f"if ({tests}) {{", *short, "} else {", *lines, "}"]
    return lines


def _wide(lanes: list[str]) -> bool:
    return any("int64_t" in line or "__int128" in line for line in lanes)


def _plain(amount: Expr) -> bool:
    """Whether an amount is made of fields and names alone, so that looking at it early is harmless."""
    return all(isinstance(e, ex.Const | ex.Unary | ex.Binary | ir.Extreme | ir.FieldRef | ir.Var) for e in ex.walk(amount)) and not any(
        isinstance(e, ex.Binary) and e.op in ("//", "%") for e in ex.walk(amount)
    )


def _dense(access: ir.Access, kept: tuple[str, ...]) -> bool:
    view, size = access.view, access.view.element.scalar.bits // 8
    return access.lanes == kept and view.offsets == tuple(n * size for n in range(view.element.lanes)) and lane_strides(view) is not None


def copy(function: Function, stmt: ir.Store) -> list[str]:
    """A whole element, as it is stored."""
    sheet = Sheet(function)
    target, source = sheet.element(stmt.access, ""), _source(new_writer(function, sheet), stmt.value)
    line = f"memmove({target}, {source}, {stmt.access.view.element.bytes});"
    return around(function, sheet, [line, *sheet.write_back(stmt.access)], once=not function.access_varies(stmt.access))


def _source(writer: LaneWriter, value: Expr) -> str:
    assert writer.sheet
    match value:
        case ir.Load(access=access) | ir.ControlRead(access=access, member=""):
            return writer.sheet.element(access, writer.path)
        case ex.Const(value=0):
            return "tw_zeros"
        case ex.Choose(condition=condition, then=then, other=other) if is_scalar(condition):
            test = writer.value(condition).text
            return f"({test} ? {_source(writer.side(test), then)} : {_source(writer.side(f'!{test}'), other)})"
        case _:
            raise fail("E0708", "a whole element takes another element, or zero", value.span)


def latch(function: Function, register: str, index: Expr) -> list[str]:
    """All fields of the instruction into a register; the arrays are not the State's own, see `frame`."""
    memory = function.machine.memory[register]
    function.registers[register] = None
    names = [f.name for f in function.machine.latched(memory)]
    for name in names:
        function.fields[name] = None
    row = f"({function.instance(memory)} * {memory.depths[0]} + tw_place({function.scalar(index).text}, {memory.depths[0]}))"
    lines = ["{", f"const int64_t tw_row = {row};", f"int64_t *const tw_to = l_{register} + tw_row * {len(names)};"]
    lines += [f"tw_to[{i}] = f_{name};" for i, name in enumerate(names)]
    lines += [f"w_{register}[tw_row] = 1;", "}"]
    if any(level.name in function.levels for level in scope_levels(function.machine, memory.scope)) and not function.apart:
        return [*replica_loop(function), *lines, "}"]
    return lines
