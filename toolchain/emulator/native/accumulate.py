"""Products summed straight into a memory: loops that leave B alone become pixels, everything else a list of steps.

Which loops those are shows only at run time, where an address coefficient is a field: a loop whose coefficient in B's
address is zero, and in the target's is not, is a pixel loop. The other loops are walked once and give (target, A, B) triples;
triples with one target form one sum. Additions wrap, so their order is free.
"""

from dataclasses import dataclass

from toolchain.emulator.native.function import Function, c_type
from toolchain.emulator.native.levels import BLOCK, Factors, Nest, lane_offsets
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.contraction import Contraction
from toolchain.isa.semantics.traverse import access_mentions, linear, mentions
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr

WORK, PIXELS, ENTRIES = 32, 4, 1 << 20
"""Least products and pixels for which the tables pay; most triples at a time."""
BLOCKS = (14, 8)
"""Pixels in a block of sums; the one that leaves fewer over is taken."""


@dataclass(frozen=True)
class Affine:
    """Byte addresses of target, A and B: a part moved by the walked loops only, and a coefficient for each affine loop."""

    loops: tuple[ir.For, ...]
    walked: tuple[ir.For, ...]
    rests: tuple[Expr, ...]
    coefficients: tuple[tuple[Expr, ...], ...]


def can_accumulate(function: Function, c: Contraction, f: Factors) -> bool:
    """Whether a product has this shape, and flat addresses."""
    if not isinstance(c.target, ir.Access) or c.guards or function.replicas > 1:
        return False
    kind, names = c.target.view.element.scalar, [loop.var for loop in c.outer]
    flat = all(len(x.index) == 1 and function.machine.memory[x.view.memory].kind != "ring" for x in (c.target, c.a, c.b))
    fixed = not any(mentions(e, names) for x in (c.target, c.a, c.b) for _, e in x.at)
    rows = lane_offsets(c.target.view, _names(c.target), c.group_lanes, function.semantics.lanes)
    return kind.bits == 32 and flat and fixed and rows == [n * 4 for n in range(f.sums)]


def accumulate_functions(function: Function, c: Contraction, f: Factors) -> list[str]:
    """accumulate_N: one sum of every pixel, in bytes where the instruction exists."""
    del function, c
    n = f.number
    plain = [f"TW_ACCUMULATE_PLAIN({n}, {c_type(f.a_kind)}, {c_type(f.b_kind)}, {f.depth})"]
    if not f.bytes_fit:
        return plain
    large, small = BLOCKS
    head = (
        f"static void accumulate_{n}(int64_t pixels, int lanes, uint8_t *d, const int64_t *d_pixel, const uint8_t *a, const int64_t *a_pixel, "
        "int64_t steps, const int64_t *a_step, const int8_t *const *b, int64_t b_at, const int32_t *fix)"
    )
    loops = [
        f"    {line} for (int64_t p = 0; p < pixels; p += {size}) tw_accumulate_bytes({size}, lanes, {f.depth // 4}, "
        f"{int(f.a_kind.signed)}, d, d_pixel + p, a, a_pixel + p, steps, a_step, b, b_at, fix);"
        for size, line in ((large, f"if ((pixels + {large - 1}) / {large} * {large} <= (pixels + {small - 1}) / {small} * {small})"), (small, "else"))
    ]
    return ["#if TW_VNNI", head, "{", *loops, "}", "#else", *plain, "#endif"]


def accumulate_lines(function: Function, c: Contraction, f: Factors, plain: list[str]) -> list[str]:
    """The product where there is enough of it, else the loops as they are written."""
    affine = _affine(function, c)
    if affine is None:
        return plain
    writer = _Writer(function, c, f, affine)
    return [
        "{",
        "int tw_done = 0;",
        *writer.bounds(),
        "if (tw_too_many(c, (double)tw_work)) return;",
        *writer.fast(),
        "if (!tw_done) {",
        "c->iterations -= (double)tw_work;",
        *plain,
        "}",
        "}",
    ]


def _names(access: ir.Access) -> tuple[str, ...]:
    return tuple(map(str, access.lanes or ()))


