"""How values are spelled: what is written is read again; a line gives its values, or every fault with the number of its token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.coded_machine import coded_machine
from toolchain.isa.assembly_line import Faults, LineReader, TokenError, TokenMemo, forms, read_value, write_value
from toolchain.spec.model import Field

FIELDS = st.builds(
    Field,
    name=st.just("f"),
    lsb=st.just(0),
    bits=st.integers(1, 62),
    signed=st.booleans(),
    minus=st.integers(-3, 3),
    radix=st.sampled_from([2, 10, 16]),
    names=st.dictionaries(st.sampled_from(["low", "high", "x"]), st.integers(-4, 4)),
)


@given(FIELDS, st.integers(0, (1 << 62) - 1))
def test_reading_undoes_writing(field: Field, number: int) -> None:
    value = field.low + number % (field.high - field.low + 1)
    assert read_value(field, write_value(field, value)) == value


@given(FIELDS, st.one_of(st.text(max_size=8), st.text(alphabet="01x-+bfF", max_size=8)))
def test_any_text_is_a_value_in_range_or_refused(field: Field, text: str) -> None:
    try:
        value = read_value(field, text)
    except TokenError:
        return
    assert text in field.names or field.low <= value <= field.high


@pytest.mark.parametrize(
    ("radix", "value", "text"), [(10, -5, "-5"), (16, 255, "0xff"), (16, -255, "-0xff"), (2, 5, "00000101"), (2, -5, "-00000101"), (10, 3, "three")]
)
def test_canonical_spelling(radix: int, value: int, text: str) -> None:
    assert write_value(Field("f", 0, 8, signed=True, radix=radix, names={"three": 3}), value) == text


def test_forms_state_positional_fields_first_and_no_matched_ones() -> None:
    move = forms(coded_machine(pairs=True))["MOVE"]
    assert [f.name for f in move.fields] == ["wait", "post", "side", "flags", "where", "step", "count"]
    assert (move.positional, move.pairs) == (2, True)
    assert (forms(coded_machine())["MOVE"].positional, forms(coded_machine())["MOVE"].pairs) == (0, False)


def test_a_memo_asks_once() -> None:
    asked: list[str] = []

    def answer(key: str) -> int:
        asked.append(key)
        return len(key)

    memo = TokenMemo(answer)
    assert [memo["a"], memo["bc"], memo["a"]] == [1, 2, 1]
    assert asked == ["a", "bc"]


PLAIN = LineReader(forms(coded_machine())["SET"])
PAIRS = LineReader(forms(coded_machine(pairs=True))["SET"])


@pytest.mark.parametrize("text", ["SET wait=1 kernel=3 shift=-4", "SET shift=-4 kernel=3 wait=1 post=0"])
def test_assigned(text: str) -> None:
    faults: Faults = []
    assert (PLAIN.read(text.split(), faults), faults) == ([1, 0, 3, -4], [])


@pytest.mark.parametrize("text", ["SET 1 0 kernel 3 shift -4", "SET 1 shift -4 kernel 3", "SET wait 1 kernel=3 shift=-4"])
def test_pairs(text: str) -> None:
    faults: Faults = []
    assert (PAIRS.read(text.split(), faults), faults) == ([1, 0, 3, -4], [])


@pytest.mark.parametrize(
    ("reader", "text", "expected"),
    [
        (PLAIN, "SET kernel=99 shit=3 kernel=1", [(1, "E0304", 7), (2, "E0302", 0)]),
        (PLAIN, "SET kernel=1 kernel=1 shift=0", [(2, "E0306", 0)]),
        (PLAIN, "SET", [(0, "E0305", 0)]),
        (PAIRS, "SET 1 0 kernel 99 shift", [(4, "E0304", 0), (5, "E0307", 0)]),
        (PAIRS, "SET 1 0 kernl 9 shift 1 kernel 1 kernel 1", [(3, "E0302", 0), (9, "E0306", 0)]),
    ],
)
def test_faults(reader: LineReader, text: str, expected: list[tuple[int, str, int]]) -> None:
    faults: Faults = []
    reader.read(text.split(), faults)
    assert [(token, error.code, error.offset) for token, error in faults] == expected


def test_a_token_that_came_before_is_not_read_again_wrongly() -> None:
    faults: Faults = []
    for _ in range(2):
        PLAIN.read(["SET", "kernel=0", "shift=0"], faults)
    assert [(token, error.code) for token, error in faults] == [(1, "E0304")] * 2
