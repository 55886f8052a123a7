"""Where bits stand: parts of fields, unused bits, patterns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.coded_machine import coded_machine
from toolchain.isa.binary.packing import matched_value, parts, pattern, unused
from toolchain.spec.load import load_machine
from toolchain.spec.model import Field


@given(st.integers(0, 120), st.integers(1, 63), st.sampled_from([8, 16, 32, 64]), st.integers(0))
def test_parts_reassemble_any_field(lsb: int, bits: int, word_bits: int, noise: int) -> None:
    found = parts(Field("f", lsb, bits), word_bits)
    value = sum((noise >> (p.word * word_bits) >> p.shift & p.mask) << p.up for p in found)
    assert value == noise >> lsb & ((1 << bits) - 1)
    assert all(p.shift + p.mask.bit_length() <= word_bits for p in found)


@pytest.mark.parametrize("word_bits", [8, 16, 32, 64])
def test_unused_bits_are_those_without_a_field(word_bits: int) -> None:
    gemm = load_machine("vta").instruction["GEMM"]
    free = sum(mask << at * word_bits for at, mask in enumerate(unused(gemm, word_bits)))
    assert free == 1 << 63


def test_a_pattern_joins_all_matched_fields() -> None:
    mirror = coded_machine().instruction["MIRROR"]
    assert pattern(mirror, 16) == {0: (0b1_1000_0111, 0b1_1000_0001)}


def test_matched_values_are_values_not_bits() -> None:
    mirror = coded_machine().instruction["MIRROR"]
    assert matched_value(mirror, mirror.field("mode")) == 3
