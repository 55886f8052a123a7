"""Pictures as inputs: the same numbers as recorded samples, refused where they do not fit."""

from typing import Any

import numpy as np
import pytest

from toolchain.graph.preparation import Preparation
from toolchain.runtime.contents import Interface
from toolchain.runtime.pictures import prepare_picture
from toolchain.spec.errors import UserError

COLOUR = Preparation("nhwc", (0.5, 0.25, 0.0), (0.5, 2.0, 1.0), 1 / 255)
PICTURE = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)


def entry(shape: tuple[int, ...] | None, dtype: str = "float32", preparation: Preparation | None = COLOUR) -> Interface:
    return Interface("image", shape, dtype, preparation=preparation)


def wanted(picture: np.ndarray) -> np.ndarray:
    return ((picture.astype(np.float32) * np.float32(1 / 255) - np.float32(COLOUR.mean)) / np.float32(COLOUR.std)).astype(np.float32)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_channels_go_where_the_input_has_them(layout: str) -> None:
    """A picture has them last, however samples were recorded."""
    held = Preparation(layout, COLOUR.mean, COLOUR.std, COLOUR.scale)
    first, last = (prepare_picture(PICTURE, entry(shape, preparation=held)) for shape in ((1, 3, 6, 8), (1, 6, 8, 3)))
    assert np.array_equal(first[0].transpose(1, 2, 0), wanted(PICTURE))
    assert np.array_equal(last[0], wanted(PICTURE))
    assert first.dtype == np.float32


def test_a_square_of_three_pixels() -> None:
    picture = PICTURE[:3, :3]
    for layout in ("nchw", "nhwc"):
        held = Preparation(layout, COLOUR.mean, COLOUR.std, COLOUR.scale)
        assert np.array_equal(prepare_picture(picture, entry((1, 3, 3, 3), preparation=held))[0].transpose(1, 2, 0), wanted(picture))


def test_bytes_need_no_preparation() -> None:
    found = prepare_picture(PICTURE, entry((1, 6, 8, 3), "uint8", None))
    assert found.dtype == np.uint8
    assert np.array_equal(found[0], PICTURE)


def test_a_grey_picture_needs_no_axis_of_channels() -> None:
    held = Preparation(scale=0.5)
    assert np.array_equal(prepare_picture(PICTURE[:, :, 0], entry((1, 1, 6, 8), preparation=held))[0, 0], PICTURE[:, :, 0] / 2)


def test_it_is_resized_only_if_asked() -> None:
    with pytest.raises(UserError, match=r"E1111 .*\[3, 4, 3\]; given is uint8 \[6, 8, 3\]; .*resize=True"):
        prepare_picture(PICTURE, entry((1, 3, 3, 4)))
    assert prepare_picture(PICTURE, entry((1, 3, 3, 4)), resize=True).shape == (1, 3, 3, 4)


@pytest.mark.parametrize("picture", [PICTURE[:, :, :2], PICTURE[:, :, 0], PICTURE[None], PICTURE[:0], np.array("text"), PICTURE.astype(complex)])
def test_what_is_no_such_picture_is_one_line(picture: Any) -> None:
    with pytest.raises(UserError, match="E1111") as caught:
        prepare_picture(picture, entry((1, 3, 6, 8)), resize=True)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("held", [entry((1, 3, 6, 8), preparation=None), entry((1, 3)), entry(None), entry((2, 3, 6, 8)), entry((1, 3, -1, 8))])
def test_an_input_that_takes_no_picture_is_one_line(held: Interface) -> None:
    with pytest.raises(UserError, match="E1112"):
        prepare_picture(PICTURE, held)


def test_numbers_outside_an_integer_type_become_its_limits() -> None:
    given = np.array([[np.nan, -1, 0.5, 1.5], [255.4, 256, np.inf, -np.inf]], np.float32)
    found = prepare_picture(given, entry((1, 1, 2, 4), "uint8", None))
    assert found.ravel().tolist() == [0, 0, 0, 2, 255, 255, 255, 0]
