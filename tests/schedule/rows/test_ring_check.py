"""Rings that are too short are found: against a memory in which every element remembers which line was written there last. Ends of rings by hand."""

from hypothesis import given
from hypothesis import strategies as st

from toolchain.schedule.rows.ring_check import RingBuffer, Touch, find_clash

DEPTH = 24


@st.composite
def programs(draw: st.DrawFn) -> tuple[dict[str, RingBuffer], list[Touch], list[Touch]]:
    """Two rings of one memory; lines are written one after the other, each before it is read."""
    rings, writes, reads, moment = dict[str, RingBuffer](), list[Touch](), list[Touch](), 0
    rows = {name: draw(st.integers(1, 9)) for name in ("a", "b")}
    for name in rows:
        line = draw(st.integers(1, 6))
        pitch = draw(st.integers(line, 12))
        rings[name] = RingBuffer("fm", 0, draw(st.integers(0, DEPTH - 1)), pitch, line, draw(st.integers(1, 2)), DEPTH)
    made = dict.fromkeys(rows, 0)
    while any(made[name] < rows[name] for name in rows):
        name = draw(st.sampled_from([n for n in rows if made[n] < rows[n]]))
        together = rings[name].together
        stop = min(made[name] + draw(st.integers(1, 2)) * together, rows[name])
        writes.append(Touch(name, moment, range(made[name], stop)))
        made[name], moment = stop, moment + 1
        for other in rows:
            if made[other] and draw(st.booleans()):
                first = draw(st.integers(0, made[other] - 1))
                reads.append(Touch(other, moment, range(first, draw(st.integers(first + 1, made[other])))))
        moment += 1
    return rings, writes, reads


def lost(rings: dict[str, RingBuffer], writes: list[Touch], reads: list[Touch]) -> bool:
    """Whether a read finds another line than the one it wants."""
    memory: dict[int, tuple[str, int]] = {}
    events = [(t.moment, 1, t) for t in reads] + [(t.moment, 0, t) for t in writes]
    for _, reading, touch in sorted(events, key=lambda e: e[:2]):
        ring = rings[touch.ring]
        for number in sorted({row // ring.together for row in touch.rows}):
            for k in range(ring.line):
                place, want = (ring.address + number * ring.pitch + k) % ring.depth, (touch.ring, number)
                if reading and memory.get(place) != want:
                    return True
                if not reading:
                    memory[place] = want
    return False


@given(programs())
def test_a_line_is_lost_only_where_a_clash_is_found(program: tuple[dict[str, RingBuffer], list[Touch], list[Touch]]) -> None:
    rings, writes, reads = program
    if find_clash(rings, writes, reads, frozenset()) is None:
        assert not lost(rings, writes, reads)


@given(programs())
def test_a_clash_of_a_line_that_is_read_once_more_is_a_loss(program: tuple[dict[str, RingBuffer], list[Touch], list[Touch]]) -> None:
    rings, writes, reads = program
    end = max(t.moment for t in [*writes, *reads]) + 1
    clash = find_clash(rings, writes, reads, frozenset())
    if clash is not None:
        again = [Touch(name, end, range(max(t.rows.stop for t in writes if t.ring == name))) for name in rings]
        assert lost(rings, writes, [*reads, *again])


def test_a_result_may_stand_over_its_operand_where_it_is_made_in_the_same_moment() -> None:
    ring = RingBuffer("fm", 0, 0, 4, 4, 1, DEPTH)
    rings, rows = {"x": ring, "y": ring}, range(1)
    writes, reads = [Touch("x", 0, rows), Touch("y", 1, rows)], [Touch("x", 1, rows)]
    assert find_clash(rings, writes, reads, frozenset()) is not None
    assert find_clash(rings, writes, reads, frozenset({("y", "x")})) is None
    late = [*reads, Touch("x", 2, rows)]
    assert find_clash(rings, writes, late, frozenset({("y", "x")})) is not None


def test_other_pools_do_not_matter() -> None:
    rings = {"x": RingBuffer("fm", 0, 0, 4, 4, 1, DEPTH), "y": RingBuffer("fm", 8, 0, 4, 4, 1, DEPTH)}
    writes = [Touch("x", 0, range(1)), Touch("y", 1, range(1))]
    assert find_clash(rings, writes, [Touch("x", 2, range(1))], frozenset()) is None


def test_rows_on_both_sides_of_the_end_of_a_ring() -> None:
    """Three lines of eight rows: rows 20 to 27 lie across row 24, rows 24 to 31 do not."""
    ring = RingBuffer("fm", 0, 0, 6, 6, 8, 18, 3)
    assert [ring.crosses(range(first, first + 8)) for first in (16, 20, 24)] == [False, True, False]
