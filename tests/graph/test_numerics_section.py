"""The section of a machine's file becomes numerics; what makes no sense is refused with its place."""

import pytest

from toolchain.graph.numerics import AverageRule, Fraction, Numerics, Range
from toolchain.graph.numerics_section import read_numerics
from toolchain.spec.errors import Source, UserError
from toolchain.spec.yaml_nodes import parse_yaml

SHORT = """weight: [-127, 127]
activation: [-128, 127]
bias: [-2147483648, 2147483647]
scale: power_of_two
rounding: half_up
shift: [0, 31]
"""


def test_the_shortest_section_is_the_default() -> None:
    assert read_numerics(parse_yaml(Source("m.yaml", SHORT))) == Numerics()


def test_a_full_section() -> None:
    text = SHORT.replace("power_of_two", "multiplier") + (
        "per_channel: true\nmultiplier_bits: 15\norder: shift_first\nbias_shift: [0, 16]\nalign: [0, 6]\naccumulator_bits: 24\n"
        "average: {bits: 9, table: {3x3: [7, 6], 3x6: [7, 8]}}\nleaky: [26, 8]\none_scale: [add]\n"
    )
    found = read_numerics(parse_yaml(Source("m.yaml", text)))
    assert found.average == AverageRule(((3, 3, Fraction(7, 6)), (3, 6, Fraction(7, 8))), 9)
    assert (found.form, found.per_channel, found.multiplier_bits, found.order) == ("multiplier", True, 15, "shift_first")
    assert (found.bias_shift, found.align, found.accumulator_bits, found.leaky) == (Range(0, 16), Range(0, 6), 24, Fraction(26, 8))
    assert set(found.one_scale) == {"concat", "max_pool", "pad", "upsample", "flatten", "add"}


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("rounding: half_up", "rounding: half_upp", "E0116"),
        ("shift: [0, 31]", "shift: [31, 0]", "m.yaml:6:8: E0116 'shift' must be [least, greatest], from 0 to 63"),
        ("weight: [-127, 127]", "weight: [1, 127]", "m.yaml:1:9: E0116 'weight' must be [least, greatest], around zero, within 8 bits"),
        ("weight: [-127, 127]", "weight: [-127, 128]", "E0116 'weight'"),
        ("weight: [-127, 127]", "weight: 3", "m.yaml:1:9: E0116"),
        ("scale: power_of_two\n", "", "E0109 missing key 'scale'"),
        ("scale:", "scales:", "E0108 unknown key 'scales'"),
    ],
)
def test_what_makes_no_sense_is_refused(before: str, after: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        read_numerics(parse_yaml(Source("m.yaml", SHORT.replace(before, after))))
    assert words in str(caught.value)
