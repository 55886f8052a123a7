"""The table for a terminal."""

import numpy as np

from tests.report.profile.measured import profile, region
from toolchain.report.profile.beside import beside, measured_spans
from toolchain.report.profile.text import SHOWN, profile_text


def test_a_table_of_operations_and_the_largest_deviations() -> None:
    late = np.arange(len(region().timeline.program)) * 10.0
    given = profile(late)
    found = beside(given, measured_spans(given, given.events, region()), region())
    lines = profile_text(found).splitlines()
    count = len(region().timeline.program)
    assert lines[0].startswith(
        f"region0 on vta: {count} of {count} instructions measured; {found.measured:,.0f} cycles, {found.modelled:,.0f} by the model"
    )
    assert lines[2].split() == ["operation", "measured", "modelled", "cycles", "ratio", "starts", "later", "stalls"]
    assert [line.split()[0] for line in lines[3:5]] == ["conv1", "conv2"]
    assert lines[6].startswith("largest deviations")
    assert lines[-1] == f"and {len(found.deviations) - SHOWN} more"
    lost = [float(line.split()[-1]) for line in lines[7 : 7 + SHOWN]]
    assert lost == sorted(lost, reverse=True)


def test_a_device_as_quick_as_the_model() -> None:
    given = profile(7.0, ends=False)
    text = profile_text(beside(given, measured_spans(given, given.events, region()), region()))
    assert "measured, starts alone;" in text
    assert "its clock shows 7 at the model's 0" in text
    assert text.endswith("\nall start when the model says\n")
