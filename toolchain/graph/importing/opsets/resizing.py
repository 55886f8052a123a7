"""Resize and its forerunner Upsample: coordinates and rounding that later versions spell out."""

import numpy as np

from toolchain.graph.importing.opsets.known import Array
from toolchain.graph.importing.opsets.site import Site


def upsample(site: Site) -> None:
    """Upsample: pixel `x` of the result is read at `x / scale`; nearest takes the pixel before it."""
    site.node.op_type = "Resize"
    scales, factors = site.given(1), site.known.numbers(site.given(1))
    if not scales:
        factors = _scales(site)
        scales = site.constant(factors, "scales")
    if factors is not None and (factors < 1).any():
        raise site.refuse("it would shrink")
    if site.text("mode", "nearest") == "bilinear":
        site.put(mode="linear")
    site.wire(site.given(0), "", scales)
    _asymmetric(site, "floor")


def _scales(site: Site) -> Array:
    if site.version < 7:
        return np.array([1, 1, site.take_float("height_scale"), site.take_float("width_scale")], np.float32)
    found = site.take("scales")
    return np.array([] if found is None else found.floats, np.float32)


def early_resize(site: Site) -> None:
    """Resize of operator set 10: as Upsample, but along a dimension that shrinks nearest takes the pixel after `x / scale`."""
    rounding = "floor"
    if site.text("mode", "nearest") == "nearest":
        factors = site.known.numbers(site.given(1))
        if factors is None:
            raise site.refuse("the scales are not constant")
        rounding = "floor" if (factors >= 1).all() else "ceil"
        if rounding == "ceil" and (factors > 1).any():
            _grow_first(site, factors)
    site.wire(site.given(0), "", site.given(1))
    _asymmetric(site, rounding)


def _grow_first(site: Site, factors: Array) -> None:
    """Lets the dimensions that grow do so in a node of their own. ONNX Runtime copies where no size changes, which that node must not do."""
    shape = site.known.shape(site.given(0)) or ()
    sizes = [(size, (size or 0) * np.float32(factor)) for size, factor in zip(shape, factors, strict=False) if factor > 1]
    if not any(size and grown >= size + 1 for size, grown in sizes):
        raise site.refuse("one dimension shrinks, and none is known to grow")
    grown, shrunk = site.constant(np.maximum(factors, 1), "grown"), site.constant(np.minimum(factors, 1), "shrunk")
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    site.wire(site.insert("Resize", [site.given(0), "", grown], **attributes), shrunk)


def _asymmetric(site: Site, rounding: str) -> None:
    site.put(coordinate_transformation_mode="asymmetric")
    if site.text("mode", "nearest") == "nearest":
        site.put(nearest_mode=rounding)


def resize(site: Site) -> None:
    """Resize of 11 and 12: operands without use had to be given; coordinates of TensorFlow's nearest neighbour had a mode of their own."""
    mode, sizes = site.text("coordinate_transformation_mode", "half_pixel"), site.given(3)
    roi = site.given(1) if mode == "tf_crop_and_resize" else ""
    site.wire(site.given(0), roi, "" if sizes else site.given(2), sizes)
    if mode == "tf_half_pixel_for_nn":
        if site.text("mode", "nearest") != "nearest" or site.text("nearest_mode", "round_prefer_floor") != "floor":
            raise site.refuse("coordinates of the mode tf_half_pixel_for_nn can only be rounded down")
        site.put(coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_ceil")
