"""From a match to a fused operation: which operands, which attributes; or the reason why it is none."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir

from toolchain.graph.rewrite import add_constant, constant, integer, ints, is_operator, real, shape_of, text
from toolchain.graph.windows import pads_of, window_of
from toolchain.passes.matching import Match


@dataclass(frozen=True)
class Fused:
    """What to call with what."""

    variant: str
    operands: tuple[ir.Value, ...]
    attributes: Mapping[str, Any]


Binding = Fused | str
"""A string is the reason a reader sees."""


def bind(match: Match, graph: ir.Graph) -> Binding:
    """The fused operation of a match."""
    found = _BINDERS[match.template.computes](match, graph)
    if isinstance(found, str) or "activation" not in match.nodes:
        return found
    active = _activation(match.nodes["activation"])
    return active if isinstance(active, str) else Fused(active[0], found.operands, {**found.attributes, **active[1]})


def _activation(node: ir.Node) -> tuple[str, dict[str, float]] | str:
    if is_operator(node, "Relu"):
        return "relu", {}
    if is_operator(node, "LeakyRelu"):
        return "leaky", {"alpha": real(node, "alpha", 0.01)}
    limits = [constant(value) if value is not None else None for value in (*node.inputs[1:3], None, None)][:2]
    if any(limit is None and value is not None for limit, value in zip(limits, node.inputs[1:3], strict=False)):
        return "the limits of the clip are not constant"
    low, high = (float("-inf") if limits[0] is None else float(limits[0]), float("inf") if limits[1] is None else float(limits[1]))
    if low == 0 and high == float("inf"):
        return "relu", {}
    if not low <= 0 <= high:
        return "the clip leaves no zero"
    return "clip", {"minimum": max(low, float(np.finfo(np.float32).min)), "maximum": min(high, float(np.finfo(np.float32).max))}


def _given(match: Match, *names: str) -> tuple[ir.Value, ...]:
    return tuple(value for name in names for value in match.tensors.get(name, ()))


def _bias(match: Match, graph: ir.Graph, channels: int, name: str) -> ir.Value | str:
    value = match.tensor("b")
    array = constant(value)
    if array is None or value is None:
        return add_constant(graph, f"{name}.bias", np.zeros(channels, np.float32))
    if array.shape == (channels,):
        return value
    if array.size not in (1, channels):
        return f"the bias has {array.size} values for {channels} channels"
    if array.ndim > 2 or array.size not in (1, array.shape[-1]):
        return "the bias does not stand along the channels"
    return add_constant(graph, f"{name}.bias", np.broadcast_to(array.reshape(-1), (channels,)).astype(np.float32))


def _convolution(match: Match, graph: ir.Graph) -> Binding:
    node, (x, w) = match.nodes["conv"], _given(match, "x", "w")
    bias = _bias(match, graph, shape_of(w)[0], node.name or "conv")
    if isinstance(bias, str):
        return bias
    strides, dilations = ints(node, "strides", (1, 1)), ints(node, "dilations", (1, 1))
    attributes = {"strides": strides, "dilations": dilations, "group": integer(node, "group", 1)}
    return Fused("", (x, w, bias), {**attributes, "pads": pads_of(node, shape_of(w)[2:], strides, dilations)})


def _dense(match: Match, graph: ir.Graph) -> Binding:
    node, (x, w) = match.nodes["dense"], _given(match, "x", "w")
    array = constant(w)
    assert array is not None
    if integer(node, "transA", 0) or real(node, "alpha", 1.0) != 1.0 or real(node, "beta", 1.0) != 1.0:
        return "the dense layer transposes or scales its operands"
    if not integer(node, "transB", 0):
        w = add_constant(graph, f"{w.name}.transposed", np.ascontiguousarray(array.T))
    bias = _bias(match, graph, shape_of(w)[0], node.name or "dense")
    return bias if isinstance(bias, str) else Fused("", (x, w, bias), {})


def _max_pool(match: Match, _: ir.Graph) -> Binding:
    node = match.nodes["pool"]
    if any(step != 1 for step in ints(node, "dilations", (1, 1))):
        return "the pool is dilated"
    if any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
        return "the indices of the pool are used"
    return _window(match, node)


def _window(match: Match, node: ir.Node) -> Binding:
    attributes = window_of(node, ints(node, "kernel_shape", ()))
    kernel, pads = attributes["kernel_shape"], attributes["pads"]
    if any(pad >= size for pad, size in zip(pads, (*kernel, *kernel), strict=True)):
        return "a window lies outside the picture"
    return Fused("", _given(match, "x"), attributes)


def _average_pool(match: Match, _: ir.Graph) -> Binding:
    """An activation alone is the average of one pixel, which every machine that averages does exactly."""
    node, (x,) = match.nodes.get("pool"), _given(match, "x")
    if node is None:
        return Fused("", (x,), {"kernel_shape": (1, 1), "strides": (1, 1), "pads": (0, 0, 0, 0)})
    if is_operator(node, "AveragePool"):
        if any(step != 1 for step in ints(node, "dilations", (1, 1))):
            return "the pool is dilated"
        found = _window(match, node)
        declared = ints(node, "pads", (0, 0, 0, 0)) if text(node, "auto_pad", "NOTSET") == "NOTSET" else (-1,)
        if (
            isinstance(found, Fused)
            and any(found.attributes["pads"])
            and not (integer(node, "count_include_pad", 0) and found.attributes["pads"] == declared)
        ):
            return "the divisor of the average changes at the border"
        return found
    if is_operator(node, "ReduceMean"):
        axes = constant(match.tensor("axes"))
        if axes is None or sorted(int(axis) % 4 for axis in axes.ravel()) != [2, 3] or not integer(node, "keepdims", 1):
            return "the mean is not over height and width"
    return Fused("", (x,), {"kernel_shape": shape_of(x)[2:], "strides": (1, 1), "pads": (0, 0, 0, 0)})


def _concat(match: Match, _: ir.Graph) -> Binding:
    operands = match.tensors["x"]
    axis = integer(match.nodes["concat"], "axis", 1) % len(shape_of(operands[0]))
    return "the concat is not over channels" if axis != 1 else Fused(str(len(operands)), tuple(operands), {"axis": 1})


def _upsample(match: Match, _: ir.Graph) -> Binding:
    node, (x,) = match.nodes["resize"], _given(match, "x")
    size, result = shape_of(x), shape_of(node.outputs[0])
    factors = tuple(after // before for before, after in zip(size, result, strict=True))
    if factors[:2] != (1, 1) or tuple(a * b for a, b in zip(size, factors, strict=True)) != result:
        return "the picture does not grow by a whole factor"
    coordinates, nearest = text(node, "coordinate_transformation_mode", "half_pixel"), text(node, "nearest_mode", "round_prefer_floor")
    plain = coordinates == "asymmetric" and nearest == "floor"
    if text(node, "mode", "nearest") != "nearest" or not (plain or (coordinates.startswith("half_pixel") and nearest.startswith("round"))):
        return "the picture is not simply repeated"
    return Fused("", (x,), {"factors": factors[2:]})


def _pad(match: Match, _: ir.Graph) -> Binding:
    node, (x,) = match.nodes["pad"], _given(match, "x")
    pads, value, rank = constant(match.tensor("pads")), constant(match.tensor("value")), len(shape_of(x))
    if text(node, "mode", "constant") != "constant" or (value is not None and value.any()) or match.tensor("axes") is not None:
        return "the padding is not with zeros"
    if pads is None or (pads < 0).any() or rank != 4 or pads[[0, 1, rank, rank + 1]].any():
        return "the padding is not around the picture"
    return Fused("", (x,), {"pads": tuple(int(pad) for pad in pads)})


def _flatten(match: Match, _: ir.Graph) -> Binding:
    (x,) = _given(match, "x")
    size, result = shape_of(x), shape_of(match.nodes["flatten"].outputs[0])
    return Fused("", (x,), {}) if result == (size[0], int(np.prod(size[1:]))) else "the result is not one row for each picture"


def _shuffle(match: Match, _: ir.Graph) -> Binding:
    (x,) = _given(match, "x")
    size, apart, result = shape_of(x), shape_of(match.nodes["apart"].outputs[0]), shape_of(match.nodes["together"].outputs[0])
    swapped = ints(match.nodes["swap"], "perm", ()) == (0, 2, 1, 3, 4)
    if len(apart) != 5 or not swapped or result != size or (apart[0], apart[1] * apart[2], *apart[3:]) != size:
        return "the channels are not shuffled between groups"
    return Fused("", (x,), {"group": apart[1]})


_BINDERS: Mapping[str, Callable[[Match, ir.Graph], Binding]] = MappingProxyType(
    {
        "conv2d": _convolution,
        "dense": _dense,
        "add": lambda match, _: Fused("", _given(match, "x", "z"), {}),
        "max_pool": _max_pool,
        "average_pool": _average_pool,
        "concat": _concat,
        "upsample": _upsample,
        "pad": _pad,
        "flatten": _flatten,
        "shuffle": _shuffle,
    }
)
