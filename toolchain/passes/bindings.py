"""From a match to a fused operation: which operands, which attributes; or the reason why it is none."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import onnx_ir as ir

from toolchain.graph.operators import affine_of, attribute_default, limit, pads_of, per_channel, repeats, transposed_window_of, window_of
from toolchain.graph.rewrite import constant, integer, ints, is_operator, known_shape, real, shape_of, text
from toolchain.operations.numbers import Attributes
from toolchain.passes.templates import Match
from toolchain.spec.arrays import Array
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import Why

ONE_STEP: Mapping[str, tuple[int, ...]] = MappingProxyType({"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)})
"""Attributes of a pool with one window."""
SEQUENCE = 3
"""Axes of [batch, rows, channels]."""


@dataclass(frozen=True)
class New:
    """A constant that the fused operation needs and the graph does not have yet."""

    name: str
    array: Array


@dataclass(frozen=True)
class Fused:
    """A call that computes the result of a match's nodes."""

    variant: str
    operands: tuple[ir.Value | New, ...]
    attributes: Attributes


Binding = Fused | Reason
"""A reason says why the match is no operation."""


def bind(match: Match) -> Binding:
    """The fused operation of a match; the graph stays as it is."""
    reader = match.template.reader
    found = _READERS[reader](match) if reader else _plain(match)
    if isinstance(found, Reason) or "activation" not in match.nodes:
        return found
    active = _activation(match.nodes["activation"])
    return active if isinstance(active, Reason) else Fused(active[0], found.operands, {**found.attributes, **active[1]})


def _activation(node: ir.Node) -> tuple[str, dict[str, float]] | Reason:
    if is_operator(node, "Relu"):
        return "relu", {}
    if is_operator(node, "LeakyRelu"):
        return "leaky", {"alpha": real(node, "alpha", 0.01)}
    if any(value is not None and constant(value) is None for value in node.inputs[1:3]):
        return Why.OPEN_CLIP()
    low, high = limit(node, 1), limit(node, 2)
    if low == 0 and high == float("inf"):
        return "relu", {}
    if not low <= 0 <= high:
        return Why.CLIP_WITHOUT_ZERO()
    return "clip", {"minimum": max(low, float(np.finfo(np.float32).min)), "maximum": min(high, float(np.finfo(np.float32).max))}


def _given(match: Match, *names: str) -> tuple[ir.Value, ...]:
    return tuple(value for name in names for value in match.tensors.get(name, ()))


def _vector(value: ir.Value, array: Array, kept: Array, name: str) -> ir.Value | New:
    """The constant itself where nothing had to be changed."""
    return value if kept.shape == array.shape and kept.dtype == array.dtype and np.array_equal(kept, array) else New(name, kept)


def _bias(match: Match, node: ir.Node, weights: Array) -> ir.Value | New | Reason:
    """One value a channel, in the type of the weights."""
    value, channels, name = match.tensor("b"), len(weights), f"{node.name}.bias"
    array = constant(value)
    if array is None or value is None:
        return New(name, np.zeros(channels, weights.dtype))
    shape = shape_of(node.outputs[0])
    vector = (
        np.broadcast_to(array, (channels,))
        if array.ndim == 1 and array.size in (1, channels)
        else per_channel(array, shape, 2 if len(shape) == 3 else 1)
    )
    if vector is None:
        return Why.BIAS()
    return _vector(value, array, vector.astype(weights.dtype), name)


def _convolution(match: Match) -> Binding:
    node, (x, w) = match.nodes["conv"], _given(match, "x", "w")
    weights = constant(w)
    assert weights is not None
    bias = _bias(match, node, weights)
    if isinstance(bias, Reason):
        return bias
    strides, dilations = ints(node, "strides", (1, 1)), ints(node, "dilations", (1, 1))
    attributes = {"strides": strides, "dilations": dilations, "group": integer(node, "group", 1)}
    return Fused("", (x, w, bias), {**attributes, "pads": pads_of(node, shape_of(w)[2:], strides, dilations)})


