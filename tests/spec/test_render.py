"""The printed machine is plain, complete and reads back as YAML.

Expression text: what is written back parses to the same tree.

Differences of machines as lines of paths.
"""

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spec.small import nodes, small
from toolchain.spec.errors import Source, Span
from toolchain.spec.expr import BINARY, COMPARE, Binary, Call, Choose, Compare, Const, Expr, Index, Logic, Member, Name, Unary, parse_expr
from toolchain.spec.render import diff, render, to_yaml, unparse

NAMES = st.sampled_from(["a", "b", "field_1", "REG"]).map(Name)


def _grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    pairs = st.tuples(inner, inner)
    bases = st.one_of(NAMES, st.builds(Member, NAMES, st.just("m")))
    return st.one_of(
        st.builds(lambda op, ab: Binary(op, *ab), st.sampled_from(sorted(BINARY.values())), pairs),
        st.builds(lambda op, ab: Compare(op, *ab), st.sampled_from(sorted(COMPARE.values())), pairs),
        st.builds(Unary, st.sampled_from(["-", "~", "not"]), inner),
        st.builds(lambda op, values: Logic(op, tuple(values)), st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3)),
        st.builds(Choose, inner, inner, inner),
        st.builds(lambda f, args: Call(f, tuple(args)), bases, st.lists(inner, max_size=3)),
        st.builds(lambda b, index: Index(b, tuple(index)), bases, st.lists(inner, min_size=1, max_size=2)),
        st.builds(Member, inner, st.just("m")),
    )


TREES = st.recursive(st.one_of(NAMES, st.integers(0, 1 << 70).map(Const)), _grow, max_leaves=12)


def parse(text: str) -> Expr:
    source = Source("t", text)
    return parse_expr(text, lambda line, column: Span(source, line, column + 1))


@settings(max_examples=80, deadline=None)
@given(TREES)
def test_round_trip(tree: Expr) -> None:
    assert parse(unparse(tree)) == tree


def test_brackets_only_where_needed() -> None:
    for text in (
        "a + b * c",
        "(a + b) * c",
        "a - (b - c)",
        "a if b else c if d else e",
        "not a and b or c",
        "-(a + 1)",
        "f(a, b)[1].m",
        "(a < b) < c",
    ):
        assert unparse(parse(text)) == text


@pytest.mark.parametrize("text", ["a in (1,)", "a in [b]", "a not in (1,)", "a in (1, 2)", "a < b in (1, 2)"])
def test_membership_is_written_as_comparisons(text: str) -> None:
    assert parse(unparse(parse(text))) == parse(text)


def test_negative_constant_of_a_substitution() -> None:
    assert unparse(Binary("-", Name("a"), Const(-3))) == "a - -3"


def test_leaf_writes_other_nodes() -> None:
    class Odd(Expr):
        pass

    assert unparse(Binary("*", Odd(), Const(2)), lambda e: type(e).__name__) == "Odd * 2"


def test_golden(golden: Callable[[str, str], None]) -> None:
    golden("spec/small.rendered.yaml", to_yaml(render(small(config="wide"))))


def test_plain_data_survives_json_and_yaml() -> None:
    data = render(small())
    assert json.loads(json.dumps(data)) == data
    assert nodes(to_yaml(data)).plain() == data


def test_concrete_numbers() -> None:
    data = render(small(config="wide"))
    assert data["params"] == {"LANES": 8, "MODE": "exact", "HALF": 4}
    assert data["memories"]["sums"]["element"] == "i32[8]"
    assert data["views"]["rows.turned"]["offsets"] == [0, 2, 4, 6, 1, 3, 5, 7]
    assert data["instructions"]["CALC"]["unit"] == "calc if kind == 0 else move"
    assert data["layouts"]["rows_of"]["map"] == ["n", "c // 8", "c % 8"]
    far = {"lsb": 32, "bits": 32, "minus": 0, "role": "address", "radix": 10, "relocates": "ddr.row"}
    assert data["instructions"]["MOVE"]["fields"]["far"] == far


def test_same() -> None:
    assert diff(small(), small()) == ()


def test_values_and_absence() -> None:
    doc = (", depth: 64, overflow: wrap", ", depth: 64, overflow: wrap, doc: x")
    other = small(("type: code_t, depth: 16", "type: code_t, depth: 8"), ("twice(3)", "twice(4)"), doc)
    assert diff(small(), other) == (
        "memories.codes.depths: [16] -> [8]",
        "instructions.CALC.semantics:3:     sums[k.dst][c] += rows[k.src][c] * twice(3) ->     sums[k.dst][c] += rows[k.src][c] * twice(4)",
        "memories.sums.doc: (nothing) -> x",
    )


def test_configurations() -> None:
    lines = diff(small(), small(config="wide"))
    assert lines[:3] == ("target.config:  -> wide", "params.LANES: 4 -> 8", "params.MODE: fast -> exact")
    assert "memories.rows.element: i8[4] -> i8[8]" in lines
