"""A strided view and gathered elements are the same; reads past an edge give what the meaning says.

A part of a result depends on the derived ranges of its operands and on no element besides.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operations.needed_parts import needed
from toolchain.operations.kind import OperationKind
from toolchain.operations.library import builtin_kinds
from toolchain.operations.numbers import numbers_of
from toolchain.operations.reads import narrow, positions, read_all
from toolchain.operations.reference import accumulate
from toolchain.spec.errors import UserError
from toolchain.spec.expr import Index, parse_expr
from toolchain.verify.operation_check import draw_case

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


KINDS = {name: kind for name, kind in builtin_kinds().items() if kind.meaning.of is not None and not kind.meaning.table}


def some(rng: np.random.Generator, extent: int) -> range:
    first = int(rng.integers(0, extent))
    return range(first, int(rng.integers(first + 1, extent + 1)))


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_other_elements_change_nothing(kind: OperationKind) -> None:
    rng = np.random.default_rng(1)
    for _ in range(15):
        case = draw_case(kind, rng)
        numbers = {**case.numbers, **dict.fromkeys((*kind.multipliers, "unit"), 1)}
        part = {index: some(rng, numbers[extent]) for index, extent in kind.result.axes.items()}
        box = tuple(slice(loop.start, loop.stop) for loop in part.values())
        wanted = accumulate(kind, numbers, case.operands)[box]
        ranges = needed(kind, numbers, part)
        other = {name: _kept(array, ranges[name], rng) for name, array in case.operands.items()}
        np.testing.assert_array_equal(accumulate(kind, numbers, other)[box], wanted)


def _kept(array: np.ndarray, ranges: tuple, rng: np.random.Generator) -> np.ndarray:
    """Other elements everywhere but in the ranges."""
    found = rng.integers(-128, 128, array.shape).astype(array.dtype)
    box = tuple(slice(each.first, each.stop) for each in ranges)
    found[box] = array[box]
    return found


def test_rows_of_a_strided_convolution_and_their_halo() -> None:
    kind = builtin_kinds()["conv2d"]
    shapes = {"x": (1, 3, 9, 9), "weight": (4, 3, 3, 3), "bias": (4,)}
    numbers = numbers_of(kind, shapes, {"strides": (2, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "group": 1})
    rows = needed(kind, numbers, {"p": range(2)})["x"][2]
    last = needed(kind, numbers, {"p": range(4, 5)})["x"][2]
    assert (rows.first, rows.stop, rows.before, rows.after) == (0, 4, 1, 0)
    assert (last.first, last.stop, last.before, last.after, last.count) == (7, 9, 0, 1, 2)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_what_each_position_reads_is_what_it_needs(kind: OperationKind) -> None:
    rng = np.random.default_rng(2)
    for _ in range(5):
        case = draw_case(kind, rng)
        numbers = {**case.numbers, **dict.fromkeys((*kind.multipliers, "unit"), 1)}
        for index, extent in kind.result.axes.items():
            found = positions(kind, numbers, index)
            for at in range(numbers[extent]):
                ranges = needed(kind, numbers, {index: range(at, at + 1)})
                for operand, axes in found.items():
                    assert [(int(a.first[at]), int(a.stop[at])) for a in axes] == [(n.first, n.stop) for n in ranges[operand]]
