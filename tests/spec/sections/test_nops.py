"""Instructions that do nothing, declared and refused."""

from pathlib import Path

import pytest

from toolchain.spec.errors import UserError
from toolchain.spec.fingerprint import fingerprint
from toolchain.spec.load import load_machine, load_text

TEXT = (Path(__file__).resolve().parents[3] / "targets" / "vta.yaml").read_text()
DECLARED = "compute: {instruction: LOAD, fields: {memory_type: uop}"


def test_fields_that_are_not_named_hold_their_default() -> None:
    (nop,) = load_machine("vta").nops
    assert (nop.unit, nop.instruction) == ("compute", "LOAD")
    assert set(nop.fields.values()) == {0}


def test_bits_do_not_depend_on_it() -> None:
    assert fingerprint(load_text(TEXT.replace(DECLARED, "compute: {instruction: FINISH"), "vta.yaml")) == fingerprint(load_machine("vta"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("comput: {instruction: LOAD", "E0107 unknown unit 'comput'; did you mean 'compute'?"),
        ("compute: {instruction: LOADS", "E0107 unknown instruction 'LOADS'"),
        ("compute: {instruction: LOAD, fields: {opcode: 0}", "E0131 'opcode' is no field of LOAD that can be chosen"),
        ("compute: {instruction: LOAD, fields: {x_siz: 0}", "E0131 'x_siz' is no field of LOAD that can be chosen; did you mean 'x_size'?"),
        ("compute: {instruction: LOAD, fields: {memory_type: inp}", "E0144 with these fields LOAD does not go to unit 'compute'"),
        ("compute: {instruction: LOAD, fields: {memory_type: 9}", "E0144 9 is outside 0..7 of 'memory_type'"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    assert DECLARED in TEXT
    with pytest.raises(UserError) as caught:
        load_text(TEXT.replace(DECLARED, text), "vta.yaml")
    assert message in str(caught.value)
