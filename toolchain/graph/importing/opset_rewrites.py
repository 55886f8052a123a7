"""Operators whose meaning changed between operator sets: broadcasting, Softmax, normalisation, Resize and Scan."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.graph.importing.opset_site import Shape, Site
from toolchain.spec.arrays import Array


def aligned(site: Site) -> None:
    """Gives the second operand trailing dimensions of size one, such that it stands where the attribute 'axis' says."""
    axis, wanted = site.take("axis"), site.take_int("broadcast", 0)
    if axis is None or not wanted:
        return
    left, right = (site.known.shape(site.given(number)) for number in (0, 1))
    if right is not None and all(size == 1 for size in right):
        return
    if left is None or right is None:
        raise site.refuse("the rank of an operand is not known")
    first = axis.i + len(left) if axis.i < 0 else axis.i
    missing = len(left) - first - len(right) if first >= 0 else -1
    _expand(site, len(right), missing, f"{len(right)} dimensions do not fit at axis {axis.i} of {len(left)}")


def slope(site: Site) -> None:
    """PRelu: a vector held one slope for each channel."""
    x, vector = (site.known.shape(site.given(number)) for number in (0, 1))
    if vector is None or x is None:
        raise site.refuse("the rank of an operand is not known")
    if len(vector) == 1 and vector != (1,):
        _expand(site, 1, len(x) - 2, "a slope for each channel needs channels")


def _expand(site: Site, rank: int, missing: int, reason: str) -> None:
    if missing < 0:
        raise site.refuse(reason)
    if missing:
        axes = site.whole(range(rank, rank + missing), "axes")
        site.node.input[1] = site.insert("Unsqueeze", [site.given(1), axes])


def coerced(site: Site) -> None:
    """Flattens around the node, unless only one of the dimensions from the axis on is larger than one."""
    x, axis = site.given(0), site.take_int("axis", 1)
    shape = site.known.shape(x)
    if shape is not None and not -len(shape) <= axis < len(shape):
        raise site.refuse(f"a tensor of {len(shape)} dimensions has no axis {axis}")
    single = None if shape is None else _single_axis(shape, axis)
    site.put(axis=-1 if single is None else single)
    if single is None:
        site.node.input[0] = site.insert("Flatten", [x], axis=axis)
        inner, outer = site.reroute()
        site.append("Reshape", [inner, site.insert("Shape", [x])], outer, allowzero=1)


def _single_axis(shape: Shape, axis: int) -> int | None:
    wide = [number for number in range(axis % len(shape), len(shape)) if shape[number] != 1]
    return None if len(wide) > 1 else next(iter(wide), len(shape) - 1)


INFERENCE = "export the model for inference, not for training"


def batch_norm(site: Site) -> None:
    """BatchNormalization before 14: training was told by five outputs, before 7 by an attribute; before 9 a parameter could be a whole picture."""
    node = site.node
    if site.version < 7 and not site.take_int("is_test", 0):
        raise site.refuse("it is in training mode", INFERENCE)
    if site.version >= 7 and len(node.output) not in (1, 5):
        raise site.refuse(f"{len(node.output)} outputs are those of neither inference nor training")
    training = site.version >= 7 and len(node.output) == 5
    _drop_outputs(site, 3 if training else 1)
    if site.take_int("spatial", 1) == 0:
        _one_channel_each(site, training)
    if training:
        _trained(site)


def _drop_outputs(site: Site, kept: int) -> None:
    if any(name in site.names.read for name in site.node.output[kept:] if name):
        raise site.refuse("a mean or variance of training is used", INFERENCE)
    del site.node.output[kept:]


def _trained(site: Site) -> None:
    node = site.node
    for number, kind in ((1, "mean"), (2, "variance")):
        node.output[number] = node.output[number] or site.names.fresh(f"{node.output[0]}.{kind}")
    site.put(training_mode=1)


def _one_channel_each(site: Site, training: bool) -> None:
    """Makes every element a channel of its own."""
    if training:
        raise site.refuse("it is in training mode", INFERENCE)
    x, flat = site.given(0), site.whole([-1], "flat")
    site.wire(site.insert("Flatten", [x], axis=1), *(site.insert("Reshape", [site.given(number), flat]) for number in range(1, 5)))
    inner, outer = site.reroute()
    site.append("Reshape", [inner, site.insert("Shape", [x])], outer, allowzero=1)


def group_norm(site: Site) -> None:
    """GroupNormalization before 21: scale and bias were given for each group, not for each channel."""
    shape, groups = site.known.shape(site.given(0)), site.integer("num_groups", 0)
    channels = shape[1] if shape is not None and len(shape) > 1 else None
    if channels is None or groups < 1 or channels % groups:
        raise site.refuse(f"the channels are not known or cannot be parted into {groups} groups")
    column, spread, flat = site.whole([-1, 1], "column"), site.whole([1, channels // groups], "spread"), site.whole([-1], "flat")
    site.wire(
        site.given(0),
        *(site.insert("Reshape", [site.insert("Expand", [site.insert("Reshape", [site.given(number), column]), spread]), flat]) for number in (1, 2)),
    )


def dropout(site: Site) -> None:
    """Dropout before 12: the ratio was an attribute; ONNX Runtime fills the mask of those versions with zeros, that of newer ones with ones."""
    node = site.node
    if site.version < 7 and not site.take_int("is_test", 0):
        raise site.refuse("it is in training mode", INFERENCE)
    site.take("ratio")
    mask = node.output[1] if len(node.output) > 1 else ""
    del node.output[1:]
    if mask and mask in site.names.read:
        zero = numpy_helper.from_array(np.zeros(1, np.bool_ if site.version >= 10 else site.real_type(site.given(0))))
        site.append("ConstantOfShape", [site.insert("Shape", [site.given(0)])], mask, value=zero)


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


def batched_scan(site: Site) -> None:
    """Scans over the batch, and in its body over the sequence, which is axis 0 there."""
    node = site.node
    if site.given(0):
        raise site.refuse("it has sequences of different lengths")
    operands, scanned = list(node.input[1:]), site.take_int("num_scan_inputs", 0)
    entries = [_element(site, name, f"{name}.element") for name in operands]
    results = [site.names.fresh(f"{name or node.name}.element") for name in node.output]
    each = helper.make_node("Scan", [entry.name for entry in entries], results, site.names.fresh(f"{node.name}.each"), num_scan_inputs=scanned)
    body, directions = site.take("body"), site.take_ints("directions")
    each.attribute.extend([] if body is None else [body])
    each.attribute.extend([] if directions is None else [helper.make_attribute("scan_input_directions", directions)])
    outer = helper.make_graph([each], f"{node.name}.batch", entries, [helper.make_empty_tensor_value_info(name) for name in results])
    site.wire(*operands)
    site.put(body=outer, num_scan_inputs=len(operands))


def _element(site: Site, name: str, wanted: str) -> onnx.ValueInfoProto:
    """One element of the batch, as an input of the body."""
    kind, shape = site.known.type_of(name), site.known.shape(name)
    if not kind or not shape:
        raise site.refuse(f"the type or rank of '{name}' is not known")
    return helper.make_tensor_value_info(site.names.fresh(wanted), kind, shape[1:])
