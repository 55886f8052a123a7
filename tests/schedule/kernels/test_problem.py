"""Input ranges against counting, row by row. Rows of rings on chip: where their round has them."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.operations.made import Window, load_machine, max_pool
from tests.schedule.convolutions import convolution
from toolchain.schedule.kernels.kernel import Window as RowWindow
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.pools import Slot
from toolchain.schedule.kernels.problem import Kept, copied_places, state_problem, window_names
from toolchain.schedule.kernels.rounds import Rounds, RowRing
from toolchain.spec.expr import Const


@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 5), st.integers(1, 20), st.integers(0, 9), st.integers(1, 9))
def test_a_window_is_what_its_rows_read(stride: int, reach: int, before: int, extent: int, start: int, size: int) -> None:
    rows = [y * stride - before + k for y in range(start, start + size) for k in (0, reach - 1)]
    touched = range(min(rows), max(rows) + 1)
    inside = [r for r in touched if 0 <= r < extent]
    assume(inside)  # kernels ask for padding smaller than the reach
    names = window_names(RowWindow("h", "oh", *map(Const, (stride, reach, before, extent, 1))), start, size, {})
    assert names["h_before"] == sum(r < 0 for r in touched)
    assert names["h_after"] == max(touched.stop - extent, 0)
    assert (names["h_first"], names["h_count"], names["h_window"]) == (inside[0], len(inside), len(touched))


@pytest.mark.parametrize(("machine", "kernel", "copied"), [("dpuv3", "conv2d", {"p", "t"}), ("dpuv3", "max_pool", set()), ("vta", "conv2d", set())])
def test_copies_of_operands_are_loaded_and_known_by_no_name(machine: str, kernel: str, copied: set[str]) -> None:
    made = load_machine(machine)
    window = max_pool("pool", (4, 64, 14, 14), Window((2, 2), (2, 2))) if kernel == "max_pool" else convolution((4, 64, 14, 14), (64, 1, 1))
    assert copied_places(state_problem(made, load_kernels(made)[kernel], window)) == copied


def test_only_every_step_th_row_is_kept() -> None:
    names = window_names(RowWindow("h", "oh", Const(2), Const(1), Const(0), Const(15), Const(2)), 3, 4, {})
    assert (names["h_first"], names["h_count"], names["h_window"]) == (6, 4, 4)


def test_rows_of_a_ring_stand_where_their_round_has_them() -> None:
    """Lines of eight rows, six elements apart; three lines from one round to the next, and the first row in the second line."""
    ring = Kept(Slot(8, 100), 30, {}, RowRing(6, 30, 5, 2, 1), 8)
    assert ring.rounds == Rounds(40, 24, 8)
    assert [ring.slot_in(number) for number in range(3)] == [Slot(8, 106), Slot(8, 88), Slot(8, 70)]
    assert [ring.slot_for(range(first, first + 8)) for first in (0, 24, 32)] == [Slot(8, 106), Slot(8, 106), Slot(8, 88)]
    whole = Kept(Slot(8, 100), 30, {})
    assert whole.rounds is None
    assert whole.slot_for(range(32, 40)) == Slot(8, 100)


def test_a_ring_stands_with_the_one_in_its_place() -> None:
    ring = Kept(Slot(8, 100), 30, {}, RowRing(6, 30, 5, 2, 1), 8)
    assert ring.stands_with(replace(ring, size=20))
    assert not ring.stands_with(replace(ring, slot=Slot(8, 130)))
    assert not ring.stands_with(replace(ring, ring=RowRing(6, 30, 5, 2)))
    assert not ring.stands_with(None)
    assert not Kept(Slot(8, 100), 30, {}).stands_with(Kept(Slot(8, 100), 30, {}))
