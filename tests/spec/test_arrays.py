"""Arrays give what scalars give, row by row, or refuse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spec.test_evaluate import ARITHMETIC, parse
from toolchain.spec.arrays import Ints, distinct, evaluate_arrays, ranked
from toolchain.spec.errors import UserError
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Choose, Expr

ROWS = st.lists(st.tuples(*[st.integers(-20, 20)] * 4), min_size=0, max_size=6)


@settings(max_examples=50, deadline=None)
@given(st.builds(Choose, ARITHMETIC, ARITHMETIC, ARITHMETIC), ROWS)
def test_agrees_with_scalars(tree: Expr, rows: list[tuple[int, ...]]) -> None:
    names = ("a", "b", "field_1", "REG")
    columns = {name: np.array([row[i] for row in rows], np.int64) for i, name in enumerate(names)}
    found = outcome(tree, columns)
    if found != "E0122":
        assert found == [constant(tree, dict(zip(names, row, strict=True))) for row in rows]


def outcome(tree: Expr, columns: dict[str, Ints]) -> list[int] | str:
    try:
        return evaluate_arrays(tree, columns).tolist()
    except UserError as error:
        return error.diagnostics[0].code


@pytest.mark.parametrize("values", [(-7, 0, 7, 33), ()])
def test_functions(values: tuple[int, ...]) -> None:
    columns = {"a": np.array(values, np.int64)}
    for text in ("ceil_div(a, 2)", "align(a, 16)", "min(a, 3)", "max(a, 3, 8)", "abs(a)", "clog2(a)", "a << 2", "a >> 1"):
        assert evaluate_arrays(parse(text), columns).tolist() == [constant(parse(text), {"a": int(a)}) for a in columns["a"]]


@pytest.mark.parametrize("text", ["1 // a", "a * (1 << 61) * 4", "1 << (a - 1)", "a << 63", f"a + {1 << 63}", "ceil_div(a, a)"])
def test_refused(text: str) -> None:
    with pytest.raises(UserError, match="E0122"):
        evaluate_arrays(parse(text), {"a": np.array([0, 5], np.int64)})


@given(st.lists(st.integers(-40, 40) | st.integers(-(1 << 40), 1 << 40)))
def test_different_values_and_their_places_are_those_of_numpy(given_values: list[int]) -> None:
    values = np.array(given_values, np.int64)
    wanted, places = np.unique(values, return_inverse=True)
    assert distinct(values).tolist() == wanted.tolist()
    found, count = ranked(values)
    assert (found.tolist(), count) == (places.tolist(), len(wanted))
