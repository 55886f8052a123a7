"""Places and constants of a step follow from its instructions. Elements of a place are called with a row, a column and the like."""

import pytest

from toolchain.schedule.kernels.kernel import Element, Step
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.kernel_names import Scene
from toolchain.spec.errors import UserError
from toolchain.spec.expr import Binary, Const, Name
from toolchain.spec.load import load_machine

SCENE = Scene(
    {"x": "fm"}, frozenset({"window"}), {"x_word": Element(("row", "column"), Binary("+", Name("row"), Binary("*", Name("column"), Name("x_pixel"))))}
)


def step(machine: str, kernel: str, kind: str, place: str, number: int = 0) -> Step:
    return [s for s in load_kernels(load_machine(machine))[kernel].steps if (s.kind, s.place) == (kind, place)][number]


def test_places_come_in_the_order_in_which_instructions_name_them() -> None:
    assert step("dnnvm", "conv2d", "compute", "y").uses == ("x", "w", "bias")
    assert step("dpuv3", "add", "compute", "y").uses == ("x", "z")


def test_a_constant_brings_the_places_of_its_records() -> None:
    found = step("vta", "conv2d", "compute", "y")
    assert (len(found.constants), found.uses) == (1, ("x", "w"))


def test_constants_come_in_the_kernels_order() -> None:
    kernel = load_kernels(load_machine("vta"))["overlapping_max_pool"]
    known, found = [constant.name for constant in kernel.constants], step("vta", "overlapping_max_pool", "compute", "y").constants
    assert len(found) == 5
    assert list(found) == [name for name in known if name in found]


def test_a_step_without_others_uses_none() -> None:
    assert step("dnnvm", "conv2d", "load", "w").uses == ()
    assert step("dnnvm", "conv2d", "store", "y").constants == ()


def test_a_sequence_acts_on_the_place_that_it_is_given() -> None:
    """dpuv3 convolves what it has loaded, or a copy for strides."""
    plain, copied = (step("dpuv3", "depthwise", "compute", "y", number).uses for number in (0, 1))
    assert ("x" in plain, "t" in plain) == (True, False)
    assert ("x" in copied, "t" in copied) == (False, True)


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
