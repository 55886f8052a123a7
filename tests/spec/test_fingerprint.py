"""The fingerprint follows what programs depend on, and nothing else."""

import pytest

from tests.spec.small import small
from toolchain.spec.fingerprint import fingerprint, section_hashes

SAME = [
    ("policy: fifo", "policy: fair"),
    ("value: 100000", "value: 200000"),
    ('summary: "a small machine', 'summary: "another machine'),
    ("          k = codes[i]", "          k = codes[i]  # one code each"),
    ("launch_us: {value: 10", "launch_us: {value: 11"),
    ("type: code_t, depth: 16", "type: code_t, hazard: warning, depth: 16"),
    ("type: code_t, depth: 16", "type: code_t, transient: true, depth: 16"),
]
STABLE = "e1ccc4ab14b1ad625faccc5454461914870818ef24929f69c8cb6e5b6e273eac"
"""Of the small machine; it may change only together with what a fingerprint means."""
OTHER = [
    ("range: [1, 16]", "range: [1, 32]", False),
    ("value: 4, range", "value: 6, range", True),
    ("match: {opcode: 3}", "match: {opcode: 4}", True),
    ("twice(3)", "twice(2)", True),
    ("type: code_t, depth: 16", "type: code_t, depth: 8", True),
    ("rounding: half_up", "rounding: half_even", True),
    ("writes: [rows, sums]", "writes: [sums, rows]", True),
]


@pytest.mark.parametrize(("old", "new"), SAME)
def test_does_not_change(old: str, new: str) -> None:
    assert fingerprint(small((old, new))) == fingerprint(small())


@pytest.mark.parametrize(("old", "new", "changes"), OTHER)
def test_changes(old: str, new: str, changes: bool) -> None:
    assert (fingerprint(small((old, new))) != fingerprint(small())) == changes


def test_parameters_count_only_where_semantics_name_them() -> None:
    assert fingerprint(small(overrides={"MODE": "exact"})) == fingerprint(small())
    named = ("      for i in range(count):\n          k =", "      for i in range(count + MODE):\n          k =")
    assert fingerprint(small(named, overrides={"MODE": "exact"})) != fingerprint(small(named))


def test_it_is_stable() -> None:
    assert fingerprint(small()) == STABLE


def test_sections() -> None:
    one, other = section_hashes(small()), section_hashes(small(("value: 100000", "value: 200000")))
    assert {name for name in one if one[name] != other[name]} == {"timing"}
