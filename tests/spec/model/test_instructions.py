"""Fields hold exactly the values of their bits; instructions find them by name."""

import pytest

from tests.spec.small import small
from toolchain.spec.model import Field


@pytest.mark.parametrize("bits", [1, 2, 5, 16])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("minus", [0, 1, -3])
def test_a_field_holds_the_values_of_its_bits(bits: int, signed: bool, minus: int) -> None:
    field = Field("f", 0, bits, signed, minus)
    stored = range(1 << bits)
    values = [(raw - (1 << bits) if signed and raw >> (bits - 1) else raw) + minus for raw in stored]
    assert (field.low, field.high) == (min(values), max(values))


def test_an_instruction_knows_its_fields_by_name() -> None:
    for instruction in small().instructions:
        assert [instruction.field(field.name) for field in instruction.fields] == list(instruction.fields)
        with pytest.raises(StopIteration):
            instruction.field("absent")


def test_a_field_is_the_same_wherever_it_stands_in_the_file() -> None:
    one, other = small().declared_fields, small(("target:", "# a comment\n\ntarget:")).declared_fields
    assert one == other
    assert all(a.span != b.span for a, b in zip(one, other, strict=True))
