"""Lengths of rings whose rounds overlap: every slab finds its rows, in a memory that remembers the row of each place, and no ring is too long."""

from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from tests.schedule.rows.test_row_group import Rows, found_all
from toolchain.schedule.groups.overlap import Flow, Length, flow_of, lengths_of
from toolchain.schedule.rows.ring_check import RingBuffer
from toolchain.schedule.rows.row_group import Feed, RowGroup, Slab, interleave

NONE = frozenset[tuple[str, str]]()


def slabs_of(height: int, sizes: tuple[int, ...], halo: int, ahead: int = 0) -> list[Slab]:
    """A maker of `x` and its readers, each in slabs of its size and with the rows around them."""
    loops = [Rows(height, sizes[0], 0, ()), *(Rows(height, size, halo, ("x",)) for size in sizes[1:])]
    turns = interleave(cast("Any", loops), [[], *([Feed("x", 0)] for _ in sizes[1:])], ahead)
    return [Slab(t, "xyz"[t.member], loops[t.member].made(t.slab), tuple(loops[t.member].read(t.slab).items())) for t in turns]


def flow(slabs: list[Slab], together: int, most: int) -> Flow:
    return Flow(cast("RowGroup", SimpleNamespace(slabs=slabs)), ["x"], NONE, together, most)


def ring(length: Length, together: int) -> RingBuffer:
    return RingBuffer("fm", 0, 0, 1, 1, together, length.lines, *length)


@st.composite
def programs(draw: st.DrawFn, most: int = 3) -> tuple[list[Slab], int, int]:
    """Slabs, rows of a line, and rows of the tensor. most: rows of a line."""
    together, height = draw(st.integers(1, most)), draw(st.integers(1, 40))
    sizes = (draw(st.integers(1, 2)) * together, *draw(st.lists(st.integers(1, 5), min_size=1, max_size=2)))
    return slabs_of(height, sizes, draw(st.integers(0, 2)), draw(st.integers(0, 2))), together, height


@given(programs(), st.integers(1, 40), st.integers(1, 12))
def test_every_slab_finds_its_rows_in_a_ring_that_fits(program: tuple[list[Slab], int, int], most: int, rounds: int) -> None:
    slabs, together, height = program
    found = flow(slabs, together, most).length(rounds)
    whole = -(-height // together)
    assert found is not None or whole > most
    if found is not None:
        assert found.lines <= min(most, whole)
        assert 2 * found.overlap <= found.lines
        assert flow(slabs, together, most).bound(rounds) <= found.lines
        assert found_all(ring(found, together), slabs)


@given(programs(1), st.integers(1, 12))
def test_a_ring_without_overlap_is_taken_where_there_is_one(program: tuple[list[Slab], int, int], rounds: int) -> None:
    """A line is a row, since the check counts whole lines as read."""
    slabs, together, height = program
    found = flow(slabs, together, height).length(rounds)
    assert found is not None
    shorter = [lines for lines in range(1, height) if found_all(ring(Length(lines), together), slabs)]
    if shorter:
        assert found.overlap == 0
        assert found.lines <= shorter[0]


def test_windows_of_three_rows_need_two_lines_again() -> None:
    """Slabs of one row of 24, each with a row above and below: eight rows from one round to the next, and the two that both read."""
    slabs = slabs_of(24, (1, 1), 1)
    assert flow(slabs, 1, 24).length(3) == Length(10, 2)
    assert flow(slabs, 1, 9).length(3) is None
    assert flow(slabs, 1, 24).length(1) == Length(24)
    assert flow(slabs, 1, 9).length(4) == Length(8, 2)


def test_rounds_end_where_slabs_do() -> None:
    """Slabs of four rows that read a row above and below: their last rows are the third of a line, and so is the end of a round."""
    slabs = slabs_of(24, (1, 4), 1)
    found = flow(slabs, 1, 23).length(3)
    assert found is not None
    assert found.overlap == 2
    assert found_all(ring(found, 1), slabs)
    assert not found_all(ring(found._replace(late=found.late + 1), 1), slabs)


def test_lengths_of_a_group_come_once_and_only_with_an_overlap() -> None:
    slabs = slabs_of(24, (1, 1), 1)
    flows = [flow(slabs, 1, 24), flow(slabs_of(24, (1, 1), 0), 1, 24)]
    found = list(lengths_of(flows, [2, 5], 100, (1, 3, 3, 4, 24)))
    assert found[0] == [Length(10, 2), Length(1)]
    assert len(found) == len({tuple(lengths) for lengths in found})
    assert all(lengths[0].overlap for lengths in found)
    assert not list(lengths_of([flow(slabs, 1, 24), flow(slabs, 1, 2)], [2, 5], 100, (2, 3, 4)))


def test_no_length_is_searched_where_there_is_no_room() -> None:
    """Eight lines of two elements from one round to the next, and one line of five."""
    flows = [flow(slabs_of(24, (1, 1), 1), 1, 24), flow(slabs_of(24, (1, 1), 0), 1, 24)]
    assert [each.bound(3) for each in flows] == [8, 1]
    assert not list(lengths_of(flows, [2, 5], 20, (3,)))
    assert list(lengths_of(flows, [2, 5], 21, (3,))) == [[Length(10, 2), Length(1)]]


def test_a_ring_has_the_rows_of_all_that_stand_over_it() -> None:
    over = {"y": "x", "z": "y", "w": "v"}
    found = flow_of(cast("RowGroup", SimpleNamespace(slabs=[])), "x", over, 1, 8)
    assert found.names == ["x", "y", "z"]
    assert found.over == {("y", "x"), ("z", "y")}
