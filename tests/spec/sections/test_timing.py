import pytest

from tests.spec.small import GOOD, edited, small
from toolchain.spec.errors import UserError
from toolchain.spec.fingerprint import fingerprint, section_hashes
from toolchain.spec.load import load_text

CLOCK = next(line for line in GOOD.splitlines() if "clock_khz:" in line)


def test_a_peak_may_be_declared_and_counts_as_timing() -> None:
    plain, peak = small(), small((CLOCK, f"{CLOCK}\n  peak_macs: {{value: 4 * 16, source: one block a cycle}}"))
    assert plain.timing.peak_macs is None
    assert (peak.timing.peak_macs, peak.timing.peak_source) == (64, "one block a cycle")
    assert fingerprint(plain) == fingerprint(peak)
    assert section_hashes(plain)["timing"] != section_hashes(peak)["timing"]


def test_a_peak_needs_a_source() -> None:
    with pytest.raises(UserError, match="source"):
        load_text(edited((CLOCK, f"{CLOCK}\n  peak_macs: {{value: 4}}")), "m.yaml")
