"""Levels, types, memories and units as the machine holds them.

Views: every memory's own, and other ways to look at its bytes.
"""

import pytest

from tests.spec.small import small
from toolchain.spec.errors import UserError


def test_memories() -> None:
    memory = small(("type: row_t, depth: 64", "type: row_t, banks: 3, depth: 64 if bank < 2 else 16")).memory["rows"]
    assert (memory.depths, memory.banks, memory.bytes, memory.granule) == ((64, 64, 16), 3, 576, 4)
    assert small().memory["base"].names == ("in", "out")


def test_levels_and_streams() -> None:
    machine = small()
    assert (machine.streams, machine.instances("core"), machine.instances("device")) == (2, 2, 1)


def test_a_record() -> None:
    element = small().memory["codes"].element
    assert [(f.name, f.lsb, str(f.type)) for f in element.record] == [("dst", 0, "u4"), ("src", 4, "u4")]
    assert element.bytes == 2


def test_a_memory_that_a_configuration_lacks() -> None:
    extra = "  spare: {kind: scratchpad, type: row_t, depth: 4, present: MODE == MODE.exact}\n  base: {"
    edits = (("  base: {", extra), ("writes: [rows, codes, ddr]", "writes: [rows, codes, ddr, spare]"))
    assert "spare" not in small(*edits).memory
    assert small(*edits).units[0].writes == ("rows", "codes", "ddr")
    assert small(*edits, overrides={"MODE": "exact"}).units[0].writes == ("rows", "codes", "ddr", "spare")


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("core: {count: 2,", "core: {count: 0,", "E0139"),
        ("core: {count: 2,", "core: {count: 1 << 20,", "E0139"),
        ("type: row_t, depth: 64", "type: row_t, banks: 5000, depth: 64", "E0139"),
        ("type: row_t, depth: 64", "type: row_t, granule: 0 - 4, depth: 64", "E0139"),
        ("depth: 2, host: true", "depth: 1, host: true", "E0139"),
        ("src: u4, bits: 16", "src: u4, bits: 12", "E0110"),
        ("src: u4, bits: 16", "src: u65, bits: 16", "E0110"),
        ("row_t: i8[LANES]", "row_t: 'f12[LANES]'", "E0110"),
        ("row_t: i8[LANES]", "row_t: i8[LANES - 4]", "E0110"),
        ("type: row_t, depth: 64", "type: row_t, latches: SETUP, depth: 64", "E0137"),
        ("scope: core, latches: SETUP", "scope: core, latches: [SETUP, SETPU]", "E0107"),
        ("ddr.row: {type: row_t}", "base.row: {type: row_t}", "E0137"),
        ("ddr.row: {type: row_t}", "ddr.row: {type: row_t, unit: 0}", "E0139"),
        ("ddr.row: {type: row_t}", "drd.row: {type: row_t}", "E0107"),
        ("depth: 1 << 16", "depth: 1 << 16, granule: 8", "E0139"),
    ],
)
def test_refused(old: str, new: str, code: str) -> None:
    with pytest.raises(UserError) as caught:
        small((old, new))
    assert code in [d.code for d in caught.value.diagnostics]


def test_every_memory_but_a_register_has_its_own_view() -> None:
    machine = small()
    assert {m.name for m in machine.memories if m.kind != "register"} <= machine.view.keys()
    assert "base" not in machine.view
    assert (machine.view["rows"].unit, machine.view["rows"].offsets) == (4, (0, 1, 2, 3))


def test_a_view_steps_by_its_own_element_in_dram_and_by_the_memorys_elsewhere() -> None:
    machine = small()
    assert machine.view["ddr.row"].unit == 4
    assert machine.view["rows.turned"].unit == 4
    assert small(("ddr.row: {type: row_t}", "ddr.row: {type: row_t, unit: 2}")).view["ddr.row"].unit == 2


@pytest.mark.parametrize("text", ["a b -> b", "a b -> b * 2 + a + 1", "a b -> b, a", "a -> a"])
def test_every_stored_element_has_one_source(text: str) -> None:
    with pytest.raises(UserError, match="E0112"):
        small(("a b -> b * 2 + a", text))
