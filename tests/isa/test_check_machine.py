"""The full check of machines: all that are there pass, damaged ones and missing ports are told about, in order and together."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.spec.mutations import damaged
from tests.spec.small import GOOD, small
from toolchain.isa.check_machine import check_machine, load_checked_machine, missing_ports
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_text

ROUTED = ("  MOVE:\n    format: long\n    match: {opcode: 1}\n    unit: move\n", "  MOVE:\n    format: long\n    match: {opcode: 1}\n    unit: {}\n")


def told(unit: str, *edits: tuple[str, str]) -> list[str]:
    machine = small((ROUTED[0], ROUTED[1].replace("{}", unit)), *edits)
    return [d.message for d in missing_ports(machine, machine_semantics(machine)["MOVE"])]


def test_every_port_is_there() -> None:
    check_machine(small())
    assert told("move") == []


def test_a_unit_without_ports() -> None:
    assert told("calc") == [
        "MOVE reads 'ddr', but unit 'calc' has no read port to it",
        "MOVE writes 'ddr', but unit 'calc' has no write port to it",
        "MOVE writes 'codes', but unit 'calc' has no write port to it",
    ]


def test_only_branches_of_the_route_count() -> None:
    to_calc = ("calc: {reads: [rows, sums, codes], writes: [rows, sums]}", "calc: {reads: [rows, sums, codes, ddr], writes: [rows, sums, codes]}")
    assert told("calc if kind == 2 else move", to_calc) == []
    assert told("calc if kind == 1 else move", to_calc) == ["MOVE writes 'ddr', but unit 'calc' has no write port to it"]


def test_values_that_a_constraint_forbids_do_not_count() -> None:
    assert told("calc if kind == 3 else move") == []


def test_errors_of_several_instructions_come_together() -> None:
    with pytest.raises(UserError) as caught:
        check_machine(small(("rows[at + i] = ddr.row", "rowz[at + i] = ddr.row"), ("k = codes[i]", "k = codez[i]")))
    assert len(caught.value.diagnostics) == 2


def test_ports_of_occupied_units_count() -> None:
    assert told("calc\n    occupies: [move]") == []


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
