"""`others` in a match: every word has one meaning, whatever values are named beside it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spec.small import small
from toolchain.isa.assembly.assembler import assemble
from toolchain.isa.assembly.disassembler import disassemble
from toolchain.isa.decode import decode
from toolchain.report.manual import manual_markdown
from toolchain.spec.errors import Source, UserError
from toolchain.spec.model import Machine

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
