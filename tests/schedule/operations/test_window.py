"""Window sizes against what numpy's sliding windows give."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.schedule.operations.window import NUMBERS, Window
from toolchain.spec.errors import UserError

PAIR = st.tuples(st.integers(1, 4), st.integers(1, 4))


@given(PAIR, PAIR, PAIR, st.tuples(*[st.integers(0, 3)] * 4), st.tuples(st.integers(1, 20), st.integers(1, 20)))
def test_as_many_positions_as_windows_fit(kernel, strides, dilations, pads, size):
    window = Window(kernel, strides, pads, dilations)
    image = np.zeros((size[0] + pads[0] + pads[2], size[1] + pads[1] + pads[3]))
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    if min(have - need for have, need in zip(image.shape, reach, strict=True)) < 0:
        with pytest.raises(UserError, match="E1003"):
            window.output(size, "it")
    else:
        view = np.lib.stride_tricks.sliding_window_view(image, reach)[:: strides[0], :: strides[1]]
        assert window.output(size, "it") == view.shape[:2]


def test_numbers_have_the_declared_names():
    window = Window((3, 5), (2, 1), (1, 2, 3, 4), (1, 6))
    assert tuple(window.numbers) == NUMBERS
    assert (
        window.numbers | {"kh": 3, "kw": 5, "sh": 2, "sw": 1, "dh": 1, "dw": 6, "pad_top": 1, "pad_left": 2, "pad_bottom": 3, "pad_right": 4}
        == window.numbers
    )


@pytest.mark.parametrize("wrong", [{"strides": (0, 1)}, {"dilations": (1, 0)}, {"pads": (0, 0, -1, 0)}, {"kernel": (0, 1)}])
def test_senseless_sizes_are_refused(wrong):
    with pytest.raises(UserError, match="E1003"):
        Window(**({"kernel": (1, 1)} | wrong)).output((4, 4), "it")
