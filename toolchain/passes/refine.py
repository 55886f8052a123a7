"""Weights and biases chosen by the error of each layer's output on samples, layer by layer, every layer seeing the integers of those before it.

The scale of the weights is the one whose rounded weights put the output off by least: it may clip a few. Then each weight goes up or down so that the
output is off by less (see graph.least_squares), and the bias takes out what remains of the mean error in each channel.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from toolchain.graph.calibration import Samples, Table
from toolchain.graph.calls import FLOAT_NAME, SCALE, Call, read_call
from toolchain.graph.functions import INTEGER, kind_of
from toolchain.graph.least_squares import damped, normalised, output_errors, round_channels, round_rows
from toolchain.graph.numerics import Numerics
from toolchain.graph.requantisation import Stored, TooFineError, channel_steps, stored_product
from toolchain.graph.rewrite import constant
from toolchain.graph.statistics import Moments, moments_of
from toolchain.graph.stepping import Stepper
from toolchain.passes.fuse import INNER
from toolchain.spec.errors import UserError

Array = np.typing.NDArray[Any]
Reals = np.typing.NDArray[np.float64]
Say = Callable[[str], None]
HALVINGS = 4
"""Scales of the weights that are tried: the one that clips none, and its halves."""
TRIED = 2
"""Of these scales, those that are best for weights rounded to the nearest are tried with the best rounding."""
FRACTIONS = tuple(1 - n / 16 for n in range(10))
"""The same for machines whose scales are not powers of two."""


@dataclass(frozen=True)
class Layer:
    """A convolution or dense layer of the float network that became integers."""

    call: Call
    weights: Array
    bias: Array


@dataclass(frozen=True)
class Refined:
    """error: of the layer's outputs by its rounded weights, as a share of their energy, both by damped products (see graph.least_squares); 0 where
    nothing was seen of them."""

    stored: Stored
    error: float


def refine(
    model: ir.Model, layers: Mapping[str, Layer], numerics: Numerics, table: Table, samples: Samples, count: int, say: Say
) -> dict[str, float]:
    """Changes the constants of a quantised model's layers in place. layers: by name of the integer call. count: samples to look at.

    Answers with the error of each layer's outputs that its rounded weights make, as a share of their energy.
    """
    stepper, errors = Stepper(model), dict[str, float]()
    stepper.feed(samples, count)
    nodes = list(model.graph)
    for number, node in enumerate(nodes):
        name = node.name or ""
        if node.domain == INTEGER and kind_of(node) in ("conv2d", "dense") and name in layers:
            say(f"operator {number + 1} of {len(nodes)}, {name}")
            found = _refined(node, layers[name], stepper, numerics, table)
            if found is not None:
                _store(node, found.stored)
                errors[name] = found.error
        stepper.run(node)
    return errors


def _refined(node: ir.Node, layer: Layer, stepper: Stepper, numerics: Numerics, table: Table) -> Refined | None:
    """None where no better integers exist than those that the node has."""
    value = node.inputs[0]
    assert value is not None
    scales = tuple(float.fromhex(each.metadata_props[SCALE]) for each in (value, node.outputs[0]))
    seen = moments_of(layer.call, stepper.values[value], layer.weights.shape)
    moments = replace(seen, products=np.stack([damped(products, seen.rows) for products in seen.products]))
    wanted = table.tensors.get(node.metadata_props.get(INNER) or node.outputs[0].metadata_props.get(FLOAT_NAME, ""))
    means = np.asarray(wanted.means) if wanted is not None and len(wanted.means) == len(layer.weights) else None
    candidates = _candidates(layer.weights, numerics)
    hopeful = sorted(candidates, key=lambda steps: _plain_error(layer, steps, moments, numerics))[:TRIED]
    tried = [_with_steps(layer, steps, moments, means, (scales[0], scales[1]), numerics) for steps in (*hopeful, *candidates[:1])]
    return min((found for found in tried if found is not None), key=lambda found: found.error, default=None)


def _candidates(weights: Array, numerics: Numerics) -> list[Reals]:
    """Scales of each channel's weights."""
    largest = float(np.abs(weights).max(initial=0.0)) or 1.0
    if numerics.form == "multiplier":
        plain = channel_steps(weights.astype(np.float32), largest / numerics.weight.high, numerics)
        return [plain * fraction for fraction in FRACTIONS]
    top = 2.0 ** np.ceil(np.log2(largest / numerics.weight.high))
    return [np.full(len(weights), top / 2.0**n) for n in range(HALVINGS)]


