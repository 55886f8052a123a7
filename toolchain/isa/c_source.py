"""Integer expressions as C text, exact: floor division and shifts, lazy choices, no overflow in any intermediate result.

Every value carries the interval it lies in; an operation is done in the narrowest of 32, 64 and 128 bits that holds
its operands and its result. Addresses (`data` false) are done in 64 bits throughout. A fault that only run time shows (division
by zero, a negative shift) sets `tw_fault` to the last two digits of the error's code and gives 0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from toolchain.isa.semantics import intervals, ir
from toolchain.spec import expr as ex
from toolchain.spec.errors import fail
from toolchain.spec.expr import Expr

SHIFT_LIMIT = 62
"""Left shifts by more are refused at run time: no real program needs them, and 64 bits could not hold the result."""


@dataclass(frozen=True, slots=True)
class Interval:
    """All integers from low to high."""

    low: int
    high: int

    @property
    def bits(self) -> int:
        """The signed C integer that holds it: 32, 64 or 128 bits, or 256 when none does."""
        needed = 1 + max((value if value >= 0 else ~value).bit_length() for value in (self.low, self.high))
        return next((bits for bits in (32, 64, 128) if needed <= bits), 256)

    def within(self, low: int, high: int) -> bool:
        return low <= self.low and self.high <= high

    def join(self, other: "Interval") -> "Interval":
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def meet(self, other: "Interval") -> "Interval":
        """The common part; the other interval where there is none (dead code)."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Interval(low, high) if low <= high else other


INT64 = Interval(-(1 << 63), (1 << 63) - 1)
TRUTH = Interval(0, 1)


def binary(op: str, a: Interval, b: Interval) -> Interval:
    """Bounds on `x op y` for x in a and y in b, where C computes it at all."""
    if op == "<<":
        b = Interval(max(0, min(b.low, SHIFT_LIMIT)), max(0, min(b.high, SHIFT_LIMIT)))
    return Interval(*intervals.binary(op, (a.low, a.high), (b.low, b.high)))


C_TYPE = {32: "int32_t", 64: "int64_t", 128: "__int128"}

HELPERS = """
static _Thread_local int tw_fault;
static inline int64_t tw_floordiv(int64_t a, int64_t b)
{
    if (b == 0) { tw_fault = 4; return 0; }
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
    int64_t q = a / b;
    return q - ((a % b != 0) & ((a ^ b) < 0));
}
static inline int64_t tw_floormod(int64_t a, int64_t b)
{
    if (b == 0) { tw_fault = 4; return 0; }
    if (b == -1) return 0;
    int64_t r = a % b;
    return r + (r != 0 && ((r ^ b) < 0) ? b : 0);
}
static inline int64_t tw_clog2(int64_t a) { int n = 0; while (n < 63 && ((int64_t)1 << n) < a) n++; return n; }
static inline int64_t tw_amount(int64_t s, int64_t limit)
{
    if (s < 0 || s > limit) { tw_fault = 3; return 0; }
    return s;
}
#define TW_ROUND(T, N) \\
static inline __attribute__((always_inline)) T tw_floor##N(T x, int64_t s) { return x >> (s > N - 1 ? N - 1 : s); } \\
static inline __attribute__((always_inline)) T tw_bit##N(T x, int64_t s) { return s > 0 ? (x >> (s > N ? N - 1 : s - 1)) & 1 : 0; } \\
static inline __attribute__((always_inline)) T tw_sticky##N(T x, int64_t s) \\
{ return s > 1 ? (s > N ? x != 0 : (x & ((((T)1) << (s - 1)) - 1)) != 0) : 0; } \\
static inline __attribute__((always_inline)) T tw_half_up##N(T x, int64_t s) { return tw_floor##N(x, s) + tw_bit##N(x, s); } \\
static inline __attribute__((always_inline)) T tw_half_even##N(T x, int64_t s) \\
{ T q = tw_floor##N(x, s); return q + (tw_bit##N(x, s) & (tw_sticky##N(x, s) | (q & 1))); } \\
static inline __attribute__((always_inline)) T tw_half_away##N(T x, int64_t s) \\
{ return tw_floor##N(x, s) + (tw_bit##N(x, s) & (tw_sticky##N(x, s) | (x >= 0))); }
TW_ROUND(int32_t, 32)
TW_ROUND(int64_t, 64)
TW_ROUND(__int128, 128)
"""
"""C that the text of this module's expressions calls; needs <stdint.h>."""


