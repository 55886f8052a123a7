"""Names in expressions about instructions."""

import pytest

from tests.spec.small import small
from tests.spec.test_evaluate import parse
from toolchain.spec.checks.scope import problems, scope_of


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("count + kind", []), ("set.shift", []), ("base[kind]", []), ("base[knd]", ["E0107"]), ("reads(ddr)", []), ("reads(dd)", ["E0107"]),
        ("reads(ddr, rows)", ["E0123"]), ("set.shft", ["E0107"]), ("sat.shift", ["E0107"]), ("rows[0]", ["E0121"]), ("f(count)", ["E0107"]),
        ("count(1)", ["E0107"]), ("set.shift()", ["E0121"]), ("min()", ["E0123"]), ("abs(1, 2)", ["E0123"]), ("a + b", ["E0107", "E0107"]),
        ("set[nothing].shift", ["E0107"]),
    ],
)  # fmt: skip
def test_problems(text: str, codes: list[str]) -> None:
    machine = small()
    scope = scope_of(machine, machine.instruction["MOVE"], footprint=True)
    assert [d.code for d in problems(parse(text), scope)] == codes


def test_footprints_are_known_to_timing_alone() -> None:
    machine = small()
    assert [d.code for d in problems(parse("reads(ddr)"), scope_of(machine, machine.instruction["MOVE"]))] == ["E0107"]
