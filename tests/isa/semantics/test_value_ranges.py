"""Bounds of expressions: fields, registers, and facts that conditions add until a name changes."""

import pytest

from tests.tiny_semantics import codes, ranges
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.intervals import Interval
from toolchain.isa.semantics.value_ranges import Known, narrowed, type_bounds
from toolchain.spec import expr as ex
from toolchain.spec.model import ScalarType


def test_registers_hold_what_their_fields_can() -> None:
    assert ranges("x = cfg[0].n\nacc[0][o] = x\n").names["x"] == (1, 16)


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("x = a if a >= 0 else -a\n", (0, 128)),
        ("x = a if 3 < a and a < 7 else 5\n", (4, 6)),
        ("x = a if not a < 100 else 100\n", (100, 127)),
        ("x = a if a == 9 or a == 11 else 10\n", (9, 11)),
        ("x = 8 // a if a != 0 and a > 0 else 1\n", (0, 8)),
        ("x = 1 << min(a, 5) if a >= 0 else 0\n", (0, 32)),
        ("x = (a & 15) - (a & 16)\n", (-16, 15)),
    ],
)
def test_conditions_narrow_what_they_speak_of(text: str, bounds: Interval) -> None:
    assert ranges(text + "acc[0][o] = x\n").names["x"] == bounds


def test_branches_narrow_until_the_name_changes() -> None:
    assert ranges("x = a\nif x >= 0:\n    y = 1 << min(x, 3)\n    one[0] = y\n").names["y"] == (1, 8)
    assert codes("x = a\nif x >= 0:\n    x = x - 1\n    y = 1 << min(x, 3)\n    one[0] = y\n") == ["E0222"]


def test_a_branch_that_cannot_be_taken_is_not_judged() -> None:
    assert ranges("if b > 63:\n    one[0] = 100000\n").names == {}


def test_rounding_keeps_within_the_shifted_bounds() -> None:
    assert ranges("s[o]: i32 = up(m, 4)\nacc[0][o] = s[o]\n").temps["s"] == (-128, 128)
    assert codes("acc[0][o] = up(m, a)\n") == ["E0222"]


def test_known_bounds_of_two_paths_are_joined() -> None:
    x, y = ir.Var("x"), ir.Var("y")
    one = Known({"x": (0, 3)}, {"t": (1, 1)}, {x: (0, 1), y: (5, 5)})
    two = Known({"x": (2, 9), "y": (4, 4)}, {}, {x: (3, 4)})
    assert one.join(two) == Known({"x": (0, 9), "y": (4, 4)}, {"t": (1, 1)}, {x: (0, 4)})


def test_an_assignment_forgets_facts_of_its_name_alone() -> None:
    sum_of_both = ex.Binary("+", ir.Var("x"), ir.Var("y"))
    known = Known(facts={sum_of_both: (0, 1), ir.Var("y"): (2, 2), ir.Temp("x", ("o",)): (3, 3)})
    assert known.with_name("x", (7, 7)).facts == {ir.Var("y"): (2, 2), ir.Temp("x", ("o",)): (3, 3)}
    assert known.with_temp("x", (7, 7)).facts == {sum_of_both: (0, 1), ir.Var("y"): (2, 2)}


@pytest.mark.parametrize(
    ("value", "overflow", "bounds"),
    [((-5, 5), "wrap", (-5, 5)), ((-5, 200), "wrap", (-128, 127)), ((-5, 200), "saturate", (-5, 127)), ((300, 400), "saturate", (127, 127))],
)
def test_narrowed(value: Interval, overflow: str, bounds: Interval) -> None:
    assert narrowed(value, type_bounds(ScalarType(True, 8)), overflow) == bounds