def _affine(function: Function, c: Contraction) -> Affine | None:
    assert isinstance(c.target, ir.Access)
    every = [loop.var for loop in c.outer]
    memories = function.machine.memory
    parts: list[Expr] = []
    for access in (c.target, c.a, c.b):
        unit = access.view.unit or memories[access.view.memory].element.bytes
        parts.append(ex.Binary("*", access.index[0], ex.Const(unit)))
    chosen: list[ir.For] = []
    for loop in c.outer:
        found = [linear(part, [loop.var]) for part in parts]
        if all(x and not any(mentions(e, every) for e in x[1].values()) for x in found):
            chosen.append(loop)
    names = [loop.var for loop in chosen]
    split = [linear(part, names) for part in parts]
    rests = tuple(x[0] for x in split if x)
    coefficients = tuple(tuple(x[1].get(name, ex.Const(0)) for x in split if x) for name in names)
    walked = tuple(loop for loop in c.outer if loop not in chosen)
    if (
        len(rests) != 3
        or not chosen
        or any(access_mentions(x, names) and mentions(r, names) for x, r in zip((c.target, c.a, c.b), rests, strict=True))
    ):
        return None
    return Affine(tuple(chosen), walked, rests, coefficients)


class _Writer:
    """Writes the parts of one product."""

    def __init__(self, function: Function, c: Contraction, f: Factors, affine: Affine) -> None:
        assert isinstance(c.target, ir.Access)
        self.function, self.c, self.f, self.affine, self.target = function, c, f, affine, c.target
        lanes = function.semantics.lanes
        self.d_lanes = lane_offsets(c.target.view, _names(c.target), c.pixel_lanes, lanes)
        self.a_lanes = lane_offsets(c.a.view, _names(c.a), c.pixel_lanes, lanes)

    def bounds(self) -> list[str]:
        """Starts and counts of all loops, and how many products there are."""
        lines: list[str] = []
        most = 1
        for loop in self.c.outer:
            start, stop = self.function.scalar(loop.start), self.function.scalar(loop.stop)
            lines += [f"const int64_t s_{loop.var} = {start.text}, n_{loop.var} = tw_max({stop.text} - s_{loop.var}, 0);"]
            most *= max(stop.range.high - start.range.low, 1)
        kind = "int64_t" if most < 1 << 53 else "double"
        counts = " * ".join(f"({kind})n_{loop.var}" for loop in self.c.outer)
        return [*lines, f"const {kind} tw_work = {counts};"]

    def fast(self) -> list[str]:
        """Everything that happens when the product is large."""
        when = [self.function.scalar(e if side else ex.Unary("not", e)).text for e, side in self.c.when]
        return [
            f"if ({' && '.join([f'tw_work >= {WORK}', *when])}) {{",
            *self._coefficients(),
            f"if (tw_pixels >= {PIXELS} && tw_pixels < (1 << 24) && tw_entries < {ENTRIES}) {{",
            *self._space(),
            *self._pixels(),
            *self._entries(),
            "if (!tw_outside) {",
            *self._sums(),
            "tw_done = 1;",
            "} } }",
        ]

    def _coefficients(self) -> list[str]:
        """Bytes that one iteration moves each address, and which loops are pixels."""
        count = len(self.affine.loops)
        texts = [[self.function.scalar(e).text for e in row] for row in self.affine.coefficients]
        lines = [f"const int64_t tw_{name}s[] = {{ {', '.join(row[k] for row in texts)} }};" for k, name in enumerate("dab")]
        lines.append(f"const int64_t tw_ns[] = {{ {', '.join(f'n_{loop.var}' for loop in self.affine.loops)} }};")
        return [
            *lines,
            f"int tw_px[{count}]; int64_t tw_pixels = {len(self.d_lanes)}; double tw_entries = (double)tw_work;",
            f"for (int k = 0; k < {count}; k++) tw_px[k] = tw_bs[k] == 0 && tw_ds[k] != 0 && tw_ns[k] > 1;",
            f"tw_injective({count}, tw_ds, tw_ns, tw_px, {self.target.view.element.bytes});",
            f"for (int k = 0; k < {count}; k++) if (tw_px[k]) {{ tw_pixels *= tw_ns[k]; tw_entries /= (double)tw_ns[k]; }}",
        ]

    def _space(self) -> list[str]:
        f = self.f
        packed = f.packed * f.blocks
        return [
            "int tw_log = 4; while (((int64_t)1 << tw_log) < 2 * (int64_t)tw_entries + 2) tw_log++;",
            "const size_t tw_room = (size_t)tw_entries + 16, tw_slots = (size_t)1 << tw_log;",
            f"int64_t *const tw_d_pixel = tw_scratch(c, 3, (size_t)(tw_pixels + {max(BLOCKS)}) * 16);",
            f"int64_t *const tw_a_pixel = tw_d_pixel + tw_pixels + {max(BLOCKS)};",
            "int64_t *const tw_d = tw_scratch(c, 4, tw_room * 24), *const tw_a = tw_d + tw_room, *const tw_b = tw_a + tw_room;",
            "int32_t *const tw_next = tw_scratch(c, 7, tw_room * 16), *const tw_tail = tw_next + tw_room, *const tw_which = tw_tail + tw_room;",
            "int32_t *const tw_heads = tw_which + tw_room, *const tw_d_table = tw_scratch(c, 8, tw_slots * 8);",
            "int32_t *const tw_b_table = tw_d_table + tw_slots;",
            f"int8_t *const tw_packed = tw_scratch(c, 9, tw_room * {packed});",
            f"int32_t *const tw_excesses = tw_scratch(c, 10, tw_room * {f.blocks * 64});",
            "int64_t *const tw_a_step = tw_scratch(c, 11, tw_room * 16);",
            "const int8_t **const tw_b_step = (const int8_t **)(tw_a_step + tw_room);",
            "if (tw_fault) return;",
            "memset(tw_d_table, -1, tw_slots * 8);",
            f"uint8_t *const tw_target = {self.function.base(self.target)};",
            f"const uint8_t *const tw_from_a = {self.function.base(self.c.a)}, *const tw_from_b = {self.function.base(self.c.b)};",
        ]

    def _pixels(self) -> list[str]:
        """Byte offsets of the pixels in target and A, padded to whole blocks with the last one."""
        lines, total = ["int64_t tw_p = 0, tw_d_low = 0, tw_d_high = 0, tw_a_low = 0, tw_a_high = 0;"], len(self.affine.loops)
        lines += [f"for (int64_t x{k} = 0; x{k} < (tw_px[{k}] ? tw_ns[{k}] : 1); x{k}++)" for k in range(total)]
        d, a = (" + ".join(f"x{k} * tw_{name}s[{k}]" for k in range(total)) for name in "da")
        lines.append("{")
        for d_lane, a_lane in zip(self.d_lanes, self.a_lanes, strict=True):
            lines.append(f"tw_d_pixel[tw_p] = {d} + {d_lane}; tw_a_pixel[tw_p] = {a} + {a_lane}; tw_p++;")
        return [
            *lines, "}",
            f"for (int k = 0; k < {max(BLOCKS)}; k++)",
            "{ tw_d_pixel[tw_p + k] = tw_d_pixel[tw_p - 1]; tw_a_pixel[tw_p + k] = tw_a_pixel[tw_p - 1]; }",
            f"for (int k = 0; k < {total}; k++) if (tw_px[k]) {{",
            "const int64_t tw_x = tw_ds[k] * (tw_ns[k] - 1), tw_y = tw_as[k] * (tw_ns[k] - 1);",
            "tw_d_low += tw_min(tw_x, 0); tw_d_high += tw_max(tw_x, 0); tw_a_low += tw_min(tw_y, 0); tw_a_high += tw_max(tw_y, 0); }",
        ]  # fmt: skip

    def _entries(self) -> list[str]:
        """Walks the other loops: every triple, checked to be inside, chained to the one before it with the same target."""
        nest = Nest(self.function, self.affine.walked)
        rests = [nest.writer().value(rest).text for rest in self.affine.rests]
        total = len(self.affine.loops)
        starts = [" + ".join(f"tw_{name}s[{k}] * s_{loop.var}" for k, loop in enumerate(self.affine.loops)) for name in "dab"]
        body = [f"const int64_t tw_{name}_rest = {rest} + {start};" for name, rest, start in zip("dab", rests, starts, strict=True)]
        body += [f"for (int64_t x{k} = 0; x{k} < (tw_px[{k}] ? 1 : tw_ns[{k}]); x{k}++)" for k in range(total)]
        body.append("{")
        for name in "dab":
            body.append(f"tw_{name}[tw_e] = tw_{name}_rest + {' + '.join(f'x{k} * tw_{name}s[{k}]' for k in range(total))};")
        room = {name: self._room(access) for name, access in zip("dab", (self.target, self.c.a, self.c.b), strict=True)}
        body += [
            f"tw_outside |= tw_d[tw_e] + tw_d_low < 0 || tw_d[tw_e] + tw_d_high > {room['d']}",
            f"    || tw_a[tw_e] + tw_a_low < 0 || tw_a[tw_e] + tw_a_high > {room['a']} || tw_b[tw_e] < 0 || tw_b[tw_e] > {room['b']};",
            "if (tw_outside) continue;",
            "int32_t *const tw_slot = tw_find(tw_d_table, tw_log, tw_d, tw_d[tw_e]);",
            "tw_next[tw_e] = -1;",
            "if (*tw_slot < 0) { *tw_slot = (int32_t)tw_e; tw_heads[tw_groups++] = (int32_t)tw_e; } else tw_next[tw_tail[*tw_slot]] = (int32_t)tw_e;",
            "tw_tail[*tw_slot] = (int32_t)tw_e;",
            *self._pack(),
            "tw_e++; }",
        ]
        return ["int64_t tw_e = 0, tw_groups = 0, tw_kinds = 0; int tw_outside = 0;", "{", *nest.text(body), "}", "if (tw_fault) return;"]

    def _room(self, access: ir.Access) -> int:
        """The last byte at which an element may start."""
        memory = self.function.machine.memory[access.view.memory]
        return memory.depths[0] * memory.element.bytes - access.view.element.bytes

    def _pack(self) -> list[str]:
        """Packs an element of B when it is met first."""
        f = self.f
        size = f.packed * f.blocks
        excess = [
            "#if TW_VNNI",
            f"for (int k = 0; k < {f.blocks}; k++) tw_store(tw_excesses + (tw_kinds * {f.blocks} + k) * 16, ",
            f"    tw_excess((tw_sums){{0}}, tw_packed + tw_kinds * {size} + k * {f.packed}, {f.depth // 4}));",
            "#endif",
        ]
        return [
            "int32_t *const tw_kind = tw_find(tw_b_table, tw_log, tw_b, tw_b[tw_e]);",
            "if (*tw_kind >= 0) tw_which[tw_e] = tw_which[*tw_kind]; else {",
            "*tw_kind = (int32_t)tw_e;",
            f"pack_{f.number}(tw_packed + tw_kinds * {size}, {f.packed}, tw_from_b + tw_b[tw_e]);",
            *(excess if f.bytes_fit and f.a_kind.signed else []),
            "tw_which[tw_e] = (int32_t)tw_kinds++; }",
        ]

    def _sums(self) -> list[str]:
        """One target after the other, all its steps for all pixels."""
        f = self.f
        size = f.packed * f.blocks
        width = f.blocks * BLOCK
        less = f"(int32_t)((uint32_t)tw_fix[i] - (uint32_t)tw_excesses[tw_which[e] * {width} + i])"
        fix = f"for (int i = 0; i < {width}; i++) tw_fix[i] = {less};"
        calls = [
            f"accumulate_{f.number}(tw_pixels, {min(BLOCK, f.sums - k * BLOCK)}, tw_target + tw_d[tw_heads[g]] + {k * BLOCK * 4}, tw_d_pixel, "
            f"tw_from_a, tw_a_pixel, tw_steps, tw_a_step, tw_b_step, {k * f.packed}, tw_fix + {k * BLOCK});"
            for k in range(f.blocks)
        ]
        return [
            "for (int64_t g = 0; g < tw_groups; g++) {",
            f"int32_t tw_fix[{f.blocks * BLOCK}] __attribute__((aligned(64))) = {{0}}; int64_t tw_steps = 0;",
            "for (int32_t e = tw_heads[g]; e >= 0; e = tw_next[e]) {",
            f"tw_a_step[tw_steps] = tw_a[e]; tw_b_step[tw_steps++] = tw_packed + (int64_t)tw_which[e] * {size};",
            *(["#if TW_VNNI", fix, "#endif"] if f.bytes_fit and f.a_kind.signed else []),
            "}", *calls, "}",
        ]  # fmt: skip
