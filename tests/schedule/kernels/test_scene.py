"""Elements of a place are called with a row, a column and the like."""

import pytest

from toolchain.schedule.kernels.kernel import Element
from toolchain.schedule.kernels.scene import Scene
from toolchain.spec.errors import UserError
from toolchain.spec.expr import Binary, Const, Name

SCENE = Scene(
    {"x": "fm"}, frozenset({"window"}), {"x_word": Element(("row", "column"), Binary("+", Name("row"), Binary("*", Name("column"), Name("x_pixel"))))}
)


def test_a_call_stands_for_its_expression() -> None:
    found = SCENE.element("x_word", (Name("r"), Const(3)), None)
    assert found == Binary("+", Name("r"), Binary("*", Const(3), Name("x_pixel")))


def test_members_are_numbers_of_places_and_ends_of_constants() -> None:
    assert SCENE.member("x", "pixel", {}, None) == Name("x_pixel")
    assert SCENE.member("window", "first", {}, None) == Name("window.first")
    assert SCENE.member("x", "memory", {"fm": 4}, None) == Const(4)


@pytest.mark.parametrize(
    ("name", "count", "message"), [("x_wort", 2, "did you mean 'x_word'"), ("x_word", 1, r"E0123 x_word takes 2 arguments \(row, column\), not 1")]
)
def test_wrong_calls_are_told(name: str, count: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        SCENE.element(name, (Const(0),) * count, None)


def test_a_field_without_a_word_for_the_memory_is_told() -> None:
    with pytest.raises(UserError, match="E1002 'x' stands in 'fm', and no value of a field is called so here"):
        SCENE.member("x", "memory", {"pm": 1}, None)
