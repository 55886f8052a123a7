"""Numbers follow from shapes and attributes; what does not fit is told."""

import pytest

from toolchain.operations.library import builtin_kinds
from toolchain.operations.numbers import complete, macs_of, numbers_of, result_shape
from toolchain.spec.errors import UserError

KINDS = builtin_kinds()
SHAPES = {"x": (2, 4, 9, 8), "weight": (6, 2, 3, 3), "bias": (6,)}


def test_extents_attributes_and_what_follows() -> None:
    numbers = numbers_of(KINDS["conv2d"], SHAPES, {"strides": (2, 1), "pads": (1, 0, 1, 0), "dilations": (1, 2), "group": 2})
    assert (numbers["in_channels"], numbers["group_channels"], numbers["sh"], numbers["dw"], numbers["groups"]) == (4, 2, 2, 2, 2)
    assert result_shape(KINDS["conv2d"], numbers) == (2, 6, 5, 4)
    assert macs_of(KINDS["conv2d"], numbers) == 2 * 6 * 5 * 4 * 2 * 9
    assert macs_of(KINDS["add"], {}) == 0


def test_axes_that_a_tensor_lacks_are_ones() -> None:
    numbers = numbers_of(KINDS["add"], {"x": (2, 5), "z": (2, 5)}, {})
    assert [numbers[name] for name in ("batch", "channels", "height", "width")] == [2, 5, 1, 1]


@pytest.mark.parametrize(
    ("shapes", "attributes", "words"),
    [
        ({**SHAPES, "bias": (5,)}, {"group": 2}, "out_channels is 6 and, of 'bias', 5"),
        (SHAPES, {"group": 3}, "the channels do not divide into the groups"),
        ({**SHAPES, "x": (2, 4, 2, 8)}, {"group": 2}, "has no output: out_height is 0"),
        ({**SHAPES, "x": (2, 4, 2, 8, 1)}, {"group": 2}, "has 5 axes, not 4"),
        (SHAPES, {"group": 2, "pads": (-1, 0, 0, 0)}, "pad_top = -1, which is below zero"),
    ],
)
def test_what_does_not_fit(shapes: dict[str, tuple[int, ...]], attributes: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=f"E1003 .*{words}"):
        numbers_of(KINDS["conv2d"], shapes, attributes, "c")


def test_a_check_s_own_words() -> None:
    with pytest.raises(UserError, match="E1003 'm': it has windows of nothing but padding"):
        complete(KINDS["max_pool"], {"batch": 1, "channels": 1, "height": 4, "width": 4, "kh": 2, "kw": 2, "pad_top": 2}, "m")
