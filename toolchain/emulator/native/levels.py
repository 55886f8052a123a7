"""The parts of a matrix product in C: addresses in nested loops, results that no sum reads, and the packed elements of its factors.

Every subexpression is computed in the outermost loop that it depends on. A stands in one run, B is packed for 16 sums at a time. Where a product's
sums read its results, the order of the iterations counts, and the loops run as written.
"""

import math
from dataclasses import dataclass, field, replace

from toolchain.emulator.native.function import Function, c_type, view_number
from toolchain.emulator.native.statements import block
from toolchain.isa.c_source import SHIFT_LIMIT, CValue, CWriter, Interval
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.contraction import Contraction
from toolchain.isa.semantics.traverse import mentions, nodes, statements
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr
from toolchain.spec.model import ScalarType, View

BLOCK = 16


@dataclass(frozen=True)
class Factors:
    """number: which product of the machine. sums: group lanes (before padding to blocks). depth: summed lanes.

    order: byte in B's element of (sum, summed lane), row-major. a_kind, b_kind: their scalars.
    """

    number: int
    sums: int
    depth: int
    order: tuple[int, ...]
    b_bytes: int
    a_kind: ScalarType
    b_kind: ScalarType

    @property
    def blocks(self) -> int:
        """Blocks of 16 sums."""
        return -(-self.sums // BLOCK)

    @property
    def bytes_fit(self) -> bool:
        """Whether the byte instruction applies."""
        return self.depth % 4 == 0 and self.a_kind.bits == 8 and self.b_kind.bits == 8 and self.b_kind.signed

    @property
    def packed(self) -> int:
        """Bytes of one packed block in either form (the plain one keeps B's scalars as they are)."""
        return self.depth * BLOCK * self.b_kind.bits // 8


def factors(c: Contraction, lanes: dict[str, int], number: int) -> Factors | None:
    """How the factors are stored; None where the lanes of A do not follow each other."""
    a, b = c.a.view, c.b.view
    if any(k.bits not in (8, 16) for k in (a.element.scalar, b.element.scalar)) or a.element.record or b.element.record:
        return None
    sum_lanes = tuple(lane for lane in c.a.lanes or () if lane in c.sum_lanes)
    size = a.element.scalar.bits // 8
    starts = lane_offsets(a, tuple(map(str, c.a.lanes or ())), tuple(map(str, sum_lanes)), lanes)
    if starts != [n * size for n in range(len(starts))]:
        return None
    order = lane_offsets(b, tuple(map(str, c.b.lanes or ())), (*c.group_lanes, *map(str, sum_lanes)), lanes)
    depth = len(starts)
    return Factors(number, len(order) // depth, depth, tuple(order), b.element.bytes, a.element.scalar, b.element.scalar)


def lane_offsets(view: View, lanes: tuple[str, ...], over: tuple[str, ...], extents: dict[str, int]) -> list[int]:
    """The bytes of an element's lanes, in row-major order of the lane names `over`, other lanes at 0."""
    total = 1
    for lane in over:
        total *= extents[lane]
    result: list[int] = []
    for number in range(total):
        rest, at = number, dict.fromkeys(lanes, 0)
        for lane in reversed(over):
            rest, at[lane] = divmod(rest, extents[lane])
        flat = 0
        for lane in lanes:
            flat = flat * extents[lane] + at[lane]
        result.append(view.offsets[flat])
    return result


def packing_functions(f: Factors) -> list[str]:
    """pack_N(to, step, from): every block of an element of B, `step` bytes apart; bytes where the instruction exists, else plain."""
    plain = _plain(f)
    if not f.bytes_fit:
        return plain
    return ["#if TW_VNNI", *_bytes(f), "#else", *plain, "#endif"]


def _plain(f: Factors) -> list[str]:
    kind, size = c_type(f.b_kind), f.b_kind.bits // 8
    table = [f.order[o * f.depth + k] // size if o < f.sums else -1 for block in range(f.blocks) for k in range(f.depth) for o in _block(block)]
    count = f.depth * BLOCK
    return [
        f"static const int16_t order_{f.number}[] = {{ {', '.join(map(str, table))} }};",
        f"static void pack_{f.number}(int8_t *to, int64_t step, const uint8_t *from)",
        f"{{ for (int b = 0; b < {f.blocks}; b++) for (int i = 0; i < {count}; i++) {{",
        f"    const int at = order_{f.number}[b * {count} + i]; {kind} x = 0;",
        f"    if (at >= 0) memcpy(&x, from + at * {size}, {size});",
        f"    memcpy(to + b * step + i * {size}, &x, {size}); }} }}",
    ]


def _block(block: int) -> range:
    return range(block * BLOCK, (block + 1) * BLOCK)


NO_CHUNK = 255
"""Stands for a lane without a byte."""


def _bytes(f: Factors) -> list[str]:
    """Quads of summed lanes side by side; a byte permutation for each 64 bytes where the CPU has one."""
    rows = [
        [f.order[o * f.depth + 4 * q + k] if o < f.sums else -1 for o in _block(block) for k in range(4)]
        for block in range(f.blocks)
        for q in range(f.depth // 4)
    ]
    flat = [at for row in rows for at in row]
    shuffles: list[str] = []
    for number, row in enumerate(rows):
        block, q = divmod(number, f.depth // 4)
        at, which = (f"tw_bytes_at({table}_{f.number} + {number * 64}, 64)" for table in ("low", "chunk"))
        shuffles.append(f"    {{ const tw_bytes at = {at}, chunk = {which}; tw_bytes x = {{0}};")
        for chunk in sorted({at // 64 for at in row if at >= 0}):
            read = f"tw_bytes_at(from + {chunk * 64}, {min(64, f.b_bytes - chunk * 64)})"
            shuffles.append(f"      x |= TW_PICK({read}, at) & (tw_bytes)(chunk == tw_all_bytes({chunk}));")
        shuffles.append(f"      memcpy(to + {block} * step + {q * 64}, &x, 64); }}")
    return [
        "#ifdef __AVX512VBMI__",
        f"static const uint8_t low_{f.number}[] = {{ {', '.join(str(max(at, 0) % 64) for at in flat)} }};",
        f"static const uint8_t chunk_{f.number}[] = {{ {', '.join(str(at // 64 if at >= 0 else NO_CHUNK) for at in flat)} }};",
        f"static void pack_{f.number}(int8_t *to, int64_t step, const uint8_t *from)",
        "{", *shuffles, "}",
        "#else",
        f"static const int16_t order_{f.number}[] = {{ {', '.join(map(str, flat))} }};",
        f"static void pack_{f.number}(int8_t *to, int64_t step, const uint8_t *from)",
        f"{{ for (int b = 0; b < {f.blocks}; b++) for (int i = 0; i < {f.packed}; i++) {{",
        f"    const int at = order_{f.number}[b * {f.packed} + i]; to[b * step + i] = at < 0 ? 0 : (int8_t)from[at]; }} }}",
        "#endif",
    ]  # fmt: skip


@dataclass
class Nest:
    """Loops, outermost first, and the lines at each depth; depth 0 stands before them all."""

    function: Function
    loops: tuple[ir.For, ...]
    lines: list[list[str]] = field(default_factory=list[list[str]])
    names: dict[Expr, CValue] = field(default_factory=dict[Expr, CValue])

    def __post_init__(self) -> None:
        self.lines = [[] for _ in range(len(self.loops) + 1)]

    def depth(self, e: Expr) -> int:
        """How many of the loops the expression stands in."""
        return max((n + 1 for n, loop in enumerate(self.loops) if mentions(e, [loop.var])), default=0)

    def writer(self) -> "LevelWriter":
        """A writer for the innermost body."""
        return LevelWriter(self.function.leaf, data=False, hint=self.function.hint, nest=self, level=len(self.loops))

    def text(self, body: list[str], start: int = 0) -> list[str]:
        """The loops from depth `start` on, around the body. `s_` and `n_` name each loop's start and count."""
        result = list(self.lines[start])
        for n, loop in enumerate(self.loops[start:], start + 1):
            result += [f"for (int64_t v_{loop.var} = s_{loop.var}; v_{loop.var} < s_{loop.var} + n_{loop.var}; v_{loop.var}++) {{", *self.lines[n]]
        return [*result, *body, *["}"] * (len(self.loops) - start)]


@dataclass(frozen=True)
class LevelWriter(CWriter):
    """Writes an expression at one depth; parts that need less depth become variables there. lazy: perhaps not evaluated."""

    nest: Nest | None = None
    level: int = 0
    lazy: bool = False

    def value(self, e: Expr) -> CValue:
        """The expression, or the variable that holds it."""
        assert self.nest
        if isinstance(e, ex.Const | ir.FieldRef | ir.Var | ir.Place):
            return super().value(e)
        if e in self.nest.names:
            return self.nest.names[e]
        depth = self.nest.depth(e)
        if depth >= self.level or (self.lazy and not self._total(e)):
            return super().value(e)
        value = replace(self, level=depth, lazy=False, known={}).plain(e)
        name = self.nest.function.fresh("h")
        self.nest.lines[depth].append(f"const int64_t {name} = {value.text};")
        self.nest.names[e] = CValue(name, value.range, 64)
        return self.nest.names[e]

    def plain(self, e: Expr) -> CValue:
        """The expression itself, written at this depth."""
        return super().value(e)

    def _choose(self, condition: Expr, then: Expr, other: Expr, e: Expr) -> CValue:
        test = self.truth(condition)
        a = replace(self.assuming(condition, True), lazy=True).value(then)
        b = replace(self.assuming(condition, False), lazy=True).value(other)
        return self._arithmetic(f"({test} ? @{a.text} : @{b.text})", a.range.join(b.range), 64, e)

    def _logic(self, op: str, values: tuple[Expr, ...]) -> list[str]:
        del op
        first, *rest = values
        return [self.truth(first), *(replace(self, lazy=True).truth(value) for value in rest)]

    def _total(self, e: Expr) -> bool:
        """Whether evaluating the expression can never fault, so that doing it too early is harmless."""
        return all(self._harmless(inner) for inner in nodes(e))

    def _harmless(self, e: Expr) -> bool:
        match e:
            case ir.ControlRead() | ir.RegisterRead():
                return False
            case ex.Binary(op="//" | "%", right=right):
                return not self.bounds(right).within(0, 0) and (self.bounds(right).low > 0 or self.bounds(right).high < 0)
            case ex.Binary(op="<<" | ">>", right=right) | ir.RoundShift(amount=right):
                return self.bounds(right).within(0, SHIFT_LIMIT)
            case ex.Call():
                return False
            case _:
                return True

    def bounds(self, e: Expr) -> Interval:
        """Found without a variable: nothing is computed early for it."""
        assert self.nest
        return self.nest.function.scalar(e).range


MOST = 1 << 24
"""Pieces of a memory that are marked; in a larger one the loops run as written."""
SLOT = 3
"""The scratch memory that holds the marks; window.py uses those before it."""


def distinct_lines(function: Function, c: Contraction, lets: list[ir.Let]) -> list[str]:
    """C that sets tw_apart by following every store behind the sums once, without data. lets: the assignments that their addresses need."""
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
    """Whether the statements around the sums read stored elements at another place than where they store them."""
    own = [replace(s.access, number=0) for s in stores]
    values = [s.value for s in statements((*c.before, *c.after)) if isinstance(s, ir.SetTemp | ir.Store)]
    loads = [e.access for value in values for e in ex.walk(value) if isinstance(e, ir.Load)]
    return any(x.view.memory == own[0].view.memory and replace(x, number=0) not in own for x in loads)


def _elsewhere(function: Function, stmt: ir.Store, memory: str) -> bool:
    """A store whose place marks of one instance of one memory cannot tell."""
    access = stmt.access
    return access.view.memory != memory or bool(access.at) or any(function.varies(i) for i in access.index)
