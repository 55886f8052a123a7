"""Rounds of a ring: every row is made in each round that has it, and is read in one that does."""

from hypothesis import given
from hypothesis import strategies as st

from toolchain.schedule.kernels.rounds import Rounds, RowRing


@st.composite
def rings(draw: st.DrawFn) -> Rounds:
    step = draw(st.integers(1, 12))
    return Rounds(step + draw(st.integers(0, step)), step, draw(st.integers(0, step - 1)))


@given(rings(), st.integers(0, 60))
def test_a_row_is_made_in_all_rounds_that_have_it(ring: Rounds, row: int) -> None:
    here = range(row, row + 1)
    assert list(ring.made(here)) == [number for number in range(80) if ring.holds(number, here)]
    assert 1 <= len(ring.made(here)) <= 2
    assert ring.read(here) == ring.made(here).start


@given(rings(), st.integers(0, 60), st.integers(1, 24))
def test_rows_are_read_in_the_first_round_that_has_all_of_them(ring: Rounds, first: int, count: int) -> None:
    rows = range(first, first + count)
    held = [number for number in range(100) if ring.holds(number, rows)]
    assert ring.holds(ring.read(rows), rows) == bool(held)
    assert not held or ring.read(rows) == held[0]


def test_no_rows_are_everywhere() -> None:
    assert Rounds(4, 4).holds(7, range(0))


def test_a_ring_that_goes_round_has_no_rounds() -> None:
    assert RowRing(6, 128).rounds(8) is None


def test_rounds_count_rows_and_begin_where_the_ring_does() -> None:
    """Five lines of eight rows, two of them in the next round as well; the tensor begins in the second."""
    ring = RowRing(6, 30, 5, 2, 1)
    assert ring.rounds(8) == Rounds(40, 24, 8)
    assert [ring.begin(number) for number in range(3)] == [6, -12, -30]
    assert all(ring.begin(number) + (3 * number - 1) * 6 == 0 for number in range(3))
