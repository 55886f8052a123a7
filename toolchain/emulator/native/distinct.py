"""Whether a product's results go to elements of their own; if two go to one, their order counts and the loops run as written."""

import math

from toolchain.emulator.native.function import Function
from toolchain.emulator.native.statements import block
from toolchain.isa import ir
from toolchain.isa.contraction import Contraction, statements

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
    step = math.gcd(*(n for s in stores for n in (s.access.view.unit, s.access.view.element.bytes, memory.element.bytes)))
    words = -(-memory.bytes // step // 64)
    if words * 64 > MOST or any(_elsewhere(function, s, memory.name) for s in stores):
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
    ]  # fmt: skip


def _elsewhere(function: Function, stmt: ir.Store, memory: str) -> bool:
    """A store whose place marks of one instance of one memory cannot tell."""
    access = stmt.access
    return access.view.memory != memory or bool(access.at) or any(function.varies(i) for i in access.index)
