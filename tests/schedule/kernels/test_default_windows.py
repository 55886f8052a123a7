"""Windows read off an operation's meaning are the ranges that the meaning reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.operations.library import builtin_kinds
from toolchain.operations.numbers import complete
from toolchain.operations.ranges import needed
from toolchain.schedule.kernels.default_windows import derived_window
from toolchain.schedule.kernels.kernel import Window
from toolchain.schedule.kernels.windows import window_names
from toolchain.spec.expr import Const

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


@pytest.mark.parametrize(("operation", "axis"), [("upsample", "h"), ("conv2d", "c"), ("concat", "h")])
def test_another_index_has_no_window(operation: str, axis: str) -> None:
    assert derived_window(KINDS[operation], axis) == {}


def test_an_element_for_an_element_is_a_window_of_one() -> None:
    for operation in ("add", "prelu"):
        found = derived_window(KINDS[operation], "w")
        assert (found["stride"], found["reach"], found["before"]) == (Const(1), Const(1), Const(0))
