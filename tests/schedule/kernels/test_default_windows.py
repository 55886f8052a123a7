"""Windows read off an operation's meaning are the ranges that the meaning reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.operations.library import builtin_kinds
from toolchain.operations.numbers import complete
from toolchain.operations.reads import needed
from toolchain.schedule.kernels.default_windows import derived_window, folded
from toolchain.schedule.kernels.kernel import Window
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.windows import window_names
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Const
from toolchain.spec.load import load_machine

KINDS = builtin_kinds()


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 2), st.integers(0, 3), st.integers(0, 5), st.integers(1, 5))
def test_a_derived_window_is_what_the_meaning_reads(kernel: int, stride: int, apart: int, before: int, first: int, size: int) -> None:
    kind, extent = KINDS["max_pool"], 20
    before = min(before, kernel - 1)
    named = {"batch": 1, "channels": 1, "height": extent, "width": extent, "kh": kernel, "kw": 1, "sh": stride, "dh": apart, "pad_top": before}
    numbers = complete(kind, named)
    rows = range(min(first, numbers["out_height"] - 1), min(first + size, numbers["out_height"]))
    window = Window("h", "oh", **{"step": Const(1), **derived_window(kind, "h")})
    found, (wanted,) = window_names(window, rows.start, len(rows), numbers), needed(kind, numbers, {"p": rows})["x"][2:3]
    assert (found["h_first"], found["h_count"], found["h_before"]) == (wanted.first, wanted.count, wanted.before)
    assert found["h_after"] == wanted.after


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 5), st.integers(0, 4), st.integers(1, 30), st.integers(0, 5), st.integers(1, 4))
def test_folded_rows_are_all_that_hold_a_row_of_the_window(
    fold: int, steps: int, reach: int, before: int, extent: int, first: int, size: int
) -> None:
    window = {"stride": Const(fold * steps), "reach": Const(reach), "before": Const(before), "extent": Const(extent)}
    stride, whole, front, rows = (constant(folded(window, Const(fold))[key], {}) for key in ("stride", "reach", "before", "extent"))
    low, high = first * fold * steps - before, (first + size - 1) * fold * steps - before + reach
    assert first * stride - front == low // fold
    assert (first + size - 1) * stride - front + whole == -(-high // fold)
    assert rows == -(-extent // fold)


@pytest.mark.parametrize(("operation", "axis"), [("upsample", "h"), ("conv2d", "c"), ("concat", "h")])
def test_another_index_has_no_window(operation: str, axis: str) -> None:
    assert derived_window(KINDS[operation], axis) == {}


def test_an_element_for_an_element_is_a_window_of_one() -> None:
    for operation in ("add", "prelu"):
        found = derived_window(KINDS[operation], "w")
        assert (found["stride"], found["reach"], found["before"]) == (Const(1), Const(1), Const(0))


def test_a_kernel_that_states_none_has_those_of_the_axes_it_cuts() -> None:
    kernels = load_kernels(load_machine("vta"))
    assert [(window.name, window.of) for window in kernels["add"].windows] == [("h", "oh"), ("w", "ow")]
    assert kernels["dense"].windows == ()
