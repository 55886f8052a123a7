"""The full check of machines: all that are there pass, damaged ones are told about, in order and together."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.spec.mutations import damaged
from tests.spec.small import GOOD, small
from toolchain.isa.check_machine import check_machine, load_checked_machine
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_text

START = GOOD.index("functions: |")
END = GOOD.index("timing:\n  clock")


def outcome(text: str) -> UserError | None:
    try:
        check_machine(load_text(text, "damaged.yaml"))
    except UserError as error:
        return error
    return None


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damaged_semantics(data: st.DataObject) -> None:
    error = outcome(GOOD[:START] + data.draw(damaged(GOOD[START:END])) + GOOD[END:])
    assert error is None or all(d.code and d.message and (d.span or d.place) for d in error.diagnostics)


def test_a_path_is_loaded_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(GOOD.replace("writes: [rows, codes, ddr]", "writes: [rows, ddr]"))
    with pytest.raises(UserError, match="E0140 MOVE writes 'codes'"):
        load_checked_machine(str(path))


def test_mistakes_of_two_instructions_come_in_source_order() -> None:
    with pytest.raises(UserError) as caught:
        check_machine(small(("codes[at + i] = ddr.code[far + i]", "codes[ta + i] = ddr.code[far + i]"), ("twice(3)", "thrice(3)")))
    lines = [d.span.line for d in caught.value.diagnostics if d.span]
    assert len(lines) == 2
    assert lines == sorted(lines)
