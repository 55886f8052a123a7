"""Kernels name the extents of pictures alike, whatever the operation calls them."""

from toolchain.operations.library import builtin_kinds
from toolchain.schedule.kernels.picture_numbers import PICTURE, picture_extents, picture_numbers, sum_numbers
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Const, Name
from toolchain.spec.model.quantisation import Numerics, Range

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


def test_sums_lie_between_their_numbers() -> None:
    average, add = (sum_numbers(KINDS[name], Numerics()) for name in ("average_pool", "add"))
    ends = [constant(average[name], {"kh": 3, "kw": 2, "multiply": -5}) for name in ("sum_least", "sum_most")]
    assert ends == [6 * 127 * -5, 6 * -128 * -5]
    ends = [constant(add[name], {"multiply_x": 3, "multiply_z": -2}) for name in ("sum_least", "sum_most")]
    assert ends == [-128 * 3 - 127 * 2, 127 * 3 + 128 * 2]
    stored = sum_numbers(KINDS["add"], Numerics(activation=Range(0, 255)))
    assert constant(stored["sum_most"], {"multiply_x": 3, "multiply_z": -2}) == 255 * 3


def test_sums_that_weights_or_zero_points_move_have_no_such_numbers() -> None:
    assert sum_numbers(KINDS["conv2d"], Numerics()) == sum_numbers(KINDS["add"], Numerics(zero_points=True)) == sum_numbers(KINDS["add"], None) == {}
