"""Input ranges against counting, row by row."""

from hypothesis import assume, given
from hypothesis import strategies as st

from toolchain.schedule.kernels.kernel import Window
from toolchain.schedule.kernels.problem import window_names
from toolchain.spec.expr import Const


@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 5), st.integers(1, 20), st.integers(0, 9), st.integers(1, 9))
def test_a_window_is_what_its_rows_read(stride: int, reach: int, before: int, extent: int, start: int, size: int) -> None:
    rows = [y * stride - before + k for y in range(start, start + size) for k in (0, reach - 1)]
    touched = range(min(rows), max(rows) + 1)
    inside = [r for r in touched if 0 <= r < extent]
    assume(inside)  # kernels ask for padding smaller than the reach
    names = window_names(Window("h", "oh", *map(Const, (stride, reach, before, extent, 1))), start, size, {})
    assert names["h_before"] == sum(r < 0 for r in touched)
    assert names["h_after"] == max(touched.stop - extent, 0)
    assert (names["h_first"], names["h_count"], names["h_window"]) == (inside[0], len(inside), len(touched))


def test_only_every_step_th_row_is_kept() -> None:
    names = window_names(Window("h", "oh", Const(2), Const(1), Const(0), Const(15), Const(2)), 3, 4, {})
    assert (names["h_first"], names["h_count"], names["h_window"]) == (6, 4, 4)
