"""The full check of machines: all that are there pass, damaged ones and missing ports are told about, in order and together. Descriptions of a
machine's parts: what lacks one is named at its place, and no machine of ours lacks any."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.spec.mutations import damaged
from tests.spec.small import GOOD, small
from toolchain.isa.check_machine import check_machine, load_checked_machine, missing_ports, require_descriptions
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec.errors import UserError
from toolchain.spec.load import list_targets, load_machine, load_text, read_text

ROUTED = ("  MOVE:\n    format: long\n    match: {opcode: 1}\n    unit: move\n", "  MOVE:\n    format: long\n    match: {opcode: 1}\n    unit: {}\n")

ROOT = Path(__file__).resolve().parents[2]
BARE = (ROOT / "tests" / "golden" / "machine_faults" / "good.yaml").read_text()
MACHINE = read_text(ROOT / "targets" / "vta.yaml")
DESCRIBED = [k for k, line in enumerate(MACHINE.split("\n")) if line.startswith("        ") and ", doc: " in line]
"""Lines of fields, each with one description, at their end."""


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


@pytest.mark.parametrize("name", list_targets())
def test_every_machine_is_described_in_every_configuration(name: str) -> None:
    for config in ("", *load_machine(name).configs):
        require_descriptions(load_machine(name, config))


def test_what_lacks_a_description_is_told(golden: Callable[[str, str], None]) -> None:
    with pytest.raises(UserError) as caught:
        require_descriptions(load_text(BARE, "small.yaml"))
    assert {each.code for each in caught.value.diagnostics} == {"E0147"}
    golden("spec/undescribed.txt", f"{caught.value}\n")


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(DESCRIBED), st.sampled_from(["", ', doc: " "']))
def test_one_that_is_taken_away_is_missed(number: int, instead: str) -> None:
    """number: the line, from 0."""
    lines = MACHINE.split("\n")
    lines[number] = lines[number][: lines[number].index(", doc: ")] + instead + "}"
    with pytest.raises(UserError) as caught:
        require_descriptions(load_text("\n".join(lines), "vta.yaml"))
    (found,) = caught.value.diagnostics
    field = lines[number].partition(":")[0].strip()
    assert found.span
    assert (found.span.line, found.message.split(" of ")[0]) == (number + 1, f"field '{field}'")
