import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.graph.lengths import LengthAxis, fitted, sized, text_of


@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 1))
def test_filling_up_and_cutting_back_leaves_an_array_as_it_was(size: int, more: int, axis: int) -> None:
    array = np.arange(2 * size * 3).reshape((2 * size, 3) if axis == 0 else (3, 2 * size))
    filled = fitted(array, {axis: 2 * size + more})
    assert filled.shape[axis] == 2 * size + more
    assert np.array_equal(fitted(filled, {axis: 2 * size}), array)
    assert filled.sum() == array.sum()  # zeros
    assert filled.dtype == array.dtype


@pytest.mark.parametrize("dtype", [object, "U1", bool])
def test_values_that_are_no_numbers_get_their_own_nothing(dtype: object) -> None:
    filled = fitted(np.array(["a"], dtype), {0: 2})  # type: ignore[arg-type]
    assert filled[1] in ("", False)


def test_each_array_is_cut_or_filled_up_along_its_own_axes() -> None:
    arrays = {"ids": np.ones((1, 3), np.int64), "mask": np.ones((1, 3), np.int64), "picture": np.ones((2, 5)), "count": np.array(7)}
    found = sized(
        arrays, [LengthAxis("ids", 1, "words"), LengthAxis("mask", 1, "words"), LengthAxis("picture", 0, "height")], {"words": 5, "height": 1}
    )
    assert {name: array.shape for name, array in found.items()} == {"ids": (1, 5), "mask": (1, 5), "picture": (1, 5), "count": ()}
    assert found["ids"].sum() == found["mask"].sum() == 3


def test_lengths_in_words() -> None:
    assert text_of({"height": 32, "width": 64}) == "height 32, width 64"
