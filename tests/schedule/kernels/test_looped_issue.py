"""An affine expression is its value in the first round and its growth in each loop; anything else has no growth. Fields and records that are
solved give each round the addresses that were said of it."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.isa.semantics.loops import LoopNest
from toolchain.schedule.kernels.looped_issue import ALONE, RecordTables, Rounds, beginning, growth, minus, plus, solved, times
from toolchain.spec.errors import Source, Span, UserError
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Binary, Call, Choose, Compare, Const, Expr, Name, Unary

LEAVES = st.one_of(st.integers(-3, 3).map(Const), st.sampled_from("ijpq").map(Name))

NEST = LoopNest(("outer", "inner"), "uop", "first", "stop", {"dst": ("dst_out", "dst_in"), "src": ("src_out", "src_in")})
BARE = LoopNest(("outer", "inner"), "", "", "", {"dst": ("dst_out", "dst_in")})
HERE = Span(Source("k.yaml", "LOAD"), 1, 1)


def _larger(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.builds(Binary, st.sampled_from("+-*"), inner, inner),
        st.builds(Unary, st.just("-"), inner),
        st.tuples(inner, inner).map(lambda both: Call(Name("max"), both)),
        st.tuples(inner, inner, inner).map(lambda three: Choose(Compare("<", three[0], Const(1)), three[1], three[2])),
    )


EXPRESSIONS = st.recursive(LEAVES, _larger, max_leaves=8)
NUMBERS = st.fixed_dictionaries({name: st.integers(-4, 4) for name in "ijpq"})


@settings(max_examples=70, deadline=None)
@given(EXPRESSIONS, NUMBERS)
def test_beginning_and_growth_add_up(expr: Expr, names: dict[str, int]) -> None:
    parts = growth(expr, "i"), growth(expr, "j")
    first = constant(beginning(expr, ("i", "j")), names)
    assert first == constant(expr, {**names, "i": 0, "j": 0})
    if parts[0] is not None and growth(parts[0], "j") == Const(0) and parts[1] is not None:
        by_i, by_j = (constant(part, names) for part in parts if part is not None)
        assert constant(expr, names) == first + names["i"] * by_i + names["j"] * by_j


def test_what_grows_unevenly() -> None:
    i = Name("i")
    for expr in (times(i, i), Call(Name("max"), (i, Const(3))), Choose(i, Const(1), Const(2)), Binary("//", i, Const(2))):
        assert growth(expr, "i") is None
        assert growth(expr, "j") == Const(0)


def test_sums_and_products_of_numbers_are_numbers() -> None:
    p = Name("p")
    assert plus(Const(2), times(Const(3), Const(4))) == Const(14)
    assert (plus(p, Const(0)), times(p, Const(1)), times(p, Const(0)), minus(p, Const(0))) == (p, p, Const(0), p)


def sum_of(factors: dict[str, int], rest: Expr) -> Expr:
    """rest + the sum of factor * loop"""
    found = rest
    for loop, factor in factors.items():
        found = plus(found, times(Name(loop), Const(factor)))
    return found


@settings(max_examples=35, deadline=None)
@given(st.data())
def test_every_round_has_the_addresses_that_were_said(data: st.DataObject) -> None:
    names = {
        "around": "kl"[: data.draw(st.integers(0, 2))],
        "over": "hij"[: data.draw(st.integers(0, 3))],
        "records": "uv"[: data.draw(st.integers(0, 2))],
    }
    counts = {loop: data.draw(st.integers(1, 3)) for loops in names.values() for loop in loops}
    rounds = ALONE
    for kind, loops in names.items():
        for loop in loops:
            rounds = rounds.counting(kind, loop, Const(counts[loop]))
    operands = {name: sum_of({loop: data.draw(st.integers(0, 5)) for loop in counts}, Name("slot")) for name in ("dst", "src")}
    tables = RecordTables()
    fields = solved(NEST, "GEMM", operands, rounds, tables, HERE)
    (table,) = tables.made
    records = [dict(zip(table.over, point, strict=True)) for point in itertools.product(*(range(constant(c, {})) for c in table.over.values()))]
    for point in itertools.product(*(range(counts[loop]) for loop in names["around"])):
        known = {"slot": 7, f"{table.name}.first": 0, **dict(zip(names["around"], point, strict=True))}
        value = {name: constant(expr, known) for name, expr in fields.items()}
        seen = [
            tuple(constant(table.fields[o], {**known, **records[n]}) + i * value[f"{o}_out"] + j * value[f"{o}_in"] for o in operands)
            for i, j, n in itertools.product(range(value["outer"]), range(value["inner"]), range(value["first"], value["stop"]))
        ]
        run = [*names["over"], *names["records"]]
        wanted = [
            tuple(constant(operands[o], {**known, **dict(zip(run, each, strict=True))}) for o in operands)
            for each in itertools.product(*(range(counts[loop]) for loop in run))
        ]
        assert seen == wanted


def test_equal_records_are_one_table() -> None:
    tables = RecordTables()
    for address in (Name("slot"), Name("slot"), Name("other")):
        solved(NEST, "ALU", {"dst": address}, ALONE.counting("over", "i", Name("n")), tables, HERE)
    assert [table.fields for table in tables.made] == [{"dst": Name("slot")}, {"dst": Name("other")}]


def test_an_address_may_start_at_a_field() -> None:
    found = solved(BARE, "MOVE", {"dst": sum_of({"i": 3}, Name("slot"))}, ALONE.counting("over", "i", Name("n")), RecordTables(), HERE)
    assert found == {"outer": Const(1), "inner": Name("n"), "dst_out": Const(0), "dst_in": Const(3), "dst": Name("slot")}
    with pytest.raises(UserError, match="E1002 MOVE goes over no records"):
        solved(BARE, "MOVE", {}, ALONE.counting("records", "u", Const(2)), RecordTables(), HERE)
    three = ALONE.counting("over", "i", Const(2)).counting("over", "j", Const(2)).counting("over", "k", Const(2))
    with pytest.raises(UserError, match="E1002 MOVE grows addresses in 2 loops, and 'over' has 3"):
        solved(BARE, "MOVE", {}, three, RecordTables(), HERE)


def _of_a_sequence(name: str) -> Rounds:
    """Inside a sequence that takes `n`, called in a loop that `n` of the tile counts."""
    return ALONE.counting("around" if name == "k" else "over", name, Name("n")).naming({"n": Const(3)})


@pytest.mark.parametrize(
    ("rounds", "message"),
    [
        (_of_a_sequence("i"), "E1002 'i' depends on 'n', which is an argument of the sequence here"),
        (_of_a_sequence("k"), "E1002 'k' depends on 'n', which is an argument of the sequence here"),
        (ALONE.counting("around", "k", Name("n")).counting("around", "k", Name("m")), "E1002 records are counted by 'k', whose count differs"),
        (ALONE.counting("around", "j", Name("n")).counting("around", "k", Name("j")), "E1002 records are counted by 'k', whose count differs"),
    ],
)
def test_what_cannot_be_said_is_refused(rounds: Rounds, message: str) -> None:
    with pytest.raises(UserError, match=message):
        solved(NEST, "ALU", {"dst": Name("k")}, rounds, RecordTables(), HERE)
