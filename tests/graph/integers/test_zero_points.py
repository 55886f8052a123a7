"""Bodies on tensors with zeros of their own; tests/graph/integers/test_integer_functions.py holds their results against the reference."""

from toolchain.graph.integers.numerics import Numerics, Range
from toolchain.graph.integers.zero_points import centred_text, with_operands

BYTES = Numerics(zero_points=True, activation=Range(0, 255))


def test_only_whole_names_in_the_operands_of_a_line_change() -> None:
    body = "  x1 = Cast <to = 6> (x)\n  axes = Constant <x: ints = @x> ()\n  r = Add (x1, x)"
    assert with_operands(body, {"x": "x_small"}) == "  x1 = Cast <to = 6> (x_small)\n  axes = Constant <x: ints = @x> ()\n  r = Add (x1, x_small)"


def test_a_linear_body_stands_once_for_each_choice_of_integers_and_zeros() -> None:
    one = centred_text("  products = ConvInteger <pads: ints = @pads> (x, weight)", ("x",), BYTES)
    assert one.count("ConvInteger") == 2
    assert "sum1 = Sub (part0_products, part1_products)" in one
    two = centred_text("  products = MatMulInteger (x, z)", ("x", "z"), BYTES)
    assert two.count("MatMulInteger") == 4
    assert "sum3 = Add (sum2, part3_products)" in two


def test_any_other_body_gets_the_integers_less_their_zero() -> None:
    text = centred_text("  products = Mul (x, z)", ("x", "z"), BYTES)
    assert text.endswith("  products = Mul (x_centred, z_centred)")
