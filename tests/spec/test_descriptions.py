"""Descriptions of a machine's parts: what lacks one is named at its place, and no machine of ours lacks any."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.spec.descriptions import require_descriptions
from toolchain.spec.errors import UserError
from toolchain.spec.load import list_targets, load_machine, load_text, read_text

ROOT = Path(__file__).resolve().parents[2]
GOOD = (ROOT / "tests" / "golden" / "machine_faults" / "good.yaml").read_text()
MACHINE = read_text(ROOT / "targets" / "vta.yaml")
DESCRIBED = [k for k, line in enumerate(MACHINE.split("\n")) if line.startswith("        ") and ", doc: " in line]
"""Lines of fields, each with one description, at their end."""


@pytest.mark.parametrize("name", list_targets())
def test_every_machine_is_described_in_every_configuration(name: str) -> None:
    for config in ("", *load_machine(name).configs):
        require_descriptions(load_machine(name, config))


def test_what_lacks_a_description_is_told(golden: Callable[[str, str], None]) -> None:
    with pytest.raises(UserError) as caught:
        require_descriptions(load_text(GOOD, "small.yaml"))
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