def _transposed_convolution(match: Match) -> Binding:
    """Weights stand by the channels that they read in ONNX, here by those that they make."""
    node, (x, w) = match.nodes["conv"], _given(match, "x", "w")
    array = constant(w)
    assert array is not None
    if integer(node, "group", 1) > 1:
        return Why.GROUPS()
    weights = np.ascontiguousarray(array.swapaxes(0, 1))
    bias = _bias(match, node, weights)
    if isinstance(bias, Reason):
        return bias
    found = transposed_window_of(node, array.shape[2:])
    return Why.BEYOND_TAPS() if found is None else Fused("", (x, New(f"{w.name}.turned", weights), bias), found)


def _scale(match: Match) -> Binding:
    """A scale and an offset for each channel: a 1x1 convolution with one group a channel."""
    node = match.nodes["scale"]
    found = affine_of(node)
    if found is None:
        return Why.NO_FACTORS()
    value, a, b = found
    if len(shape_of(value)) != 4:
        return Why.WRONG_RANK(tensor=value.name or "", rank=len(shape_of(value)), wanted=4)
    if value.dtype == ir.DataType.DOUBLE:
        return Why.DOUBLE(tensor=value.name or "")
    if not np.isfinite([a, b]).all():
        return Why.NOT_FINITE()
    dtype, name = (value.dtype or ir.DataType.FLOAT).numpy(), node.name or node.outputs[0].name
    operands = (value, New(f"{name}.diagonal", a.astype(dtype).reshape(-1, 1, 1, 1)), New(f"{name}.bias", b.astype(dtype)))
    return Fused("", operands, {"strides": (1, 1), "dilations": (1, 1), "group": len(a), "pads": (0, 0, 0, 0)})


def _plain(match: Match) -> Binding:
    """Operands by their names, and attributes from those of the nodes."""
    template = match.template
    operands: list[ir.Value | New] = []
    for name in template.operands:
        (value,) = _given(match, name)
        if name in template.vectors:
            found = _channel_vector(match, value, name)
            if isinstance(found, Reason):
                return found
            value = found
        operands.append(value)
    attributes: dict[str, object] = {}
    for name, place in template.attributes.items():
        attributes[name] = found = _number(match, place) if "." not in place else _attribute(match, place)
        if isinstance(found, Reason):
            return found
    return Fused("", tuple(operands), attributes)


def _number(match: Match, tensor: str) -> object:
    """The number that a constant holds; a Reason for another tensor."""
    (value,) = _given(match, tensor)
    array = constant(value)
    return Why.NO_NUMBER(tensor=tensor) if array is None or array.size != 1 else array.item()


def _attribute(match: Match, place: str) -> object:
    """place: ROLE.ATTRIBUTE. A Reason where the node leaves it out and ONNX has no default."""
    role, _, attribute = place.partition(".")
    found = attribute_of(match, place)
    return Why.ATTRIBUTE_MISSING(attribute=attribute, operator=match.nodes[role].op_type) if found is None else found


def attribute_of(match: Match, place: str) -> object:
    """The value of ROLE.ATTRIBUTE; ONNX's default where the node leaves it out, None where ONNX has none or the node was not matched."""
    role, _, attribute = place.partition(".")
    if role not in match.nodes:
        return None
    node = match.nodes[role]
    given = node.attributes.get(attribute)
    if given is None:
        return attribute_default(node.op_type, attribute)
    return tuple(given.as_ints()) if given.type == ir.AttributeType.INTS else given.value


def _channel_vector(match: Match, value: ir.Value, name: str) -> ir.Value | New | Reason:
    """A constant of one number for each channel, with one axis."""
    array, shape = constant(value), shape_of(match.taken[0].outputs[0])
    vector = None if array is None else per_channel(array, shape)
    if array is None or vector is None:
        return Why.NO_CHANNEL_VECTOR(tensor=value.name or "")
    return _vector(value, array, vector.astype(array.dtype), f"{value.name}.{name}")


def _conv2d(match: Match) -> Binding:
    return _convolution(match) if "conv" in match.nodes else _scale(match)


