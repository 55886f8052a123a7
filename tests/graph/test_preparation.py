"""Raw numbers to inputs: normalised channel by channel, in the input's own order. Pixels as a network's input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.graph.preparation import (
    LengthAxis,
    Preparation,
    channels_last,
    fitted,
    picture_size,
    pixels_as_input,
    prepare,
    raw_channels_last,
    raw_shape,
    resized,
    sized,
    text_of,
)

MEAN, STD = (0.5, 0.25, 0.0), (0.5, 2.0, 1.0)

PICTURE = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)


@pytest.mark.parametrize(("shape", "last"), [((1, 3, 8, 9), False), ((1, 8, 9, 3), True), ((1, 3, 3, 3), False), ((1, 8, 9), False), ((), False)])
def test_channels_are_told_by_their_number(shape: tuple[int, ...], last: bool) -> None:
    assert channels_last(shape) is last


@given(st.integers(1, 3), st.sampled_from(["nchw", "nhwc"]), st.booleans(), st.floats(0.125, 8, width=32))
def test_every_number_is_prepared_by_its_own_channel(count: int, layout: str, last: bool, scale: float) -> None:
    """One number after the other, wherever the channels stand."""
    shape = (1, 5, 6, 3) if last else (1, 3, 5, 6)
    held = Preparation(layout, MEAN, STD, scale)
    raw = np.random.default_rng(0).integers(0, 256, (count, *raw_shape(shape, held))).astype(np.float32)
    found = prepare(raw, shape, held)
    assert found.shape == (count, *shape)
    assert found.dtype == np.float32
    for n, c, y, x in np.ndindex(count, 3, 5, 6):
        number = raw[n, 0, y, x, c] if raw_channels_last(shape, held) else raw[n, 0, c, y, x]
        wanted = (np.float32(number) * np.float32(scale) - np.float32(MEAN[c])) / np.float32(STD[c])
        assert (found[n, 0, y, x, c] if last else found[n, 0, c, y, x]) == wanted


def test_nothing_said_is_nothing_done() -> None:
    raw = np.ones((2, 1, 7), np.float32)
    assert prepare(raw, (1, 7), None) is raw


def test_what_is_no_picture_has_one_mean() -> None:
    assert prepare(np.full((2, 1, 7), 3, np.float32), (1, 7), Preparation(mean=(1.0,), std=(4.0,))).tolist() == [[[0.5] * 7]] * 2


def test_channels_are_told_by_their_number_pictures() -> None:
    assert picture_size((1, 3, 6, 8)) == picture_size((1, 6, 8, 3)) == (6, 8, 3)


def test_another_size_is_stretched_before_it_is_normalised() -> None:
    found = pixels_as_input(np.full((9, 5, 1), 7, np.float32), (1, 1, 4, 20), "float32", Preparation(mean=(3.0,), std=(2.0,)))
    assert found.shape == (1, 1, 4, 20)
    assert np.allclose(found, 2)


def test_resizing_by_whole_factors_takes_means() -> None:
    found = resized(PICTURE.astype(np.float32), 6, 8)
    assert np.array_equal(found, PICTURE)
    flat = np.full((9, 5, 1), 7, np.float32)
    assert np.allclose(resized(flat, 4, 20), 7)
    ramp = np.repeat(np.arange(64, dtype=np.float32)[None, :, None], 8, axis=0)
    assert np.allclose(resized(ramp, 8, 16)[:, 1:-1, 0], np.arange(64).reshape(16, 4).mean(1)[1:-1], atol=1e-3)


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
