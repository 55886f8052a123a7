"""Normalisation and dropout: forms for training, and parameters of other shapes."""

import numpy as np
from onnx import numpy_helper

from toolchain.graph.importing.opsets.site import Site

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
