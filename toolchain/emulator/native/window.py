"""Products summed in a temporary: an indirect matrix product over a table of A's elements, then the statements that follow.

Pixels (iterations that share B) are blocked with the lockstep replicas as rows; groups (iterations that share A) as columns.
Taps behind a guard that is off read zeros.
"""

from toolchain.emulator.native.function import Function, c_type, view_number
from toolchain.emulator.native.levels import BLOCK, Factors, Nest, distinct_lines
from toolchain.emulator.native.statements import block
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.contraction import Contraction, written_memories
from toolchain.isa.semantics.traverse import mentions, nodes
from toolchain.spec import expr as ex

ROWS = 8
COLUMNS = 2
ENTRIES = 1 << 20
"""Table entries at a time; more pixels than that are done in turns."""


def can_window(function: Function, c: Contraction, f: Factors) -> bool:
    """Whether a product has this shape and its replicas differ only by the instance of A's memory."""
    if not isinstance(c.target, str) or c.pixel_lanes or function.replicas > ROWS or c.when:
        return False
    kind = function.semantics.temps[c.target]
    sets = [s for s in c.before if isinstance(s, ir.SetTemp)]
    scalars = (*c.guards, *(e for loop in (*c.outer, *c.inner) for e in (loop.start, loop.stop)))
    return (
        kind.type.signed and kind.type.bits == 32 and kind.lanes == c.group_lanes and len(sets) == 1
        and function.stride(c.a) is not None and not function.access_varies(c.b) and not any(function.varies(e) for e in scalars)
        and f.sums <= 64 * BLOCK
    )  # fmt: skip


