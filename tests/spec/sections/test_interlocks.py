"""Interlocks as declared: what is watched where nothing is said, and what is named.

Units that run coupled, and those that cannot.
"""

import pytest

from tests.spec.small import small
from toolchain.spec.errors import UserError
from toolchain.spec.model import Interlock, Machine, Watch
from toolchain.spec.render import render


def coupled(*pairs: str, edits: tuple[tuple[str, str], ...] = ()) -> Machine:
    return small(("  posts:\n", f"  interlock: {{pairs: [{', '.join(pairs)}]}}\n  posts:\n"), *edits)


def test_a_lag_is_an_expression() -> None:
    found = coupled("{from: calc, to: move, memories: [sums], lag: LANES + 1}", "{from: calc, to: move}").interlock
    assert isinstance(found, Interlock)
    assert [watch.lag for watch in found.watches] == [5, None]


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        (("{from: calc, to: calc, memories: [sums], lag: 1}",), "they are one"),
        (("{from: calc, to: move, memories: [rows], lag: 1}", "{from: calc, to: move}"), "'move' also writes 'rows'"),
        (("{from: calc, to: move, memories: [sums], lag: 1}",), "they share 'rows', which is not compared between them"),
        (
            ("{from: calc, to: move, memories: [sums], lag: 1}", "{from: calc, to: move, memories: [set], lag: 2}", "{from: calc, to: move}"),
            "they are coupled already",
        ),
    ],
)
def test_who_cannot(pairs: tuple[str, ...], reason: str) -> None:
    with pytest.raises(UserError, match=f"E0146 units .* cannot run coupled: {reason}"):
        coupled(*pairs)


def test_neighbours_that_overlap_cannot() -> None:
    pairs = ("{from: calc, to: move, memories: [sums], lag: 1}", "{from: calc, to: move}")
    with pytest.raises(UserError, match="neighbours in 'calc' may overlap"):
        coupled(*pairs, edits=((" calc: {reads", " calc: {overlaps: true, reads"),))


def test_an_instruction_that_occupies_a_unit_brings_its_ports() -> None:
    pairs = ("{from: calc, to: move, memories: [codes], lag: 1}", "{from: calc, to: move, memories: [rows, sums, ddr, set]}")
    with pytest.raises(UserError, match="'move' also writes 'codes'"):
        coupled(*pairs)
    fine = ("{from: calc, to: move, memories: [sums], lag: 1}", "{from: calc, to: move, memories: [rows, ddr, codes, set]}")
    coupled(*fine)
    with pytest.raises(UserError, match="'move' also writes 'sums'"):
        coupled(*fine, edits=(("    timing: calc\n    semantics", "    timing: calc\n    occupies: [calc]\n    semantics"),))


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
