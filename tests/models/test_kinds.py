"""Windows of the layer language: kernels, strides, dilations and every way to write padding."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.models.kinds import Arguments
from toolchain.models.operators import Window
from toolchain.spec.errors import Source, Span
from toolchain.spec.yaml_nodes import parse_yaml

SIZE = (11, 8)


def window(text: str, size: tuple[int, int] = SIZE) -> Window:
    source = Source("t.yaml", text)
    return Arguments(dict(parse_yaml(source).items()), {"n": 3}, Span(source, 1, 1)).window(size)


def test_one_number_is_for_both_axes_and_expressions_are_numbers() -> None:
    assert window("{kernel: n + 2, stride: [1, n], dilation: 2}") == Window((5, 5), (1, 3), (0, 0, 0, 0), (2, 2))


@pytest.mark.parametrize(
    ("pad", "expected"),
    [
        ("2", (2, 2, 2, 2)),
        ("n - 3", (0, 0, 0, 0)),
        ("[1, 2]", (1, 2, 1, 2)),
        ("[1, 2, n, 4]", (1, 2, 3, 4)),
        ("half", (1, 2, 1, 2)),
        ("same", (1, 2, 1, 2)),
    ],
)
def test_every_way_to_write_padding(pad: str, expected: tuple[int, ...]) -> None:
    assert window(f"{{kernel: [3, 5], pad: {pad}}}").pads == expected


def test_half_counts_the_dilated_kernel() -> None:
    assert window("{kernel: 3, dilation: 4, pad: half}").pads == (4, 4, 4, 4)


@given(st.integers(1, 40), st.integers(1, 7), st.integers(1, 4), st.integers(1, 3))
def test_same_gives_one_result_for_each_stride_and_the_odd_pixel_comes_last(size: int, kernel: int, stride: int, dilation: int) -> None:
    top, left, bottom, right = window(f"{{kernel: {kernel}, stride: {stride}, dilation: {dilation}, pad: same}}", (size, size)).pads
    assert (top, bottom) == (left, right)
    assert top <= bottom <= top + 1
    reach = dilation * (kernel - 1) + 1
    assert (size + top + bottom - reach) // stride + 1 == -(-size // stride)