def _dense(match: Match) -> Binding:
    node, (x, w) = match.nodes["dense"], _given(match, "x", "w")
    array = constant(w)
    assert array is not None
    if integer(node, "transA", 0):
        return Why.COLUMNS()
    factors = {name: real(node, name, 1.0) for name in ("alpha", "beta")} if is_operator(node, "Gemm") else {"alpha": 1.0, "beta": 1.0}
    rows = array if integer(node, "transB", 0) else np.ascontiguousarray(array.T)
    weights = rows if factors["alpha"] == 1 else (rows * np.float64(factors["alpha"])).astype(rows.dtype)
    last = match.nodes.get("sum", node)
    if len(shape_of(last.outputs[0])) != len(shape_of(x)):
        return Why.BIAS()
    bias = _bias(match, last, weights)
    if isinstance(bias, Reason):
        return bias
    if factors["beta"] != 1:
        given = bias.array if isinstance(bias, New) else constant(bias)
        assert given is not None
        bias = New(f"{node.name}.bias", (given * np.float64(factors["beta"])).astype(rows.dtype))
    return Fused("", (x, w if weights is array else New(f"{w.name}.rows", weights), bias), {})


def _max_pool(match: Match) -> Binding:
    node = match.nodes["pool"]
    if is_operator(node, "GlobalMaxPool", "ReduceMax"):
        return _whole_picture(match, node)
    if any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
        return Why.INDICES()
    return _window(match, node)


def _window(match: Match, node: ir.Node) -> Binding:
    if integer(node, "ceil_mode", 0):
        return Why.ROUNDED_UP()
    attributes = window_of(node, ints(node, "kernel_shape", ()))
    reach = [(size - 1) * step + 1 for size, step in zip(attributes["kernel_shape"], attributes["dilations"], strict=True)]
    if any(pad >= size for pad, size in zip(attributes["pads"], (*reach, *reach), strict=True)):
        return Why.OUTSIDE()
    return Fused("", _given(match, "x"), attributes)


def _average_pool(match: Match) -> Binding:
    """An activation alone is the average of one pixel, which every machine that averages does exactly."""
    node, (x,) = match.nodes.get("pool"), _given(match, "x")
    if node is None:
        return Fused("", (x,), {"kernel_shape": (1, 1), **ONE_STEP})
    if is_operator(node, "AveragePool"):
        found = _window(match, node)
        return Why.DIVISOR() if isinstance(found, Fused) and _border(node, found) else found
    return _whole_picture(match, node)


def _whole_picture(match: Match, node: ir.Node) -> Binding:
    """A pool over height and width."""
    (x,) = _given(match, "x")
    if is_operator(node, "ReduceMean", "ReduceMax"):
        axes = constant(match.tensor("axes"))
        if axes is None or sorted(int(axis) % 4 for axis in axes.ravel()) != [2, 3] or not integer(node, "keepdims", 1):
            return Why.NOT_WHOLE(reduction="mean" if is_operator(node, "ReduceMean") else "maximum")
    return Fused("", (x,), {"kernel_shape": shape_of(x)[2:], **ONE_STEP})


def _border(node: ir.Node, pool: Fused) -> bool:
    """Whether a window that reaches into the padding divides by less than its size."""
    reached: tuple[int, ...] = pool.attributes["pads"]
    if not any(reached):
        return False
    automatic = text(node, "auto_pad", "NOTSET") != "NOTSET"
    declared = reached if automatic else ints(node, "pads", (0, 0, 0, 0))
    return not integer(node, "count_include_pad", 0) or any(a > b for a, b in zip(reached, declared, strict=True))


def _concat(match: Match) -> Binding:
    """Channels are the second axis of pictures, and the last of a sequence [n, rows, channels]."""
    operands = match.tensors["x"]
    rank = len(shape_of(operands[0]))
    axis, channels = integer(match.nodes["concat"], "axis", 1) % rank, 2 if rank == 3 else 1
    if axis != channels:
        return Why.ROWS_BEHIND_ROWS() if rank == 3 and axis == 1 else Why.OTHER_AXIS()
    return Fused(str(len(operands)), tuple(operands), {"axis": axis})