def _plain_error(layer: Layer, steps: Reals, moments: Moments, numerics: Numerics) -> float:
    """Of weights rounded to the nearest: the least that a scale promises."""
    rows = _rows(layer.weights, len(moments.products)) / steps.reshape(len(moments.products), -1, 1)
    found = np.clip(np.rint(rows), numerics.weight.low, numerics.weight.high)
    return _share(found, layer.weights, steps, moments)


def _rows(weights: Array, groups: int) -> Reals:
    """[groups, rows, k]."""
    return weights.reshape(groups, len(weights) // groups, -1).astype(np.float64)


def _share(found: Reals, weights: Array, steps: Reals, moments: Moments) -> float:
    """The energy of the output's error over that of the output, without its bias."""
    groups = len(moments.products)
    column, rows = steps.reshape(groups, -1, 1), _rows(weights, groups)
    noise = sum(float(output_errors(e, h).sum()) for e, h in zip(found * column - rows, moments.products, strict=True))
    signal = sum(float(output_errors(w, h).sum()) for w, h in zip(rows, moments.products, strict=True))
    return noise / signal if signal > 0 else 0.0


def _with_steps(layer: Layer, steps: Reals, moments: Moments, means: Reals | None, scales: tuple[float, float], numerics: Numerics) -> Refined | None:
    """The layer with weights of these scales; None where the machine has no such integers."""
    groups, limits = len(moments.products), (numerics.weight.low, numerics.weight.high)
    scaled = _rows(layer.weights, groups) / steps.reshape(groups, -1, 1)
    hessians = np.stack([normalised(products) for products in moments.products])
    if scaled.shape[1] == 1:
        rounded = round_channels(scaled[:, 0], hessians, *limits)[:, None]
    else:
        rounded = np.stack([round_rows(rows, hessian, *limits) for rows, hessian in zip(scaled, hessians, strict=True)])
    stored = rounded.reshape(layer.weights.shape).astype(np.int8)
    bias = _centred(layer, rounded, steps, moments, means, scales[0])
    try:
        return Refined(
            stored_product(layer.call, stored, steps, bias, (scales[0], float(steps[0]), scales[1]), numerics),
            _share(rounded, layer.weights, steps, moments),
        )
    except (TooFineError, UserError):
        return None


def _centred(layer: Layer, rounded: Reals, steps: Reals, moments: Moments, means: Reals | None, scale: float) -> Reals:
    """The bias at which the mean of each channel is that of the float network; where that is not known, of the float weights on these inputs."""
    groups = len(moments.products)
    sums = np.einsum("gok,gk->go", rounded, moments.means).reshape(-1) * steps * scale
    if means is not None:
        return means - sums
    floats = np.einsum("gok,gk->go", _rows(layer.weights, groups), moments.means).reshape(-1) * scale
    return layer.bias.astype(np.float64) + floats - sums


def _store(node: ir.Node, stored: Stored) -> None:
    """Gives the node its constants and attributes; the constants are its own."""
    for value, array in zip(node.inputs[1:], stored.constants, strict=True):
        assert value is not None
        value.const_value = ir.Tensor(array, name=value.name)
    for name, attribute in stored.attributes.items():
        if name in node.attributes and isinstance(attribute, int):
            node.attributes[name] = ir.AttrInt64(name, attribute)


def layer_of(model: ir.Model, node: ir.Node) -> Layer:
    """Weights and bias of a fused call."""
    weights, bias = (constant(model.graph.initializers[value.name or ""]) for value in node.inputs[1:3] if value is not None)
    assert weights is not None
    assert bias is not None
    return Layer(read_call(node), np.asarray(weights, np.float32), np.asarray(bias, np.float32))
