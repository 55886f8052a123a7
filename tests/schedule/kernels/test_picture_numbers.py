"""Kernels name the extents of pictures alike, whatever the operation calls them."""

from toolchain.operations.library import builtin_kinds
from toolchain.schedule.kernels.picture_numbers import PICTURE, picture_extents, picture_numbers
from toolchain.spec.expr import Const, Name

KINDS = builtin_kinds()


def test_what_an_operation_lacks_is_named() -> None:
    found = picture_numbers(KINDS["add"])
    assert found == {"in_channels": Name("channels"), "out_channels": Name("channels"), "out_height": Name("height"), "out_width": Name("width")}
    assert picture_numbers(KINDS["conv2d"]) == {}


def test_numbers_are_the_extents_of_the_picture() -> None:
    for kind in KINDS.values():
        for name, expr in picture_numbers(kind).items():
            assert name not in kind.numbers
            assert expr == Const(1) or (isinstance(expr, Name) and expr.id in kind.numbers)


def test_rows_of_a_sequence_have_their_channels_behind() -> None:
    found = picture_extents(KINDS["dense"].operand["x"])
    assert list(found) == list(PICTURE)
    assert picture_extents(KINDS["concat"].operands[0]) == {}
