"""The text of endings; tests/graph/integers/test_integer_functions.py holds their results against the reference."""

import re

import numpy as np
import pytest
from onnx import parser

from toolchain.graph.integers.endings import centred_text, ending_text, with_operands
from toolchain.graph.running.session import open_session, run_session
from toolchain.operations.ending import twice_rounded
from toolchain.operations.library import builtin_kinds
from toolchain.spec.model.quantisation import FirstRounding, Numerics, Range

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