@dataclass(frozen=True, slots=True)
class CValue:
    """C text of an expression, the interval its value lies in, and the width of its C type (32, 64 or 128)."""

    text: str
    range: Interval
    bits: int

    def cast(self, bits: int) -> str:
        """The text as a value of another width."""
        return self.text if bits == self.bits else f"({C_TYPE[bits]}){self.text}"


Leaf = Callable[[Expr], CValue]
"""Answers for fields, variables, places, registers, control memories, loads, temporaries and reductions."""


def no_hint(_: Expr) -> Interval | None:
    """The hint without an analysis: no bounds."""
    return None


def c_scalar(e: Expr, leaf: Leaf) -> CValue:
    """A scalar expression in 64-bit arithmetic. Raises UserError E0707 for values that C cannot hold."""
    return CWriter(leaf, data=False).value(e)


def c_constant(value: int) -> CValue:
    """A constant of the narrowest width."""
    here = Interval(value, value)
    if here.bits > 64:
        raise fail("E0707", f"the constant {value} does not fit 64 bits")
    if here.bits == 32:
        return CValue(str(value) if value > -(1 << 31) else "(-2147483647 - 1)", here, 32)
    return CValue(f"INT64_C({value})" if value > -(1 << 63) else "INT64_MIN", here, 64)