def pixels(function: Function) -> int:
    """Pixels in a block."""
    return max(1, ROWS // function.replicas)


def columns(f: Factors) -> int:
    """Groups in a block: only elements of one block of sums are done several at a time."""
    return COLUMNS if f.blocks == 1 else 1


def steps(function: Function, f: Factors) -> tuple[int, int, int]:
    """int32s from one pixel, column and row of a tile to the next."""
    whole = f.blocks * BLOCK
    gap = whole
    column = function.replicas * BLOCK if f.blocks == 1 else BLOCK
    return columns(f) * function.replicas * whole, column, gap


def window_functions(function: Function, c: Contraction, f: Factors) -> list[str]:
    """window_N: one block, in bytes where the instruction exists."""
    n, stride = f.number, function.stride(c.a) or 0
    pixel, column, gap = steps(function, f)
    shape = f"{pixels(function)}, {function.replicas}"
    plain = [
        f"TW_PRODUCT_PLAIN({n}, {c_type(f.a_kind)}, {c_type(f.b_kind)}, {shape}, INT64_C({stride}), {pixel}, {column}, {gap}, {f.depth})",
    ]
    if not f.bytes_fit:
        return plain
    calls = [
        f"    case {k}: tw_window_bytes({shape}, {k}, INT64_C({stride}), {pixel}, {column}, {gap}, {f.depth // 4}, {int(f.a_kind.signed)}, "
        "tile, init, init_step, a, table, steps, w, w_step, fix); break;"
        for k in range(1, COLUMNS + 1)
    ]
    head = (
        f"static void window_{n}(int columns, int32_t *tile, const int32_t *init, int64_t init_step, const uint8_t *a, const int64_t *table, "
        "int64_t steps, const int8_t *w, int64_t w_step, const int32_t *fix)"
    )
    return ["#if TW_VNNI", head, "{", "    switch (columns) {", *calls, "    }", "}", "#else", *plain, "#endif"]


def window_lines(function: Function, c: Contraction, f: Factors, plain: list[str]) -> list[str]:
    """The product where there is enough of it, else the loops as they are written."""
    n = _Writer(function, c, f)
    serial = [
        line
        for loop in c.serial_loops
        for line in [f"for (int64_t v_{loop.var} = s_{loop.var}; v_{loop.var} < s_{loop.var} + n_{loop.var}; v_{loop.var}++) {{"]
    ]
    body = [*serial, *n.turns(), *["}"] * len(serial)]
    sure = [
        "int tw_sure = 0;",
        "if (tw_work >= 8 && !tw_fault) {",
        *distinct_lines(function, c, n.lets()),
        *n.reach(),
        "tw_sure = tw_apart && !tw_fault;",
    ]
    sure += ["tw_fault = 0;", "}"]
    return [
        "{",
        *n.bounds(),
        "if (tw_too_many(c, tw_work)) return;",
        *sure,
        "if (tw_sure) {",
        *n.space(),
        *body,
        "} else if (tw_work > 0) {",
        "c->iterations -= tw_work;",
        *plain,
        "}",
        "}",
    ]


class _Writer:
    """Writes the parts of one product."""

    def __init__(self, function: Function, c: Contraction, f: Factors) -> None:
        self.function, self.c, self.f = function, c, f
        self.block, self.columns = pixels(function), columns(f)
        self.pixel_step, self.column_step, self.gap = steps(function, f)
        self.early = self._early()

    def _early(self) -> bool:
        """Whether the sum's start is the same for all pixels, so that it is set once a group."""
        names = [loop.var for loop in self.c.pixel_loops]
        written = written_memories((self.c.loop,))
        values = [s.value for s in self.c.before if isinstance(s, ir.Let | ir.SetTemp)] + [let.value for let in self.c.lets]
        loads = [e for v in values for e in nodes(v) if isinstance(e, ir.Load)]
        wanted = {e.name for s in self.c.before if isinstance(s, ir.SetTemp) for e in nodes(s.value) if isinstance(e, ir.Var)}
        lets = {let.name for let in self.c.lets}
        return not (wanted & lets) and not any(mentions(v, names) for v in values if v in _set_values(self.c)) and all(
            e.access.view.memory not in written for e in loads
        )  # fmt: skip

    def bounds(self) -> list[str]:
        """Starts and counts of all loops, and how many products there are."""
        lines: list[str] = []
        loops = (*self.c.outer, *self.c.inner)
        for loop in loops:
            start, stop = self.function.scalar(loop.start).text, self.function.scalar(loop.stop).text
            lines += [f"const int64_t s_{loop.var} = {start}, n_{loop.var} = tw_max({stop} - s_{loop.var}, 0);"]
        for name, some in (("pixels", self.c.pixel_loops), ("groups", self.c.group_loops), ("steps", self.c.inner)):
            lines.append(f"const int64_t tw_{name} = {' * '.join(f'n_{loop.var}' for loop in some) or '1'};")
        counts = " * ".join(f"(double)n_{loop.var}" for loop in loops) or "1"
        return [*lines, f"const double tw_work = {counts};"]

    def space(self) -> list[str]:
        """Working memory and the zeros that stand for taps that are off."""
        size, rows = self.f.packed, self.columns * self.f.blocks
        zeros = (self.function.replicas - 1) * (self.function.stride(self.c.a) or 0) + self.c.a.view.element.bytes + 64
        return [
            f"const int64_t tw_turn = tw_max({ENTRIES} / tw_steps / {self.block} * {self.block}, {self.block});",
            f"const int64_t tw_most = (tw_min(tw_turn, tw_pixels) + {self.block - 1}) / {self.block} * {self.block};",
            "int64_t *const tw_table = tw_scratch(c, 0, (size_t)tw_most * tw_steps * 8);",
            f"int64_t *const tw_pixel = tw_scratch(c, 1, (size_t)tw_most * {max(len(self.c.pixel_loops), 1)} * 8);",
            f"int8_t *const tw_packed = tw_scratch(c, 2, (size_t)tw_steps * {size * rows});",
            f"const uint8_t *const tw_zero = tw_no_data(c, INT64_C({zeros}));",
            "if (!tw_table || !tw_pixel || !tw_packed || !tw_zero) return;",
            f"const uint8_t *const tw_a = {self.function.base(self.c.a, first=True)};",
            f"const uint8_t *const tw_b = {self.function.base(self.c.b)};",
            "const int64_t tw_off = (int64_t)((uintptr_t)tw_zero - (uintptr_t)tw_a);",
            f"int32_t tw_fix[{rows * BLOCK}] __attribute__((aligned(64))) = {{0}};",
            f"int32_t tw_tile[{self.block * self.pixel_step}] __attribute__((aligned(64)));",
            f"int32_t tw_init[{self.pixel_step}] __attribute__((aligned(64))) = {{0}};",
        ]

    def reach(self) -> list[str]:
        """Follows B's addresses, which are packed for all taps, also those that guards turn off everywhere; a fault says that one is outside."""
        nest, loops = Nest(self.function, self.c.inner), (*self.c.serial_loops, *self.c.group_loops)
        index = ", ".join(nest.writer().value(i).text for i in self.c.b.index)
        heads = [f"for (int64_t v_{x.var} = s_{x.var}; v_{x.var} < s_{x.var} + n_{x.var}; v_{x.var}++) {{" for x in loops]
        return [*heads, *nest.text([f"(void)at_{view_number(self.function.machine, self.c.b.view)}({index});"]), *["}"] * len(loops)]

    def turns(self) -> list[str]:
        """All pixels, as many at a time as the table holds."""
        return [
            "for (int64_t tw_from = 0; tw_from < tw_pixels; tw_from += tw_turn) {",
            "const int64_t tw_to = tw_min(tw_from + tw_turn, tw_pixels), tw_here = tw_to - tw_from;",
            "{", *self._table(), "}",
            f"for (int64_t tw_group = 0; tw_group < tw_groups; tw_group += {self.columns}) {{",
            f"const int tw_some = (int)tw_min({self.columns}, tw_groups - tw_group);",
            *self._groups(),
            f"for (int64_t tw_p = 0; tw_p < tw_here; tw_p += {self.block}) {{",
            *self._block(),
            "} } }",
        ]  # fmt: skip

    def _table(self) -> list[str]:
        """The byte of A for every step of every pixel, block by block."""
        nest = Nest(self.function, (*self.c.pixel_loops, *self.c.inner))
        writer, depth = nest.writer(), len(self.c.pixel_loops)
        guard = writer.truth(ex.Logic("and", self.c.guards)) if self.c.guards else "1"
        index = ", ".join(writer.value(i).text for i in self.c.a.index)
        entry = f"at_{view_number(self.function.machine, self.c.a.view)}({index})"
        inner = [f"tw_at[tw_t * {self.block}] = {guard} ? {entry} : tw_off;", "tw_t++;"]
        names = [f"tw_pixel[(tw_n - tw_from) * {depth} + {i}] = v_{loop.var};" for i, loop in enumerate(self.c.pixel_loops)]
        rows = nest.text(inner, depth)
        head = [
            "if (tw_n >= tw_from && tw_n < tw_to) {", *names,
            f"int64_t *const tw_at = tw_table + (tw_n - tw_from) / {self.block} * {self.block} * tw_steps + (tw_n - tw_from) % {self.block};",
            "int64_t tw_t = 0;", *rows, "}", "tw_n++;",
        ]  # fmt: skip
        outer = list(nest.lines[0]) if depth else []
        for k, loop in enumerate(self.c.pixel_loops, 1):
            outer.append(f"for (int64_t v_{loop.var} = s_{loop.var}; v_{loop.var} < s_{loop.var} + n_{loop.var}; v_{loop.var}++) {{")
            outer += nest.lines[k] if k < depth else []
        last = f"tw_table[tw_n / {self.block} * {self.block} * tw_steps + tw_t * {self.block} + tw_n % {self.block}]"
        before = f"tw_table[(tw_here - 1) / {self.block} * {self.block} * tw_steps + tw_t * {self.block} + (tw_here - 1) % {self.block}]"
        return [
            "int64_t tw_n = 0;", *outer, *head, *["}"] * depth,
            f"for (tw_n = tw_here; tw_n % {self.block}; tw_n++) for (int64_t tw_t = 0; tw_t < tw_steps; tw_t++) {last} = {before};",
        ]  # fmt: skip

    def _set_groups(self, number: str) -> list[str]:
        """The loop variables of one group."""
        lines, inner = list[str](), "1"
        for loop in reversed(self.c.group_loops):
            lines.append(f"const int64_t v_{loop.var} = s_{loop.var} + ({number}) / ({inner}) % n_{loop.var}; (void)v_{loop.var};")
            inner = f"{inner} * n_{loop.var}"
        return lines

    def _set_pixels(self, number: str) -> list[str]:
        depth = len(self.c.pixel_loops)
        return [
            f"const int64_t v_{loop.var} = tw_pixel[({number}) * {depth} + {i}]; (void)v_{loop.var};" for i, loop in enumerate(self.c.pixel_loops)
        ]

    def _groups(self) -> list[str]:
        """Packs the weights of a block of groups, and sets where their sums start."""
        f, nest = self.f, Nest(self.function, self.c.inner)
        index = ", ".join(nest.writer().value(i).text for i in self.c.b.index)
        step = f"tw_steps * {f.packed}"
        pack = f"pack_{f.number}(tw_to_b + tw_t * {f.packed}, {step}, tw_b + at_{view_number(self.function.machine, self.c.b.view)}({index}));"
        fixes = [
            "#if TW_VNNI",
            f"for (int tw_k = 0; tw_k < {f.blocks}; tw_k++) {{ tw_sums tw_x = {{0}};",
            f"for (int64_t tw_t = 0; tw_t < tw_steps; tw_t++) tw_x = tw_excess(tw_x, tw_to_b + tw_k * {step} + tw_t * {f.packed}, {f.depth // 4});",
            f"tw_store(tw_fix + (tw_g * {f.blocks} + tw_k) * 16, -tw_x); }}",
            "#endif",
        ]
        start = [*self._before(), *self._copy("tw_init + tw_g * " + str(self.function.replicas * f.blocks * BLOCK), out=False)] if self.early else []
        return [
            "for (int tw_g = 0; tw_g < tw_some; tw_g++) {", *self._set_groups("tw_group + tw_g"),
            f"int8_t *const tw_to_b = tw_packed + tw_g * {f.blocks} * {step};",
            "int64_t tw_t = 0;", *nest.text([pack, "tw_t++;"]),
            *(fixes if f.bytes_fit and f.a_kind.signed else []), *start, "}",
        ]  # fmt: skip

    def _before(self) -> list[str]:
        """The statements that set the sum's start."""
        return block(self.function, [*(let for let in self.c.lets if let in self._outer_lets()), *self.c.before])

    def _outer_lets(self) -> list[ir.Let]:
        """Local names set between the outer loops."""
        inner = {loop.var for loop in self.c.inner}
        known = {s.name for s in self.c.before if isinstance(s, ir.Let)}
        return [let for let in self.c.lets if let.name not in known and let in self._path() and not mentions(let.value, inner)]

    def lets(self) -> list[ir.Let]:
        """The local names that the statements after the sums may use."""
        return [*self._outer_lets(), *(s for s in self.c.before if isinstance(s, ir.Let))]

    def _path(self) -> list[ir.Let]:
        return [s for loop in self.c.outer for s in loop.body if isinstance(s, ir.Let)]

    def _copy(self, place: str, out: bool) -> list[str]:
        """Between a tile's rows and the temporary: out, tile to temporary."""
        whole, temp = self.f.blocks * BLOCK, f"t_{self.c.target}[tw_r]"
        a, b = (temp, f"{place} + tw_r * {whole}") if out else (f"{place} + tw_r * {whole}", temp)
        return [f"for (int tw_r = 0; tw_r < {self.function.replicas}; tw_r++) memcpy({a}, {b}, {self.f.sums * 4});"]

    def _block(self) -> list[str]:
        """One block of pixels for all groups at hand, then the statements after the sums."""
        f, replicas = self.f, self.function.replicas
        each = ["for (int tw_q = 0; tw_q < tw_last; tw_q++) for (int tw_g = 0; tw_g < tw_some; tw_g++) {", *self._set_pixels("tw_p + tw_q")]
        each += self._set_groups("tw_group + tw_g")
        place = f"tw_tile + tw_q * {self.pixel_step} + tw_g * {replicas * f.blocks * BLOCK}"
        init, gap = ("tw_init", "0") if self.early else ("tw_tile", str(self.pixel_step))
        late = [] if self.early else [*each, *self._before(), *self._copy(place, out=False), "}"]
        common = f"{gap}, tw_a, tw_table + tw_p * tw_steps, tw_steps"
        calls = [f"window_{f.number}(tw_some, tw_tile, {init}, {common}, tw_packed, tw_steps * {f.packed}, tw_fix);"]
        if f.blocks > 1:
            calls = [
                f"for (int tw_k = 0; tw_k < {f.blocks}; tw_k += {COLUMNS})",
                f"window_{f.number}((int)tw_min({COLUMNS}, {f.blocks} - tw_k), tw_tile + tw_k * {BLOCK}, {init} + tw_k * {BLOCK}, {common},",
                f"    tw_packed + tw_k * tw_steps * {f.packed}, tw_steps * {f.packed}, tw_fix + tw_k * {BLOCK});",
            ]
        after = block(self.function, [*self.lets(), *self.c.after])
        return [
            f"const int tw_last = (int)tw_min({self.block}, tw_here - tw_p);",
            *late, *calls, *each, *self._copy(place, out=True), *after, "}",
        ]  # fmt: skip


def _set_values(c: Contraction) -> list[ex.Expr]:
    return [s.value for s in c.before if isinstance(s, ir.SetTemp)]
