"""Type texts: what they spell, and what is refused."""

import pytest

from toolchain.spec.errors import Source, Span, UserError
from toolchain.spec.model import ElementType, ScalarType
from toolchain.spec.model.types import F16, parse_element, parse_scalar

NAMES = {"WIDTH": 16, "LANES": 4}


def locate(line: int, column: int) -> Span:
    return Span(Source("t.yaml", ""), line, column + 1)


def refused(text: str) -> str:
    with pytest.raises(UserError) as caught:
        parse_element(text, NAMES, locate, {"row_t": ElementType(ScalarType(True, 8), (4,))})
    return caught.value.diagnostics[0].headline()


@pytest.mark.parametrize(
    ("text", "signed", "bits", "dims"),
    [("i8", True, 8, ()), ("u(WIDTH * 2)", False, 32, ()), ("i(WIDTH)[LANES]", True, 16, (4,)), ("u64[2, LANES // 2]", False, 64, (2, 2))],
)
def test_elements(text: str, signed: bool, bits: int, dims: tuple[int, ...]) -> None:
    assert parse_element(text, NAMES, locate) == ElementType(ScalarType(signed, bits), dims)


def test_fields_of_a_record_may_have_odd_widths() -> None:
    assert parse_scalar("u11", NAMES, locate, stored=False) == ScalarType(False, 11)
    with pytest.raises(UserError, match="E0110 a bit field has 1 to 64 bits, not 65"):
        parse_scalar("u65", NAMES, locate, stored=False)


def test_a_type_by_a_condition() -> None:
    assert parse_scalar("f16 if WIDTH == 16 else i8", NAMES, locate, floats=True) == F16
    assert parse_scalar("f16 if WIDTH == 8 else i8", NAMES, locate) == ScalarType(True, 8)
    with pytest.raises(UserError, match="E0110 an integer stands here, not f16"):
        parse_scalar("f16", NAMES, locate)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("i7", "a stored scalar has 8, 16, 32 or 64 bits, not 7"),
        ("row", "unknown type 'row'; did you mean 'row_t'?"),
        ("i9999", "unknown type 'i9999'"),
        ("i8[0]", "dimensions [0] do not make 1 to 65536 lanes"),
        ("i8[65536, 2]", "dimensions [65536, 2] do not make 1 to 65536 lanes"),
        ("1 + 2", "this is not a type"),
    ],
)
def test_refused(text: str, message: str) -> None:
    assert refused(text).startswith(f"t.yaml:1:1: E0110 {message}")
