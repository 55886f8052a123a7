"""Resize and Upsample: every old coordinate and rounding."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.importing.opsets.oracle import build, check, kinds, n, normal, refusal

SEEDS = st.integers(0, 2**32)
GROWING = st.sampled_from([1.0, 1.2, 1.5, 1.99, 2.0, 2.3, 3.0, 4.0])
ANY = st.sampled_from([0.3, 0.5, 0.6, 0.75, 0.99, 1.0, 1.3, 2.0, 2.5, 3.0])


def scales(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.sampled_from([7, 8, 9]), st.sampled_from(["nearest", "linear"]), st.integers(2, 7), st.integers(2, 7), GROWING, GROWING)
def test_upsample(seed: int, opset: int, mode: str, height: int, width: int, up: float, along: float) -> None:
    x, s = {"x": normal(seed, 1, 2, height, width)}, scales(1, 1, up, along)
    if opset < 9:
        model = build([n("Upsample", ["x"], ["y"], "u", mode=mode, scales=s.tolist())], x, opset)
    else:
        model = build([n("Upsample", ["x", "s"], ["y"], "u", mode=mode)], x, opset, {"s": s})
    assert kinds(check(model, x, exact=mode == "nearest")) == ["Resize"]


@settings(max_examples=35, deadline=None)
@given(SEEDS, st.sampled_from(["nearest", "linear"]), st.integers(2, 9), st.integers(2, 9), ANY, ANY)
def test_resize_of_operator_set_10(seed: int, mode: str, height: int, width: int, up: float, along: float) -> None:
    x, s = {"x": normal(seed, 1, 2, height, width)}, scales(1, 1, up, along)
    model = build([n("Resize", ["x", "s"], ["y"], "r", mode=mode)], x, 10, {"s": s})
    mixed = mode == "nearest" and (s > 1).any() and (s < 1).any()
    if mixed and int(np.float32(height) * s[2]) <= height and int(np.float32(width) * s[3]) <= width:
        assert "one dimension shrinks, and none is known to grow" in refusal(model)
    else:
        assert kinds(check(model, x, exact=mode == "nearest")) == ["Resize"] * (2 if mixed else 1)


def test_scales_that_are_fed() -> None:
    x = {"x": normal(0, 3, 2, 5, 6), "s": scales(1, 1, 2, 0.5)}
    check(build([n("Resize", ["x", "s"], ["y"], "r", mode="linear")], x, 10), x, exact=False)
    assert "the scales are not constant" in refusal(build([n("Resize", ["x", "s"], ["y"], "r")], x, 10))


def test_upsample_never_shrinks() -> None:
    x = {"x": normal(0, 1, 2, 4, 4)}
    assert "it would shrink" in refusal(build([n("Upsample", ["x"], ["y"], "u", scales=[1.0, 1.0, 2.0, 0.5])], x, 8))
    assert "it would shrink" in refusal(build([n("Upsample", ["x", "s"], ["y"], "u")], x, 9, {"s": scales(1, 1, 2, 0.5)}))


COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
NEAREST = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


@settings(max_examples=45, deadline=None)
@given(
    SEEDS,
    st.sampled_from([11, 12, 13, 18, 19]),
    st.sampled_from(["nearest", "linear", "cubic"]),
    st.sampled_from(COORDINATES),
    st.sampled_from(NEAREST),
    st.booleans(),
    ANY,
    ANY,
)
def test_resize_since_11(seed: int, opset: int, mode: str, coordinates: str, nearest: str, by_size: bool, up: float, along: float) -> None:
    x = {"x": normal(seed, 1, 2, 6, 7)}
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    attributes |= {"nearest_mode": nearest} if mode == "nearest" else {}
    sizes = np.array([1, 2, max(1, int(6 * up)), max(1, int(7 * along))])
    given_ = {"roi": scales(), "s": scales() if by_size else scales(1, 1, up, along)} | ({"z": sizes} if by_size else {})
    check(build([n("Resize", ["x", *given_], ["y"], "r", **attributes)], x, opset, given_), x, exact=mode == "nearest")


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.sampled_from([11, 12]), ANY, ANY, st.booleans())
def test_a_cut_is_still_resized(seed: int, opset: int, up: float, along: float, linear: bool) -> None:
    x = {"x": normal(seed, 1, 2, 6, 7)}
    constants = {"roi": scales(0, 0, 0.2, 0.1, 1, 1, 0.8, 1.2), "s": scales(1, 1, up, along)}
    node = n("Resize", ["x", "roi", "s"], ["y"], "r", mode="linear" if linear else "nearest", coordinate_transformation_mode="tf_crop_and_resize")
    check(build([node], x, opset, constants), x, exact=not linear)


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from([11, 12]), st.integers(2, 9), st.integers(2, 9), ANY, ANY)
def test_nearest_neighbour_of_tensorflow(seed: int, opset: int, height: int, width: int, up: float, along: float) -> None:
    x, constants = {"x": normal(seed, 1, 2, height, width)}, {"roi": scales(), "s": scales(1, 1, up, along)}
    node = n("Resize", ["x", "roi", "s"], ["y"], "r", coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="floor")
    check(build([node], x, opset, constants), x)


@pytest.mark.parametrize("attributes", [{"nearest_mode": "ceil"}, {}, {"mode": "linear"}])
def test_coordinates_that_no_later_set_has_are_refused(attributes: dict[str, str]) -> None:
    x, constants = {"x": normal(0, 1, 2, 4, 4)}, {"roi": scales(), "s": scales(1, 1, 2, 2)}
    node = n("Resize", ["x", "roi", "s"], ["y"], "r", coordinate_transformation_mode="tf_half_pixel_for_nn", **attributes)
    text = refusal(build([node], x, 11, constants))
    assert text.startswith("node 'r' (Resize): no equal form of operator set 11 in 21: coordinates of the mode tf_half_pixel_for_nn")


@pytest.mark.parametrize("opset", [1, 3, 6])
def test_the_first_upsample(opset: int) -> None:
    x = {"x": normal(1, 1, 2, 3, 4)}
    want = x["x"].repeat(2, 2).repeat(3, 3)
    check(build([n("Upsample", ["x"], ["y"], "u", height_scale=2.0, width_scale=3.0)], x, opset), x, [want])
    model = check(
        build([n("Upsample", ["x"], ["y"], "u", height_scale=2.0, width_scale=2.0, mode="bilinear")], x, opset), x, [_linear(x["x"])], False
    )
    assert model.graph.node[0].attribute[0].s == b"linear"


def _linear(x: np.ndarray) -> np.ndarray:
    """Twice as large, read at half the coordinate."""
    for axis in (2, 3):
        after = np.concatenate([x, x.take([-1], axis)], axis).take(range(1, x.shape[axis] + 1), axis)
        x = np.stack([x, (x + after) / 2], axis + 1).reshape(*(size * (2 if number == axis else 1) for number, size in enumerate(x.shape)))
    return x
