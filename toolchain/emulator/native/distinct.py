"""Whether a product's results go to elements of their own, which none of its sums reads. If not, the order of the iterations
counts, and the loops run as written."""

import math
from dataclasses import replace

from toolchain.emulator.native.function import Function, view_number
from toolchain.emulator.native.levels import Nest
from toolchain.emulator.native.statements import block
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.contraction import Contraction
from toolchain.isa.semantics.traverse import statements
from toolchain.spec import expr as ex

MOST = 1 << 24
"""Pieces of a memory that are marked; in a larger one the loops run as written."""
SLOT = 3
"""The scratch memory that holds the marks; window.py uses those before it."""


def distinct_lines(function: Function, c: Contraction, lets: list[ir.Let]) -> list[str]:
    """C that sets tw_apart by following every store behind the sums once, without data. lets: what their addresses need."""
    stores = [s for s in statements(c.after) if isinstance(s, ir.Store)]
    if not stores:
        return ["const int tw_apart = 1;"]
    memory = function.machine.memory[stores[0].access.view.memory]
    factors = [x for x in (c.a, c.b) if x.view.memory == memory.name]
    places = [*(s.access for s in stores), *factors]
    step = math.gcd(*(n for x in places for n in (x.view.unit, x.view.element.bytes, memory.element.bytes)))
    words = -(-memory.bytes // step // 64)
    if words * 64 > MOST or any(_elsewhere(function, s, memory.name) for s in stores) or _reads_others(c, stores):
        return ["const int tw_apart = 0;"]

    def mark(stmt: ir.Stmt) -> list[str] | None:
        match stmt:
            case ir.Store(access=access):
                count = access.view.element.bytes // step
                return [f"tw_apart &= tw_fresh(tw_seen, {function.offset(access)} / {step}, {count});"]
            case ir.SetTemp():
                return [";"]
            case _:
                return None

    loops = [f"for (int64_t v_{x.var} = s_{x.var}; v_{x.var} < s_{x.var} + n_{x.var}; v_{x.var}++) {{" for x in c.outer]
    return [
        "int tw_apart = 1;",
        f"uint64_t *const tw_seen = tw_scratch(c, {SLOT}, {words * 8});",
        "if (!tw_seen) return;",
        f"memset(tw_seen, 0, {words * 8});",
        *loops, *block(function, [*lets, *c.after], mark), *["}"] * len(loops),
        *(line for factor in factors for line in _unmarked(function, c, factor, step)),
    ]  # fmt: skip


def _unmarked(function: Function, c: Contraction, factor: ir.Access, step: int) -> list[str]:
    """Follows a factor's reads; one that meets a mark clears tw_apart."""
    outer = [loop for loop in c.outer if loop not in (c.group_loops if factor is c.a else c.pixel_loops)]
    nest = Nest(function, (*outer, *c.inner))
    writer = nest.writer()
    guard = writer.truth(ex.Logic("and", c.guards)) if factor is c.a and c.guards else "1"
    place = f"at_{view_number(function.machine, factor.view)}({', '.join(writer.value(i).text for i in factor.index)})"
    return ["{", *nest.text([f"if ({guard}) tw_apart &= !tw_marked(tw_seen, {place} / {step}, {factor.view.element.bytes // step});"]), "}"]


def _reads_others(c: Contraction, stores: list[ir.Store]) -> bool:
    """Whether the statements around the sums read what is stored at another place than where they store it."""
    own = [replace(s.access, number=0) for s in stores]
    values = [s.value for s in statements((*c.before, *c.after)) if isinstance(s, ir.SetTemp | ir.Store)]
    loads = [e.access for value in values for e in ex.walk(value) if isinstance(e, ir.Load)]
    return any(x.view.memory == own[0].view.memory and replace(x, number=0) not in own for x in loads)


def _elsewhere(function: Function, stmt: ir.Store, memory: str) -> bool:
    """A store whose place marks of one instance of one memory cannot tell."""
    access = stmt.access
    return access.view.memory != memory or bool(access.at) or any(function.varies(i) for i in access.index)
