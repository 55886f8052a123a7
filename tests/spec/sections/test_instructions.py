"""Where fields stand: C's rule for bit fields, places by hand, and what an instruction's bits must be.

`others` in a match: every word has one meaning, whatever values are named beside it.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spec.small import small
from toolchain.isa.assembly import assemble, disassemble
from toolchain.isa.decode import decode
from toolchain.report.manual import manual_markdown
from toolchain.spec.errors import Source, UserError
from toolchain.spec.model import Machine

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


ONE = """  {0}:
    format: {2}
    match: {{opcode: 5, {3}: {1}}}
    unit: move
    timing: none
    semantics: |
      pass
"""


def machine(*named: tuple[str, object], form: str = "long", field: str = "kind") -> Machine:
    """Instructions of one opcode, told apart by a field."""
    return small(("  SETUP:\n", "".join(ONE.format(name, value, form, field) for name, value in named) + "  SETUP:\n"))


def word(opcode: int, kind: int) -> bytes:
    return (opcode | kind << 6).to_bytes(8, "little")


@given(st.sets(st.integers(0, 3), min_size=1, max_size=3), st.booleans(), st.data())
def test_every_value_has_one_meaning(named: set[int], before: bool, data: st.DataObject) -> None:
    kinds: list[tuple[str, object]] = [(f"K{value}", value) for value in sorted(named)]
    rest: tuple[str, object] = ("REST", "others")
    held = machine(*([rest, *kinds] if before else [*kinds, rest]))
    values = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=6))
    end = bytes(4)
    program = decode(held, [b"".join(word(5, value) for value in values) + end, b""])
    names = [held.instructions[k].name for k in program.kind.tolist()]
    assert names == [*(f"K{value}" if value in named else "REST" for value in values), "END"]
    found = next(k for k, i in enumerate(held.instructions) if i.name == "REST")
    assert np.array_equal(program.columns[found]["kind"], [value for value in values if value not in named])
    again = assemble(held, Source("again.asm", disassemble(program)))
    assert again.streams == program.streams


def test_a_value_of_another_instruction_is_refused_in_assembly() -> None:
    held = machine(("LOW", 1), ("REST", "others"))
    text = "REST kind={} at=0 count=1 far=0\nEND\n"
    assert assemble(held, Source("a.asm", text.format(2))).streams[0][0] == 5 | 2 << 6 & 255
    with pytest.raises(UserError, match=r"E0404 .*'kind' holds a value of another instruction: 1 is LOW"):
        assemble(held, Source("a.asm", text.format("save")))


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ([("REST", "others")], "E0119 no other instruction matches a value of 'kind'"),
        ([("A", 0), ("B", 1), ("C", 2), ("D", 3), ("REST", "others")], "E0119 other instructions match every value of 'kind'"),
        ([("A", 0), ("REST", "others"), ("MORE", "others")], "E0124 a word can match both REST and MORE"),
    ],
)
def test_refused(named: list[tuple[str, object]], message: str) -> None:
    with pytest.raises(UserError) as caught:
        machine(*named)
    assert message in str(caught.value)


def test_a_field_that_the_format_lacks() -> None:
    with pytest.raises(UserError, match="E0119 the format has no field 'knid'"):
        machine(("REST", "others"), field="knid")


def test_other_opcodes_do_not_count() -> None:
    """MOVE and CALC have opcodes of their own: their values of `kind` are not taken."""
    held = machine(("LOW", 3), ("REST", "others"))
    rule = held.instruction["REST"].constraints[0]
    assert "3 is LOW" in rule.message
    assert "MOVE" not in rule.message


def test_the_manual_says_it() -> None:
    assert "Identified by `opcode = 5`, any other `kind`." in manual_markdown(machine(("LOW", 1), ("REST", "others")))
