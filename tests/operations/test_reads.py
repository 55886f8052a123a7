"""A strided view and gathered elements are the same; reads past an edge give what the meaning says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.operations.reads import narrow, read_all
from toolchain.spec.errors import UserError
from toolchain.spec.expr import Index, parse_expr

X = np.arange(5 * 7).reshape(5, 7)


def index(text: str) -> Index:
    found = parse_expr(text, lambda _line, _column: None)  # type: ignore[arg-type,return-value]
    assert isinstance(found, Index)
    return found


@given(*[st.integers(-4, 4)] * 2, *[st.integers(-3, 3)] * 4, st.sampled_from([0, -99]))
def test_every_element_is_the_one_that_the_index_names(a: int, b: int, s: int, t: int, u: int, v: int, outside: int) -> None:
    read = index(f"x[{a} + {s} * i + {t} * j, {b} + {u} * i + {v} * j // 2]")
    found = read_all({"x": X}, {}, {"i": range(3), "j": range(1, 4)}, outside, unbounded=True).read(read).array
    full = np.broadcast_to(found, (3, 3))
    for i in range(3):
        for j in range(1, 4):
            row, column = a + s * i + t * j, b + u * i + v * j // 2
            inside = 0 <= row < 5 and 0 <= column < 7
            assert full[i, j - 1] == (X[row, column] if inside else outside)


def test_an_axis_that_changes_nothing_has_an_extent_of_one() -> None:
    assert narrow(np.zeros((3, 4), np.int64)).shape == (1, 1)
    assert narrow(np.arange(4).reshape(1, 4).repeat(3, 0)).shape == (1, 4)


def test_a_read_outside_that_may_not_happen() -> None:
    with pytest.raises(UserError, match="E1301 'x' is read outside its extents"):
        read_all({"x": X}, {}, {"i": range(6)}, 0, unbounded=False).read(index("x[i, 0]"))
