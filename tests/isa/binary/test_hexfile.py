"""Hex text: strict, with places."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.isa.binary.hexfile import read_hex, write_hex
from toolchain.spec.errors import Source, UserError


@given(st.lists(st.binary(min_size=4, max_size=4)))
def test_reading_undoes_writing(words: list[bytes]) -> None:
    data = b"".join(words)
    assert read_hex(Source("p.hex", write_hex(data))) == data


def test_word_order() -> None:
    assert write_hex(bytes([1, 2, 3, 4, 0xFF, 0, 0, 0])) == "04030201\n000000ff\n"
    assert read_hex(Source("p.hex", "04030201\r\n000000FF")) == bytes([1, 2, 3, 4, 0xFF, 0, 0, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("00000000\n0x000001\n", "p.hex:2:2: E0310 '0x000001' is not a word; write eight hexadecimal digits"),
        ("00000000\n\n00000001\n", "p.hex:2:1: E0310 '' is not a word; write eight hexadecimal digits"),
        ("\n", "p.hex:1:1: E0310 '' is not a word; write eight hexadecimal digits"),
        ("0000000\n", "p.hex:1:8: E0310 '0000000' is not a word; write eight hexadecimal digits"),
        ("000000001\n", "p.hex:1:9: E0310 '000000001' is not a word; write eight hexadecimal digits"),
        ("00000000 \n", "p.hex:1:9: E0310 '00000000 ' is not a word; write eight hexadecimal digits"),
        ("0000000٣\n", "p.hex:1:8: E0310 '0000000٣' is not a word; write eight hexadecimal digits"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        read_hex(Source("p.hex", text))
    assert [d.headline() for d in caught.value.diagnostics] == [message]


def test_only_whole_words_can_be_written() -> None:
    with pytest.raises(UserError, match=r"p\.hex: E0311 the program has 6 bytes, not a multiple of 4"):
        write_hex(bytes(6), "p.hex")
