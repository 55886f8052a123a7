"""Sections numerics, program and host.

Sections operators, fusion and pipeline: read with parameters in place, printed, hashed, without effect on programs.
"""

import pytest

from tests.spec.small import GOOD, small
from toolchain.spec.errors import UserError
from toolchain.spec.fingerprint import fingerprint, section_hashes
from toolchain.spec.load import load_text
from toolchain.spec.render import diff, render, unparse


def test_container_follows_the_streams() -> None:
    assert small((", container: object", "")).program.container == "object"
    assert small((", container: object", ""), ("count: 2, streams", "count: 1, streams")).program.container == "raw"
    with pytest.raises(UserError, match="E0116 several streams"):
        small(("container: object", "container: raw"))


def test_host_costs_have_sources() -> None:
    host = small().host
    assert host is not None
    assert (host.gmac_per_s["default"].value, host.launch_us.value, host.gb_per_s.source) == (1.5, 10.0, "measured")


@pytest.mark.parametrize("low", ["-129", "128"])
def test_saturation_limits_lie_in_the_type(low: str) -> None:
    with pytest.raises(UserError, match="E0105 low"):
        small(("low: -127", f"low: {low}"))
    with pytest.raises(UserError, match="E0105 low = 5 is above high = 3"):
        small(("low: -127", "low: 5, high: 3"))


SECTIONS = """operators:
  conv2d:
    - {that: kh <= LANES * 4, message: the kernel is too large}
fusion:
  - {name: sum, computes: add, pattern: {op: Add, inputs: [x, z]}}
pipeline:
  - fold_constants
  - fuse: {keep: [add]}
"""


def test_conditions_have_parameters_in_place() -> None:
    (condition,) = load_text(GOOD + SECTIONS, "m.yaml").operators["conv2d"]
    assert (unparse(condition.that), condition.message) == ("kh <= 16", "the kernel is too large")


def test_they_are_printed_compared_and_hashed_but_are_no_architecture() -> None:
    plain, full = small(), load_text(GOOD + SECTIONS, "m.yaml")
    assert fingerprint(plain) == fingerprint(full)
    assert set(section_hashes(full)) - set(section_hashes(plain)) == {"operators", "fusion", "pipeline"}
    data = render(full)
    assert data["pipeline"] == ["fold_constants", {"fuse": {"keep": ["add"]}}]
    assert data["fusion"][0]["pattern"] == {"op": "Add", "inputs": ["x", "z"]}
    assert "operators.conv2d[0].that: (nothing) -> kh <= 16" in diff(plain, full)


def test_places_are_kept_for_whoever_reads_them() -> None:
    pipeline = load_text(GOOD + SECTIONS, "m.yaml").pipeline
    assert pipeline is not None
    assert pipeline.node.children()[1].span.line == GOOD.count("\n") + 8