def _upsample(match: Match) -> Binding:
    node, (x,) = match.nodes["resize"], _given(match, "x")
    size, result = shape_of(x), shape_of(node.outputs[0])
    factors = tuple(after // before for before, after in zip(size, result, strict=True))
    if factors[:2] != (1, 1) or tuple(a * b for a, b in zip(size, factors, strict=True)) != result:
        return Why.NO_WHOLE_FACTOR()
    return Fused("", (x,), {"factors": factors[2:]}) if repeats(node) else Why.NOT_REPEATED()


def _pad(match: Match) -> Binding:
    node, (x,) = match.nodes["pad"], _given(match, "x")
    pads, value, rank = constant(match.tensor("pads")), constant(match.tensor("value")), len(shape_of(x))
    if text(node, "mode", "constant") != "constant" or (value is not None and value.any()) or match.tensor("axes") is not None:
        return Why.PAD_VALUE()
    if pads is None or (pads < 0).any() or rank != 4 or pads[[0, 1, rank, rank + 1]].any():
        return Why.PAD_AXES()
    return Fused("", (x,), {"pads": tuple(int(pad) for pad in pads)})


def _flatten(match: Match) -> Binding:
    (x,) = _given(match, "x")
    size, result = shape_of(x), shape_of(match.nodes["flatten"].outputs[0])
    if result == (size[0], int(np.prod(size[1:]))):
        return Fused("", (x,), {})
    heads = len(result) == 3 and len(size) == 4 and result[:1] == size[:1]
    return Why.ROW_SEQUENCE() if heads else Why.NOT_FLATTENED()


def _shuffle(match: Match) -> Binding:
    (x,) = _given(match, "x")
    size, apart, result = shape_of(x), known_shape(match.nodes["apart"].outputs[0]), shape_of(match.nodes["together"].outputs[0])
    swapped = ints(match.nodes["swap"], "perm", ()) == (0, 2, 1, 3, 4)
    if apart is None or len(apart) != 5 or not swapped or result != size or (apart[0], apart[1] * apart[2], *apart[3:]) != size:
        return Why.NOT_SHUFFLED()
    return Fused("", (x,), {"group": apart[1]})


def _slice(match: Match) -> Binding:
    """Starts, ends and steps of all axes, counted from the front."""
    (x,), boxes = _given(match, "x"), _boxes(match)
    if boxes is None:
        return Why.BACKWARDS()
    return Fused("", (x,), {"starts": [box[0] for box in boxes], "sizes": [len(box) for box in boxes], "steps": [box.step for box in boxes]})


def _append_rows(match: Match) -> Binding:
    """The last rows of a sequence, and others behind them, as many as went."""
    (x, z), boxes = _given(match, "x", "z"), _boxes(match)
    batch, rows, channels = shape_of(x)
    _, added, _ = shape_of(z)
    if integer(match.nodes["join"], "axis", 1) % SEQUENCE != 1:
        return Why.OTHER_AXIS()
    kept = [range(batch), range(added, rows), range(channels)]
    return Fused("", (x, z), {}) if boxes == kept and added < rows else Why.ROWS_BEHIND_ROWS()


def _boxes(match: Match) -> list[range] | None:
    """The places of each axis that a slice keeps; None where they go backwards, or there are none."""
    size = shape_of(match.tensors["x"][0])
    starts, ends = _whole_numbers(match, "starts"), _whole_numbers(match, "ends")
    axes = _whole_numbers(match, "axes") or list(range(len(starts)))
    steps = _whole_numbers(match, "steps") or [1] * len(starts)
    boxes = [range(extent) for extent in size]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        boxes[axis] = boxes[axis][start:end:step]
    return None if min(steps) < 1 or not all(boxes) else boxes


def _whole_numbers(match: Match, name: str) -> list[int]:
    """The values of a constant operand; none where it was left out."""
    array = constant(match.tensor(name))
    return [] if array is None else [int(value) for value in array.ravel()]


_READERS: Mapping[str, Callable[[Match], Binding]] = MappingProxyType(
    {
        "convolution": _conv2d,
        "transposed_convolution": _transposed_convolution,
        "dense": _dense,
        "max_pool": _max_pool,
        "average_pool": _average_pool,
        "concat": _concat,
        "upsample": _upsample,
        "pad": _pad,
        "flatten": _flatten,
        "shuffle": _shuffle,
        "slice": _slice,
        "append_rows": _append_rows,
    }
)
"""Readers of operators whose ONNX forms are irregular: automatic padding, windows that round up, biases of any shape."""
READERS = tuple(_READERS)
