"""The C text of a whole machine: one function an instruction, put into the engine's template; matrix products get fast C."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import jinja2

from toolchain.emulator.native.accumulate import accumulate_functions, accumulate_lines, can_accumulate
from toolchain.emulator.native.function import Function, c_type, new_function, pack_names
from toolchain.emulator.native.lanes import lane_strides, temp_type
from toolchain.emulator.native.levels import factors, packing_functions
from toolchain.emulator.native.statements import Instead, block, replica_loop, statement
from toolchain.emulator.native.window import can_window, window_functions, window_lines
from toolchain.emulator.numpy_engine.floating import function_table
from toolchain.isa.c_source import HELPERS
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.contraction import Contraction, find_contractions
from toolchain.isa.semantics.instances import stream_levels
from toolchain.isa.semantics.loops import MOST_ITERATIONS
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.isa.semantics.traverse import expressions, nodes, statements
from toolchain.spec.expr import Expr
from toolchain.spec.float_functions import FUNCTIONS
from toolchain.spec.model import FloatType, Machine, View
from toolchain.spec.model.types import FLOATS


@dataclass
class Products:
    """The products found so far in a machine."""

    count: int = 0
    texts: list[str] = field(default_factory=list[str])

    def tables(self) -> str:
        """C that stands before the instructions' functions."""
        return "\n".join(self.texts)

    def finder(self, function: Function) -> Instead:
        """C for loops that are matrix products: fast where the sizes at run time allow, as written otherwise."""
        found = () if function.apart else find_contractions(function.machine, function.semantics)
        lines = {id(c.loop): made for c in found if (made := self._lines(function, c))}

        def instead(stmt: ir.Stmt) -> list[str] | None:
            return lines.get(id(stmt))

        return instead

    def _lines(self, function: Function, c: Contraction) -> list[str] | None:
        f = factors(c, function.semantics.lanes, self.count)
        if f is None:
            return None
        plain = statement(function, c.loop, _nothing)
        makers: tuple[tuple[Callable[..., bool], Callable[..., list[str]], Callable[..., list[str]]], ...] = (
            (can_window, window_functions, window_lines),
            (can_accumulate, accumulate_functions, accumulate_lines),
        )
        for able, functions, write in makers:
            if able(function, c, f):
                self.count += 1
                self.texts += [*packing_functions(f), *functions(function, c, f)]
                return write(function, c, f, plain)
        return None


def _nothing(_: ir.Stmt) -> None:
    return None


TEMPLATES = Path(__file__).resolve().parents[2] / "templates" / "engine"


def engine_source(machine: Machine) -> str:
    """The engine of a machine. Raises UserError E022x and E070x for semantics that it cannot do exactly."""
    return _engine_source(_Identity(machine))


class _Identity:
    """A machine compared by identity; its mappings have no hash."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.machine is other.machine

    def __hash__(self) -> int:
        return id(self.machine)


@functools.lru_cache(maxsize=64)
def _engine_source(key: _Identity) -> str:
    machine, products = key.machine, Products()
    semantics = machine_semantics(machine)
    functions = [
        {"name": i.name, "number": number, "lines": _indented(instruction_lines(machine, semantics[i.name], number, products))}
        for number, i in enumerate(machine.instructions)
    ]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    views = [_view(machine, number, view) for number, view in enumerate(machine.views)]
    largest = max(v.element.bytes for v in machine.views)
    return environment.get_template("engine.c.j2").render(
        helpers=HELPERS,
        views=views,
        zeros=(largest + 127) // 64 * 64,
        functions=functions,
        tables=products.tables(),
        floats=_floats(semantics.values()),
        float_tables=_float_tables(semantics.values()),
        most_iterations=f"{MOST_ITERATIONS}.0",
    )


def _floats(instructions: Iterable[ir.Semantics]) -> list[FloatType]:
    """The floating formats that instructions compute with."""
    found: set[str] = set()
    for e in _nodes(instructions):
        match e:
            case ir.Float(type=kind) | ir.FloatReduce(type=kind) | ir.ToInteger(source=kind):
                found.add(kind.name)
            case ir.ToFloat(type=kind, source=source):
                found |= {kind.name} | ({source.name} if source else set[str]())
            case _:
                pass
    return [kind for kind in FLOATS.values() if kind.name in found]


def _nodes(instructions: Iterable[ir.Semantics]) -> Iterator[Expr]:
    return (e for semantics in instructions for stmt in statements(semantics.body) for part in expressions(stmt) for e in nodes(part))


def _float_tables(instructions: Iterable[ir.Semantics]) -> list[dict[str, str | int]]:
    """The tables of functions that instructions call."""
    found = dict.fromkeys((e.op, e.type) for e in _nodes(instructions) if isinstance(e, ir.Float) and e.op in FUNCTIONS)
    return [
        {"name": f"tw_{kind}_{op}", "bits": kind.bits, "codes": ", ".join(map(str, function_table(op, kind).tolist()))}
        for op, kind in sorted(found, key=lambda item: (item[0], item[1].name))
    ]


def instruction_lines(machine: Machine, semantics: ir.Semantics, number: int, products: Products) -> list[str]:
    """The body of one instruction's function."""
    function = new_function(machine, semantics)
    body = block(function, semantics.body, products.finder(function))
    if function.apart and function.replicas > 1:
        body = [*replica_loop(function), *body, "}"]
    return [*_names(function, number), *body]


