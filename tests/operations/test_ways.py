"""Other operations that compute the same, in the order in which machines are asked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operations import made
from toolchain.operations.library import builtin_kinds
from toolchain.operations.ways import candidates, reachable, spelled
from toolchain.spec.expr import parse_expr
from toolchain.spec.model.quantisation import Numerics

KINDS = builtin_kinds()
RNG = np.random.default_rng(0)


def names(kind: str, shape: tuple[int, int, int, int], weights: tuple[int, ...], **numbers: object) -> list[tuple[str, tuple[int, ...]]]:
    arrays = {"weight": RNG.integers(-9, 9, weights, np.int8), "bias": np.zeros(weights[0], np.int32)}
    found = candidates(made.made(kind, "o", {"x": shape}, arrays, **numbers), KINDS)
    return [(each.kind.name, each.arrays["weight"].shape) for each in found]


def test_a_convolution_by_groups_and_dilation() -> None:
    assert names("conv2d", (1, 6, 9, 9), (4, 6, 3, 3)) == [("conv2d", (4, 6, 3, 3))]
    assert names("conv2d", (1, 6, 9, 9), (6, 1, 3, 3), group=6) == [("depthwise", (6, 3, 3)), ("conv2d", (6, 6, 3, 3))]
    assert names("conv2d", (1, 6, 9, 9), (4, 3, 3, 3), group=2) == [("conv2d", (4, 6, 3, 3))]
    assert names("conv2d", (1, 6, 9, 9), (4, 6, 3, 2), dilations=(2, 3)) == [("conv2d", (4, 6, 3, 2)), ("conv2d", (4, 6, 5, 4))]


def test_layers_of_rows_and_of_flattened_pictures_are_convolutions_too() -> None:
    assert names("dense", (1, 6, 3, 2), (4, 36)) == [("dense", (4, 6, 3, 2)), ("conv2d", (4, 6, 3, 2))]
    assert names("linear", (1, 6, 5, 1), (4, 6)) == [("linear", (4, 6)), ("conv2d", (4, 6, 1, 1))]


def test_what_an_operation_may_become() -> None:
    assert reachable(KINDS["linear"], KINDS) == {"linear", "conv2d", "depthwise"}
    assert reachable(KINDS["add"], KINDS) == {"add"}


def test_arrays_are_spelled_out() -> None:
    expr = parse_expr("a[i // 2] * scale if i % 2 == 0 else 0", lambda _line, _column: None)  # type: ignore[arg-type,return-value]
    assert spelled(expr, {"a": np.array([3, 4])}, {"scale": 5}, {"i": range(4)}).tolist() == [15, 0, 20, 0]


@pytest.mark.parametrize("kind", ["conv2d", "depthwise"])
@settings(max_examples=25, deadline=None)
@given(st.tuples(st.integers(1, 3), st.integers(1, 3)), st.tuples(*[st.integers(0, 5)] * 4), st.tuples(st.integers(1, 3), st.integers(1, 3)))
def test_no_window_is_padding_alone(kind: str, kernel: tuple[int, int], pads: tuple[int, int, int, int], strides: tuple[int, int]) -> None:
    arrays = {"weight": RNG.integers(-9, 9, (2, *((3,) if kind == "conv2d" else ()), *kernel), np.int8), "bias": np.array([3, -4], np.int32)}
    x = RNG.integers(-9, 9, (1, 3 if kind == "conv2d" else 2, 4, 3)).astype(np.int8)
    operation = made.made(kind, "o", {"x": x.shape}, arrays, strides=strides, pads=pads)
    *_, last = candidates(operation, KINDS)
    n = last.numbers
    assert max(n["pad_top"], n["pad_bottom"]) < n["kh"]
    assert max(n["pad_left"], n["pad_right"]) < n["kw"]
    assert np.array_equal(last.run({"x": x}, Numerics()), operation.run({"x": x}, Numerics()))
