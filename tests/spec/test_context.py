"""Expressions of a machine file, read with its parameters in place.

Names in expressions about instructions.
"""

from collections.abc import Iterator, Mapping

import pytest

from tests.spec.small import nodes, small
from tests.spec.test_evaluate import parse
from toolchain.spec.context import Context, problems, scope_of
from toolchain.spec.errors import UserError
from toolchain.spec.expr import Binary, Const, Name

FILE = nodes("a: LANES * 2\nb: field + LANES\nc: MODE == MODE.exact\nd: 7\ne: field\n")
CONTEXT = Context(FILE, "", {"LANES": 4, "MODE": 1}, {"MODE": ("fast", "exact")})


def test_numbers() -> None:
    assert [CONTEXT.number(FILE.value[key]) for key in "acd"] == [8, 1, 7]
    assert CONTEXT.number(FILE.value["e"], {"field": 3}) == 3
    assert CONTEXT.with_names({"field": 5}).number(FILE.value["b"]) == 9


def test_other_names_stay_in_expressions() -> None:
    assert CONTEXT.expr(FILE.value["b"]) == Binary("+", Name("field"), Const(4))
    assert CONTEXT.expr(FILE.value["a"]) == Const(8)
    assert CONTEXT.optional(None, 3) == Const(3)


def test_a_number_needs_every_name() -> None:
    with pytest.raises(UserError, match=r"t\.yaml:5:4: E0107 unknown name 'field'"):
        CONTEXT.number(FILE.value["e"])


class _LookedUp(Mapping[str, int]):
    """Names that may be looked up one by one, never walked through: a file with n names has n expressions at least."""

    def __getitem__(self, name: str) -> int:
        return {"LANES": 4, "MODE": 1}[name]

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all names were walked through for one expression")

    def __len__(self) -> int:
        return 2


def test_an_expression_costs_what_it_names() -> None:
    context = Context(FILE, "", _LookedUp(), CONTEXT.choices)
    assert context.number(FILE.value["a"]) == 8
    assert context.expr(FILE.value["b"]) == Binary("+", Name("field"), Const(4))


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
