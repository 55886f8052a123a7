"""The section costs: terms of one machine by its parameters, and mistakes at their places."""

import pytest

from tests.spec.small import GOOD, edited, small
from toolchain.spec.errors import UserError
from toolchain.spec.fingerprint import fingerprint, section_hashes
from toolchain.spec.load import find_target, load_machine, load_text, read_text

CLOCK = next(line for line in GOOD.splitlines() if "clock_khz:" in line)

TEXT = read_text(find_target("vta")).partition("\ncosts:")[0]


def test_a_peak_may_be_declared_and_counts_as_timing() -> None:
    plain, peak = small(), small((CLOCK, f"{CLOCK}\n  peak_macs: {{value: 4 * 16, source: one block a cycle}}"))
    assert plain.timing.peak_macs is None
    assert (peak.timing.peak_macs, peak.timing.peak_source) == (64, "one block a cycle")
    assert fingerprint(plain) == fingerprint(peak)
    assert section_hashes(plain)["timing"] != section_hashes(peak)["timing"]


def test_a_peak_needs_a_source() -> None:
    with pytest.raises(UserError, match="source"):
        load_text(edited((CLOCK, f"{CLOCK}\n  peak_macs: {{value: 4}}")), "m.yaml")


def with_costs(*lines: str) -> str:
    return "\n".join([TEXT, "costs:", *lines, ""])


def faults(*lines: str) -> str:
    with pytest.raises(UserError) as caught:
        load_text(with_costs(*lines), "m.yaml")
    return str(caught.value)


def test_counts_follow_the_parameters() -> None:
    areas = []
    for block in ("4", "5"):
        costs = load_machine("vta", overrides={"LOG_BLOCK": block}).costs
        assert costs is not None
        areas.append({term.name: term.count for term in costs.area_um2})
    assert [each["multipliers"] for each in areas] == [256, 1024]
    assert areas[0]["sram"] == areas[1]["sram"] == 8 * (2**15 + 2**15 + 2**18 + 2**17)
    assert [each["out_buffer"] for each in areas] == [0, 0]


def test_a_machine_without_the_section_has_no_costs_and_the_same_architecture() -> None:
    bare = load_text(TEXT, "m.yaml")
    assert bare.costs is None
    assert fingerprint(bare) == fingerprint(load_machine("vta"))


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["  area_um2: {a: {each: 1, count: BLOCK - 99, source: s}}"], "E0105 count = -83 is below 0"),
        (["  energy_pj: {a: {each: 1, per: [dram.red], source: s}}"], "E0107 a run has no count 'dram.red'; did you mean 'dram.read'?"),
        (["  area_um2: {a: {each: 1, count: BLOK, source: s}}"], "E0107 unknown name 'BLOK'"),
        (["  area_um2: {a: {each: 1}}"], "E0109 missing key 'source'"),
        (["  area_um2: {a: {each: 0, source: s}}"], "E0116"),
        (["  area_mm2: {a: {each: 1, source: s}}"], "E0108 unknown key 'area_mm2' in costs; did you mean 'area_um2'?"),
        (["  energy_pj: {a: {each: 1, source: s}}"], "E0109 missing key 'per'"),
        (["  {}"], "E0116 this must not be empty"),
    ],
)
def test_mistakes_have_their_place(lines: list[str], told: str) -> None:
    found = faults(*lines)
    assert told in found
    assert found.startswith("m.yaml:")


def test_assumed_terms_are_assumptions() -> None:
    assert any(text.startswith("costs.area_um2.sram: a cell of") for text in load_machine("vta").assumptions)