def _names(function: Function, number: int) -> list[str]:
    """Declarations of everything the body uses."""
    machine, semantics = function.machine, function.semantics
    lines = ["(void)c; (void)row; (void)stream;"]
    names = [f.name for f in machine.instructions[number].fields]
    lines += [f"const int64_t f_{name} = c->field[{number}][{names.index(name)}][row];" for name in names if name in function.fields]
    inner = 1
    for level in reversed(stream_levels(machine)):
        lines.append(f"const int64_t p_{level.name} = stream / {inner} % {level.count}; (void)p_{level.name};")
        inner *= level.count
    plain = [m for m in machine.memories if m.kind != "register"]
    lines += [f"uint8_t *const m_{m.name} = c->memory[{i}]; (void)m_{m.name};" for i, m in enumerate(plain)]
    lines += [*_register_names(function), *pack_names(list(function.packs.values()))]
    lines += [f"int64_t v_{name} = 0; (void)v_{name};" for name in sorted({s.name for s in statements(semantics.body) if isinstance(s, ir.Let)})]
    return lines + _temps(function)


def _register_names(function: Function) -> list[str]:
    lines: list[str] = []
    hosts = [m.name for m in function.machine.memories if m.host]
    latched = [m.name for m in function.machine.memories if m.latches]
    for name in function.registers:
        if name in hosts:
            lines.append(f"int64_t *const h_{name} = c->host[{hosts.index(name)}];")
        else:
            at = latched.index(name)
            lines.append(f"int64_t *const l_{name} = c->latched[{at}]; uint8_t *const w_{name} = c->written[{at}];")
    return lines


def _temps(function: Function) -> list[str]:
    lines: list[str] = []
    rows = 1 if function.apart else function.replicas
    for name, kind in function.semantics.temps.items():
        total = 1
        for lane in kind.lanes:
            total *= function.semantics.lanes[lane]
        lines.append(f"{c_type(temp_type(function, name))} t_{name}[{rows}][{total}] __attribute__((aligned(64))); (void)t_{name};")
    return lines


def _view(machine: Machine, number: int, view: View) -> Mapping[str, object]:
    """The facts of a view by which the template finds its elements."""
    memory = machine.memory[view.memory]
    size = [depth * memory.element.bytes for depth in memory.depths]
    unit, element = view.unit or memory.element.bytes, view.element.bytes
    strides = lane_strides(view)
    whole = view.element.scalar.bits // 8
    plain = strides is not None and view.offsets[0] == 0 and all(s % whole == 0 for s in strides)
    banked = view.unit == 0
    return {
        "number": number, "name": view.name, "unit": unit, "bytes": element, "ring": memory.kind == "ring",
        "banked": banked and memory.banks > 1, "banks": memory.banks, "size": size[0], "power": all(s & (s - 1) == 0 for s in size),
        "depths": ", ".join(map(str, size)), "bases": ", ".join(str(sum(size[:i])) for i in range(len(size))),
        "table": "" if plain or view.element.record else ", ".join(map(str, view.offsets)),
    }  # fmt: skip


def _indented(lines: list[str]) -> list[str]:
    """The lines indented by their braces."""
    depth, result = 0, list[str]()
    for line in lines:
        opened, closed = line.count("{"), line.count("}")
        lead = closed if line.startswith("}") else 0
        result.append("    " * max(depth - min(lead, 1), 0) + line)
        depth += opened - closed
    return result