@dataclass(frozen=True)
class CWriter:
    """Writes expressions. known: intervals that conditions outside have proved of sub-expressions.
    hint: bounds of a node from an analysis of the whole instruction."""

    leaf: Leaf
    data: bool
    known: Mapping[Expr, Interval] = field(default_factory=dict[Expr, Interval])
    hint: Callable[[Expr], Interval | None] = no_hint

    def value(self, e: Expr) -> CValue:
        """The expression as C."""
        found = self._value(e)
        for proved in (self.known.get(e) if self.known else None, self.hint(e)):
            if proved:
                found = CValue(found.text, found.range.meet(proved), found.bits)
        return found

    def _value(self, e: Expr) -> CValue:
        match e:
            case ex.Const(value=number):
                return c_constant(number)
            case ex.Unary(op="not", value=inner):
                return CValue(f"(!{self.value(inner).text})", TRUTH, 32)
            case ex.Unary(op="-", value=inner):
                return self._binary("-", c_constant(0), self.value(inner), e)
            case ex.Unary(value=inner):
                found = self.value(inner)
                return CValue(f"(~{found.text})", Interval(~found.range.high, ~found.range.low), found.bits)
            case ex.Binary(op=op, left=left, right=right):
                return self._binary(op, self.value(left), self.value(right), e)
            case ex.Compare(op=op, left=left, right=right):
                a, b = self.value(left), self.value(right)
                bits = self._width(a, b)
                return CValue(f"({a.cast(bits)} {op} {b.cast(bits)})", TRUTH, 32)
            case ex.Logic(op=op, values=values):
                return CValue(f"({(' && ' if op == 'and' else ' || ').join(self._logic(op, values))})", TRUTH, 32)
            case ex.Choose(condition=condition, then=then, other=other):
                return self._choose(condition, then, other, e)
            case ex.Call(function=ex.Name(id=name), args=args):
                return self._call(name, args, e)
            case ir.Extreme(op=op, values=values):
                return self._extreme(op, [self.value(v) for v in values])
            case ir.RoundShift():
                return self._round_shift(e)
            case ir.Narrow():
                return self._narrow(self.value(e.value), e)
            case _:
                return self.leaf(e)

    def bounds(self, e: Expr) -> Interval:
        """Bounds on an expression's value, whether or not it is ever asked for."""
        return self.value(e).range

    def truth(self, e: Expr) -> str:
        """The expression as a condition."""
        return self.value(e).text

    def assuming(self, condition: Expr, outcome: bool) -> "CWriter":
        """A writer for the side of a branch where the condition came out so."""
        return replace(self, known={**self.known, **self._learn(condition, outcome)})

    def _logic(self, op: str, values: tuple[Expr, ...]) -> list[str]:
        """Operands in order, each knowing how the ones before it came out."""
        texts: list[str] = []
        writer = self
        for value in values:
            texts.append(writer.truth(value))
            writer = writer.assuming(value, op == "and")
        return texts

    def _learn(self, condition: Expr, outcome: bool) -> dict[Expr, Interval]:
        match condition:
            case ex.Unary(op="not", value=inner):
                return self._learn(inner, not outcome)
            case ex.Logic(op=op, values=values) if outcome == (op == "and"):
                return {e: i for value in values for e, i in self._learn(value, outcome).items()}
            case ex.Compare(op=op, left=left, right=ex.Const(value=limit)):
                op = op if outcome else {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}[op]
                here = self.bounds(left)
                low = {">=": limit, ">": limit + 1, "==": limit}.get(op, here.low)
                high = {"<=": limit, "<": limit - 1, "==": limit}.get(op, here.high)
                return {left: here.meet(Interval(low, high))} if low <= high else {}
            case _:
                return {}

    def _width(self, *values: CValue) -> int:
        """Bits that hold all values: of data whatever C type they have now, of scalars their C types."""
        return max(min(v.range.bits, v.bits) if self.data else v.bits for v in values)

    def _arithmetic(self, text: str, span: Interval, least: int, e: Expr) -> CValue:
        """An operation's result; `@` in the text marks where operands are cast to its type."""
        bits = max(span.bits, least) if self.data else 64
        if bits > 128:
            raise fail("E0707", "a result here may need more than 128 bits", e.span, "narrow an operand, or declare a narrower type")
        return CValue(text.replace("@", f"({C_TYPE[bits]})"), span if bits == 128 or span.bits <= bits else INT64, bits)

    def _binary(self, op: str, a: CValue, b: CValue, e: Expr) -> CValue:
        span = binary(op, a.range, b.range)
        if op in ("//", "%"):
            return self._divide(op, a, b, span, e)
        if op in ("<<", ">>"):
            return self._shift(op, a, b, span, e)
        return self._arithmetic(f"(@{a.text} {op} @{b.text})", span, self._width(a, b), e)

    def _divide(self, op: str, a: CValue, b: CValue, span: Interval, e: Expr) -> CValue:
        divisor = b.range.low if b.range.low == b.range.high else 0
        if divisor > 0 and divisor & (divisor - 1) == 0:
            text = f"(@{a.text} >> {divisor.bit_length() - 1})" if op == "//" else f"(@{a.text} & {divisor - 1})"
            return self._arithmetic(text, span, self._width(a), e)
        if a.range.low >= 0 and b.range.low > 0:
            return self._arithmetic(f"(@{a.text} {op[0]} @{b.text})", span, self._width(a, b), e)
        if max(a.bits, b.bits) > 64:
            raise fail("E0707", "a division here may need more than 64 bits", e.span)
        return CValue(f"tw_floor{'div' if op == '//' else 'mod'}({a.text}, {b.text})", span if span.bits <= 64 else INT64, 64)

    def _shift(self, op: str, a: CValue, b: CValue, span: Interval, e: Expr) -> CValue:
        if op == "<<":
            return self._arithmetic(f"(@{a.text} << {self._amount(b, SHIFT_LIMIT)})", span, self._width(a), e)
        bits = self._width(a) if self.data else 64
        amount = self._amount(b, 4096)
        if b.range.high > bits - 1:
            return CValue(f"tw_floor{bits}({a.cast(bits)}, {amount})", span, bits)
        return CValue(f"({a.cast(bits)} >> {amount})", span, bits)

    def _amount(self, amount: CValue, limit: int) -> str:
        return amount.text if amount.range.within(0, limit) else f"tw_amount({amount.text}, {limit})"

    def _choose(self, condition: Expr, then: Expr, other: Expr, e: Expr) -> CValue:
        a, b = self.assuming(condition, True).value(then), self.assuming(condition, False).value(other)
        return self._arithmetic(f"({self.truth(condition)} ? @{a.text} : @{b.text})", a.range.join(b.range), self._width(a, b), e)

    def _call(self, name: str, args: tuple[Expr, ...], e: Expr) -> CValue:
        match name:
            case "min" | "max":
                return self._extreme(name, [self.value(a) for a in args])
            case "abs":
                return self._extreme("max", [self.value(args[0]), self.value(ex.Unary("-", args[0]))])
            case "ceil_div":
                return self.value(ex.Unary("-", ex.Binary("//", ex.Unary("-", args[0]), args[1])))
            case "align":
                return self.value(ex.Binary("*", ex.Call(ex.Name("ceil_div"), args), args[1]))
            case "clog2":
                return CValue(f"tw_clog2({self.value(args[0]).text})", Interval(0, 63), 64)
            case _:
                return self.leaf(e)

    def _extreme(self, op: str, values: list[CValue]) -> CValue:
        pick = min if op == "min" else max
        result = values[0]
        for other in values[1:]:
            span = Interval(pick(result.range.low, other.range.low), pick(result.range.high, other.range.high))
            bits = self._width(result, other)
            a, b, order = result.cast(bits), other.cast(bits), "<" if op == "min" else ">"
            result = CValue(f"({a} {order} {b} ? {a} : {b})", span, bits)
        return result

    def _round_shift(self, e: ir.RoundShift) -> CValue:
        value, amount = self.value(e.value), self.value(e.amount)
        floor = binary(">>", value.range, amount.range)
        span = floor if e.rounding == "floor" else Interval(floor.low, floor.high + (amount.range.high > 0))
        bits = self._width(value) if self.data else 64
        return CValue(f"tw_{e.rounding}{bits}({value.cast(bits)}, {self._amount(amount, 4096)})", span, bits)

    def _narrow(self, value: CValue, e: ir.Narrow) -> CValue:
        if e.overflow == "wrap":
            return wrapped(value, e.type.low, e.type.high)
        bounds = (c_constant(e.low), c_constant(e.high))
        return self._extreme("max", [self._extreme("min", [value, bounds[1]]), bounds[0]])


def wrapped(value: CValue, low: int, high: int) -> CValue:
    """The value modulo the size of [low, high], in that range."""
    if value.range.within(low, high):
        return value
    bits, signed = (high - low).bit_length(), low < 0
    kind = f"{'' if signed else 'u'}int{bits}_t"
    if bits in (8, 16, 32, 64) and (signed or bits < 64):
        width = 32 if bits < 32 or (bits == 32 and signed) else 64
        return CValue(f"(({C_TYPE[width]})({kind}){value.text})", Interval(low, high), width)
    if bits == 64:
        return CValue(f"((__int128)(uint64_t){value.text})", Interval(low, high), 128)
    if not signed:
        return CValue(f"({value.text} & {c_constant(high).text})", Interval(low, high), value.bits)
    spare = value.bits - bits
    unsigned = {32: "uint32_t", 64: "uint64_t", 128: "unsigned __int128"}[value.bits]
    return CValue(f"(({C_TYPE[value.bits]})(({unsigned}){value.text} << {spare}) >> {spare})", Interval(low, high), value.bits)
