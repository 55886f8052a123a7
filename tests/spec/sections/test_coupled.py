"""Units that run coupled, and those that cannot."""

import pytest

from tests.spec.small import small
from toolchain.spec.errors import UserError
from toolchain.spec.model import Interlock, Machine


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
