"""A tensor that moves alone make of another has its range, whichever of the two was seen."""

from tests.graph.test_state_moves import BY_HEADS, HEADS, ROWS, step
from toolchain.graph.quantisation.moved_ranges import with_moved
from toolchain.graph.quantisation.ranges import Spread
from toolchain.graph.quantisation.table import SeenTensor, Table

SEEN = SeenTensor(Spread(2.0, ((3, 1_000_000),), -1.0, 2.0), (0.5,))
MODEL = step(HEADS, [BY_HEADS, ROWS], [("Reshape", (1, 6, 2, 4)), BY_HEADS])


def test_before_moves_and_behind_them() -> None:
    found = with_moved(MODEL.graph, Table(1, {"x": SEEN, "y": SEEN}))
    assert {*found.tensors} == {"x", "enter0", "enter1", "made", "leave0", "y"}
    assert {each.spread for each in found.tensors.values()} == {SEEN.spread}
    assert {name for name, each in found.tensors.items() if each.means} == {"x", "y"}


def test_what_was_seen_stays_and_what_computes_is_no_move() -> None:
    table = Table(1, dict.fromkeys(("x", "enter0", "enter1", "made", "leave0", "y"), SEEN))
    assert with_moved(MODEL.graph, table) is table
    assert {*with_moved(MODEL.graph, Table(1, {"x": SEEN})).tensors} == {"x", "enter0", "enter1"}


def test_numbers_that_are_none_are_handed_on() -> None:
    found = with_moved(MODEL.graph, Table(1, {"y": SEEN}, ("x",)))
    assert found.unusable == ("enter0", "enter1", "x")
    assert "enter1" not in found.tensors
