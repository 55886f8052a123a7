"""C expressions equal the exact integers of the expression language, at the edges of every width; intervals hold every result."""

import ctypes
import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.isa.c_source import HELPERS, CValue, CWriter, Interval, binary, c_scalar
from toolchain.isa.semantics import ir
from toolchain.spec import expr as ex
from toolchain.spec.compile import load_library
from toolchain.spec.errors import UserError
from toolchain.spec.evaluate import evaluate
from toolchain.spec.expr import Expr
from toolchain.spec.model import ScalarType

INTERVALS = st.tuples(st.integers(-40, 40), st.integers(0, 30)).map(lambda t: Interval(t[0], t[0] + t[1]))
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod}
BITWISE = {"&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift}


@pytest.mark.parametrize(("low", "high", "bits"), [(0, 0, 32), (-(1 << 31), (1 << 31) - 1, 32), (0, 1 << 31, 64), (-(1 << 31) - 1, 0, 64)])
def test_width(low: int, high: int, bits: int) -> None:
    assert Interval(low, high).bits == bits
    assert Interval(low << 32, (high + 1 << 32) - 1).bits == 2 * bits


@settings(max_examples=60, deadline=None)
@given(INTERVALS, INTERVALS, st.sampled_from(sorted(OPERATORS | BITWISE)), st.data())
def test_every_result_is_inside(a: Interval, b: Interval, op: str, data: st.DataObject) -> None:
    x, y = data.draw(st.integers(a.low, a.high)), data.draw(st.integers(b.low, b.high))
    if (op in ("//", "%") and y == 0) or (op in ("<<", ">>") and y < 0):
        return
    assert binary(op, a, b).low <= (OPERATORS | BITWISE)[op](x, y) <= binary(op, a, b).high


def test_meet_of_nothing_keeps_what_is_proved() -> None:
    assert Interval(0, 3).meet(Interval(2, 9)) == Interval(2, 3)
    assert Interval(0, 3).meet(Interval(5, 9)) == Interval(5, 9)


RANGES = {"a": Interval(-128, 127), "b": Interval(-(1 << 31), (1 << 31) - 1), "n": Interval(0, 40), "p": Interval(1, 9)}
NAMES = st.fixed_dictionaries(
    {name: st.sampled_from([i.low, i.high, 0 if i.low <= 0 else 1]) | st.integers(i.low, i.high) for name, i in RANGES.items()}
)


def leaf(e: Expr) -> CValue:
    assert isinstance(e, ir.Var)
    return CValue(f"{e.name}", RANGES[e.name], 64)


def compiled(expressions: list[tuple[Expr, bool]]) -> list[ctypes.c_int64]:
    lines = ["#include <stdint.h>", HELPERS]
    for number, (e, data) in enumerate(expressions):
        value = CWriter(leaf, data=data).value(e)
        lines.append(f"int64_t f{number}(int64_t a, int64_t b, int64_t n, int64_t p) {{ return (int64_t){value.text}; }}")
    library = load_library("test", "\n".join(lines), ("-Wno-unused",))
    if library is None:
        pytest.skip("no C compiler")
    functions = [getattr(library, f"f{number}") for number in range(len(expressions))]
    for function in functions:
        function.restype, function.argtypes = ctypes.c_int64, [ctypes.c_int64] * 4
    return functions


def exact(e: Expr, names: dict[str, int]) -> int:
    """The meaning, on Python integers."""
    from toolchain.analysis.state import wrap
    from toolchain.emulator.reference.frame import round_shift

    def at(inner: Expr) -> int:
        match inner:
            case ir.Var(name=name):
                return names[name]
            case ir.Extreme(op=op, values=values):
                return (min if op == "min" else max)(exact(v, names) for v in values)
            case ir.RoundShift(value=value, amount=amount, rounding=rounding):
                return round_shift(exact(value, names), exact(amount, names), rounding)
            case ir.Narrow(value=value, type=kind, overflow="wrap"):
                return wrap(exact(value, names), kind)
            case ir.Narrow(value=value, low=low, high=high):
                return max(low, min(high, exact(value, names)))
            case _:
                raise TypeError(inner)

    return evaluate(e, at)


A, B, N, P = (ir.Var(name) for name in "abnp")
I8 = ScalarType(True, 8)
WIDE = ex.Binary("*", B, A)
CASES: list[Expr] = [
    *(
        ex.Binary(op, left, right)
        for op in ("//", "%")
        for left, right in ((A, ex.Const(8)), (B, P), (B, ex.Const(7)), (N, P), (B, A), (B, ex.Const(-3)))
    ),
    *(ir.RoundShift(value, N, rounding) for rounding in ("half_up", "half_even", "half_away", "floor") for value in (A, B, WIDE)),
    ex.Binary(">>", B, N),
    ex.Binary("<<", A, N),
    ex.Choose(ex.Compare(">=", A, ex.Const(0)), ex.Binary("<<", B, ir.Extreme("min", (A, ex.Const(20)))), ex.Binary(">>", B, ex.Unary("-", A))),
    ir.Narrow(WIDE, I8, "saturate", -100, 101),
    ir.Narrow(WIDE, I8, "wrap", -128, 127),
    ir.Narrow(WIDE, ScalarType(True, 12), "wrap", -2048, 2047),
    ir.Narrow(B, ScalarType(False, 16), "wrap", 0, 65535),
    ir.Extreme("max", (A, B, N)),
    ex.Binary("-", ex.Binary("*", WIDE, ex.Const(3)), ex.Unary("~", B)),
    ex.Binary("^", A, ex.Binary("&", B, ex.Const(255))),
    ex.Call(ex.Name("ceil_div"), (B, P)),
    ex.Call(ex.Name("align"), (N, P)),
    ex.Call(ex.Name("clog2"), (N,)),
    ex.Logic("and", (ex.Compare("!=", A, ex.Const(0)), ex.Compare(">", ex.Binary("//", B, A), ex.Const(3)))),
    ex.Unary("not", ex.Logic("or", (ex.Compare("<", A, B), N))),
]


@pytest.fixture(scope="module")
def functions() -> list[ctypes.c_int64]:
    return compiled([(e, data) for data in (False, True) for e in CASES])


@pytest.mark.drawn(26)
@pytest.mark.parametrize("number", range(2 * len(CASES)))
def test_exact(functions: list, number: int) -> None:
    @settings(max_examples=30, deadline=None)
    @given(NAMES)
    def check(names: dict[str, int]) -> None:
        e = CASES[number % len(CASES)]
        if isinstance(e, ex.Binary) and e.right == A and names["a"] == 0:
            return
        assert functions[number](*(names[name] for name in "abnp")) == exact(e, names)

    check()


def test_range_holds_the_value() -> None:
    @settings(max_examples=30, deadline=None)
    @given(NAMES, st.sampled_from(CASES))
    def check(names: dict[str, int], e: Expr) -> None:
        if isinstance(e, ex.Binary) and e.right == A and names["a"] == 0:
            return
        value, span = exact(e, names), CWriter(leaf, data=True).value(e).range
        assert span.low <= value <= span.high

    check()


def test_narrowest_width() -> None:
    assert CWriter(leaf, data=True).value(ex.Binary("+", A, N)).bits == 32  # though the leaves here are 64 bits wide
    assert CWriter(lambda _: CValue("x", Interval(-128, 127), 32), data=True).value(ex.Binary("*", A, N)).bits == 32
    assert c_scalar(ex.Binary("*", A, N), leaf).bits == 64


def test_conditions_narrow_shift_amounts() -> None:
    guarded = ex.Choose(ex.Compare(">=", A, ex.Const(0)), ex.Binary(">>", B, A), ex.Binary(">>", B, ex.Unary("-", A)))
    assert "tw_amount" not in c_scalar(guarded, leaf).text
    assert "tw_amount" in c_scalar(ex.Binary(">>", B, A), leaf).text


def test_too_wide_is_refused() -> None:
    cube = ex.Binary("*", ex.Binary("*", B, B), ex.Binary("*", B, ex.Binary("*", B, B)))
    with pytest.raises(UserError, match="E0707"):
        CWriter(leaf, data=True).value(cube)
