"""Sections operators, fusion and pipeline: read with parameters in place, printed, hashed, without effect on programs."""

from tests.spec.small import GOOD, small
from toolchain.spec.diff import diff
from toolchain.spec.fingerprint import fingerprint, section_hashes
from toolchain.spec.load import load_text
from toolchain.spec.render import render
from toolchain.spec.unparse import unparse

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
