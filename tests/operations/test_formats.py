"""Numbers of 16-bit formats are those of numpy and ml_dtypes, and their bits come back."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.operations.formats import DTYPES, GREATEST, bits_of_held, held_of_bits, rounded
from toolchain.spec.model.quantisation import Format

FORMS: tuple[Format, ...] = ("f16", "bf16")
OWN = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
BITS = np.arange(1 << 16, dtype=np.uint16)


@pytest.mark.parametrize("form", FORMS)
def test_every_number_is_itself_and_its_bits(form: Format) -> None:
    held, own = held_of_bits(BITS.view(np.int16), form), BITS.view(OWN[form])
    assert held.dtype == DTYPES[form]
    np.testing.assert_array_equal(held.astype(np.float32), own.astype(np.float32))
    assert np.array_equal(bits_of_held(held).view(np.uint16), BITS)
    numbers = ~np.isnan(held)
    assert np.array_equal(bits_of_held(rounded(held, form))[numbers].view(np.uint16), BITS[numbers])
    assert {*bits_of_held(rounded(held, form))[~numbers].tolist()} == {0x7E00 if form == "f16" else 0x7FC0}
    assert np.nanmax(held[np.isfinite(held)]) == GREATEST[form]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, (1 << 32) - 1), st.sampled_from(FORMS))
def test_singles_round_as_the_libraries_do(bits: int, form: Format) -> None:
    x = np.array([bits], np.uint32).view(np.float32)
    with np.errstate(over="ignore"):
        found, wanted = rounded(x, form), x.astype(OWN[form]).astype(np.float32)
    assert np.array_equal(found.astype(np.float32), wanted, equal_nan=True)
    assert np.signbit(found[0]) == np.signbit(wanted[0]) or np.isnan(wanted[0])


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 0x7F7F), st.sampled_from([-1, 0, 1]), st.sampled_from([1.0, -1.0]))
def test_doubles_near_the_middle_go_to_the_nearer_number(bits: int, side: int, sign: float) -> None:
    """A double next to the middle between two numbers, which float32 takes for the middle itself."""
    low, high = (float(held_of_bits(np.array([each]), "bf16")[0]) for each in (bits, bits + 1))
    middle = (low + high) / 2
    x = middle if side == 0 or not np.isfinite(high) else np.nextafter(middle, high if side > 0 else low)
    even = low if bits % 2 == 0 else high
    wanted = even if side == 0 else high if side > 0 else low
    if np.isfinite(high):
        assert rounded(np.array([sign * x]), "bf16")[0] == sign * wanted
