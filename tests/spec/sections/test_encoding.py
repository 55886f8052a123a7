"""Where fields stand: C's rule for bit fields, places by hand, and what an instruction's bits must be."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spec.small import small
from toolchain.spec.errors import UserError

WIDTHS = st.lists(st.integers(1, 32), min_size=1, max_size=12)


def packed(widths: list[int], unit: int) -> list[int]:
    """Bit by bit: a field goes into the current unit if it has room, else it starts the next."""
    places: list[int] = []
    word = used = 0
    for width in widths:
        if used + width > unit:
            word, used = word + 1, 0
        places.append(word * unit + used)
        used += width
    return places


@settings(max_examples=30, deadline=None)
@given(WIDTHS)
def test_packing(widths: list[int]) -> None:
    fields = "".join(f"        f{i}: {{bits: {w}}}\n" for i, w in enumerate(widths))
    text = "    mine:\n      extends: header\n      bits: 512\n      unused: zero\n      fields:\n"
    instruction = "  MINE:\n    format: mine\n    match: {opcode: 9}\n    unit: move\n    timing: none\n    semantics: |\n      pass\n  SETUP:\n"
    machine = small(("    setup:\n      extends", f"{text}{fields}    setup:\n      extends"), ("  SETUP:\n", instruction))
    found = [f.lsb for f in machine.instruction["MINE"].fields]
    assert found == packed([4, 1, 1, *widths], 32)


def test_value_range() -> None:
    count = small().instruction["MOVE"].field("count")
    assert (count.low, count.high) == (1, 64)
    signed = small(("count: {bits: 6, minus: 1}", "count: {bits: 6, signed: true}")).instruction["MOVE"].field("count")
    assert (signed.low, signed.high) == (-32, 31)


def test_values_to_which_an_assumption_does_not_apply() -> None:
    given = small(("count: {bits: 6, minus: 1}", "count: {bits: 6, assumed: more are guessed, known: [0, 1 + 1]}"))
    assert given.instruction["MOVE"].field("count").known == (0, 2)
    assert small(("count: {bits: 6, minus: 1}", "count: {bits: 6, known: [1], stated: [2, 4]}")).instruction["MOVE"].field("count").stated == (2, 4)


def test_two_fields_that_do_not_fit_are_both_told() -> None:
    with pytest.raises(UserError) as caught:
        small(("{bits: 32, role: address, relocates: ddr.row}", "{bits: 33}"), ("shift: {at: 0.15-8}", "shift: {at: 0.40-8}"))
    assert [d.code for d in caught.value.diagnostics] == ["E0114", "E0114"]


@pytest.mark.parametrize("text", ["bits: 0", "bits: 33", "bits: -32", "bits: 1 << 40"])
def test_length_of_an_instruction(text: str) -> None:
    with pytest.raises(UserError, match="E0139 an instruction of"):
        small(("short: {extends: header, bits: 32", f"short: {{extends: header, {text}"))
