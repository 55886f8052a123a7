"""Interlocks as declared: what is watched where nothing is said, and what is named."""

from tests.spec.small import small
from toolchain.spec.model import Interlock, Watch
from toolchain.spec.render import render


def locked(text: str) -> Interlock:
    found = small(("  posts:\n", f"  interlock: {text}\n  posts:\n")).interlock
    assert found is not None
    return found


def test_without_a_word_every_unit_watches_every_memory() -> None:
    machine = small(("  posts:\n", "  interlock: {}\n  posts:\n"))
    everything = tuple(m.name for m in machine.memories)
    units = [u.name for u in machine.units]
    assert machine.interlock == Interlock(tuple(Watch(a, b, everything) for a in units for b in units))


def test_pairs_have_memories_of_their_own_or_those_of_all() -> None:
    found = locked("{memories: [rows, sums], pairs: [{from: move, to: calc}, {from: calc, to: move, memories: [codes]}]}")
    assert found.watches == (Watch("move", "calc", ("rows", "sums")), Watch("calc", "move", ("codes",)))


def test_numbers_are_expressions_and_nought_is_no_limit() -> None:
    found = locked("{window: LANES * 2, looks_back: 0, granularity: {rows: LANES, sums: 0}, fences: [END]}")
    assert (found.window, found.looks_back, found.granularity, found.fences) == (8, None, (("rows", 4), ("sums", 0)), ("END",))


def test_a_machine_that_has_none_shows_none() -> None:
    assert small().interlock is None
    assert "interlock" not in render(small())["sync"]
    assert render(small(("  posts:\n", "  interlock: {window: 3}\n  posts:\n")))["sync"]["interlock"]["window"] == 3
