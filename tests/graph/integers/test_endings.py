"""The text of endings; tests/graph/integers/test_integer_functions.py holds their results against the reference.

The fraction that stands for an average is the best of all that fit its bits.
"""

import re
from fractions import Fraction as Ratio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import parser

from toolchain.graph.integers.endings import average_fraction, centred_text, ending_text, with_operands
from toolchain.graph.session import open_session, run_session
from toolchain.operations.ending import twice_rounded
from toolchain.operations.library import builtin_kinds
from toolchain.spec.model.quantisation import AverageRule, FirstRounding, Fraction, Numerics, Range


@given(st.integers(1, 40), st.integers(1, 40), st.integers(4, 16))
def test_no_fraction_of_as_many_bits_is_nearer(height: int, width: int, bits: int) -> None:
    found = average_fraction(AverageRule(bits=bits), height, width)
    wanted = Ratio(1, height * width)
    assert 0 < found.numerator < 2 ** (bits - 1)
    error = abs(Ratio(found.numerator, 2**found.shift) - wanted)
    assert all(abs(Ratio(m, 2**s) - wanted) >= error for s in range(found.shift + 8) for m in _around(wanted, s) if 0 < m < 2 ** (bits - 1))


def _around(wanted: Ratio, shift: int) -> tuple[int, int]:
    below = int(wanted * 2**shift)
    return below, below + 1


@pytest.mark.parametrize(("size", "wanted"), [((3, 3), Fraction(7, 6)), ((3, 4), Fraction(85, 10))])
def test_the_table_goes_first(size: tuple[int, int], wanted: Fraction) -> None:
    assert average_fraction(AverageRule(((3, 3, Fraction(7, 6)),)), *size) == wanted


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


NUMERICS = Numerics(form="multiplier", multiplier_bits=31, rounding="half_away", first_rounding=FirstRounding(31, "half_up"))


def test_no_limit_is_taken_of_an_int64() -> None:
    """ONNX Runtime's Min, Max and Clip of int64 compare 32 bits on some processors."""
    text = ending_text(builtin_kinds()["add"], NUMERICS, leaky=False, behind=0)
    assert "Min (" not in text
    assert "Max (" not in text
    assert text.index("real = Cast <to = 11>") < text.index("Clip (real")


@pytest.mark.parametrize("shift", [0, 1, 31, 32, 62])
def test_sums_and_products_of_all_sizes(shift: int) -> None:
    """From 1 to 62 bits of both signs, around powers of two."""
    powers = 2 ** np.arange(31, dtype=np.int64)
    total = np.concatenate([powers, powers - 1, powers + 1, -powers, 1 - powers, -1 - powers])
    for multiplier in (1, 2**30, 2**31 - 1):
        given = {"multiplier": multiplier, "shift": shift, "low": -128, "high": 127}
        text = ending_text(builtin_kinds()["add"], NUMERICS, leaky=False, behind=0)
        body = re.sub(r"value_int: int = @(\w+)", lambda found, given=given: f"value_int = {given[found[1]]}", text)
        model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\nagraph (int64[N] total) => (int8[N] y) {{ {body} }}')
        found = run_session(open_session(model.SerializeToString()), {"total": total})["y"]
        np.testing.assert_array_equal(found, np.clip(twice_rounded(total * multiplier, np.int64(shift), NUMERICS), -128, 127))
