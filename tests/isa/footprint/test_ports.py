"""Ports are needed only on units, and in branches, that routing leaves open."""

import pytest

from tests.spec.small import small
from toolchain.isa.check_machine import check_machine
from toolchain.isa.footprint.ports import missing_ports
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec.errors import UserError

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
