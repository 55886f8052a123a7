"""Cross-layer equalisation moves scales of channels between layers, so that one scale for a whole tensor wastes less of it. Cross-layer bias
correction moves the integer network's mean of each channel onto the float network's, layer by layer.

Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction (2019), section 4.1: a tensor's channel may be divided by a
factor that the weights of its readers take in, where all that lies between is positively homogeneous. Here for the sums of residual networks,
whose makers and readers share the factors; and for inputs of depthwise convolutions, where no sum over channels evens errors out.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from toolchain.graph.integers import calls
from toolchain.graph.integers.calls import BOUNDARY, FLOAT_NAME, SCALE, Call, aligned, read_call, run_call
from toolchain.graph.integers.functions import kind_of
from toolchain.graph.operators import affine_of
from toolchain.graph.quantisation.requantisation import too_large
from toolchain.graph.quantisation.table import joined
from toolchain.graph.rewrite import add_constant, constant, drop_unused_constants, fresh_name, integer, is_operator, known_shape, multiplied
from toolchain.operations.ending import SCALINGS, Scaling, scaling_of
from toolchain.operations.reference import call_sums
from toolchain.passes.context import Context, Pass
from toolchain.passes.fuse import INNER
from toolchain.passes.remove_qdq import declares_ranges
from toolchain.spec.arrays import Array, Reals
from toolchain.spec.errors import fail
from toolchain.spec.model.quantisation import Numerics

Vector = np.typing.NDArray[np.float64]
LEAST_RANGE = 2.0**-8
"""A channel whose weights are smaller, in shares of the largest of all, counts as that small: eight bits hold nothing of it."""
TRANSPARENT = ("Relu", "LeakyRelu", "MaxPool", "AveragePool", "GlobalAveragePool")
"""Operators on one tensor that a positive factor of a channel goes through."""


@dataclass(frozen=True)
class Group:
    """Tensors that share the factors of their channels, in the order of the graph; the convolutions and batch norms that make and that read them."""

    tensors: tuple[ir.Value, ...]
    makers: tuple[ir.Node, ...]
    readers: tuple[ir.Node, ...]


@dataclass(frozen=True)
class Equalise(Pass):
    """power: of the factors that would make the ranges equal; 1 all the way, 0 not at all. A model that is quantised already keeps its scales.

    Half the way is best where activations share a scale too (measured: bench/real).
    """

    name: ClassVar[str] = "equalise"
    requires: ClassVar[tuple[str, ...]] = ("no_constant_nodes", "no_batch_norm")
    power: float = 0.5

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        for group in [] if declares_ranges(model) else list(groups_of(model.graph)):
            _scale(model.graph, group, factors_of(group, self.power))
        drop_unused_constants(model.graph)
        return model


def groups_of(graph: ir.Graph) -> Iterator[Group]:
    """Every set of tensors with a sum among them, or a depthwise reader, that only convolutions and batch norms of constants make and read."""
    parents: dict[ir.Value, ir.Value] = {}
    for node in graph:
        if is_depthwise(node) and node.inputs[0] is not None:
            parents.setdefault(node.inputs[0], node.inputs[0])
        if is_operator(node, "Add", *TRANSPARENT):
            _unite(parents, [value for value in (*node.inputs[:2], node.outputs[0]) if value is not None and constant(value) is None])
    sets: dict[ir.Value, list[ir.Value]] = {}
    for node in graph:
        for value in node.outputs:
            if value in parents:
                sets.setdefault(_root(parents, value), []).append(value)
    sizes = Counter(_root(parents, value) for value in parents)
    for root, values in sets.items():
        group = _group(values) if len(values) == sizes[root] else None  # an input of the model is a tensor of no node
        if group is not None:
            yield group


def _unite(parents: dict[ir.Value, ir.Value], values: Sequence[ir.Value]) -> None:
    for value in values:
        parents.setdefault(value, value)
        parents[_root(parents, value)] = _root(parents, values[0])


def _root(parents: dict[ir.Value, ir.Value], value: ir.Value) -> ir.Value:
    while parents[value] is not value:
        value = parents[value]
    return value


def _group(values: Sequence[ir.Value]) -> Group | None:
    """None where something else makes or reads a tensor, or adds a constant to it, or where there is neither a sum nor a depthwise reader."""
    shapes, makers = [known_shape(value) or () for value in values], [value.producer() for value in values]
    if any(maker is not None and is_operator(maker, "Add") and any(constant(value) is not None for value in maker.inputs) for maker in makers):
        return None
    if any(len(shape) != 4 for shape in shapes) or len({shape[:2] for shape in shapes}) != 1:
        return None
    if any(value.is_graph_output() for value in values):
        return None
    layers = [maker for maker in makers if maker is not None and not is_operator(maker, "Add", *TRANSPARENT)]
    users = {node: None for value in values for node, _ in value.uses() if not is_operator(node, "Add", *TRANSPARENT)}
    inside = set(values)
    worth = any(is_operator(maker, "Add") for maker in makers) or any(map(is_depthwise, users))
    fits = worth and all(map(_is_layer, (*layers, *users))) and all(node.inputs[0] in inside for node in users)
    return Group(tuple(values), tuple(layers), tuple(users)) if fits and layers and users else None


def _is_layer(node: ir.Node) -> bool:
    known = all(constant(value) is not None for value in node.inputs[1:] if value is not None)
    return known and (is_operator(node, "Conv") or (affine_of(node) is not None and is_operator(node, "BatchNormalization")))


def is_depthwise(node: ir.Node) -> bool:
    """Whether a node is a convolution with one filter for each channel, of several pixels."""
    weights = constant(node.inputs[1]) if is_operator(node, "Conv") else None
    return weights is not None and weights.ndim == 4 and len(weights) == integer(node, "group", 1) > 1 and weights[0].size > 1


def factors_of(group: Group, power: float) -> Vector:
    """The divisor of each channel: the root of the ratio of its range in the makers' weights to that in the readers', to a power.

    Ranges are shares of a tensor's largest weight, and the largest of all makers or readers counts. Their geometric mean is 1.
    """
    made = np.max([_shares(np.abs(_weights(node)).reshape(len(_weights(node)), -1).max(1)) for node in group.makers], axis=0)
    read = np.max([_shares(_by_input(node)) for node in group.readers], axis=0)
    logarithms = power * 0.5 * (np.log(made) - np.log(read))
    return np.exp(logarithms - logarithms.mean())


def _shares(ranges: Array) -> Vector:
    return np.maximum(ranges.astype(np.float64) / max(float(ranges.max()), 1e-30), LEAST_RANGE)


def _by_input(node: ir.Node) -> Array:
    """The largest magnitude of the weights of each input channel."""
    weights, groups = np.abs(_weights(node)), integer(node, "group", 1)
    if weights.ndim == 1:
        return weights
    return weights.reshape(groups, len(weights) // groups, weights.shape[1], -1).max((1, 3)).reshape(-1)


def _weights(node: ir.Node) -> Array:
    """Weights of a layer; the factor of each channel of a batch norm."""
    found = affine_of(node) if is_operator(node, "BatchNormalization") else None
    array = constant(node.inputs[1]) if found is None else found[1]
    assert array is not None
    return array


def _scale(graph: ir.Graph, group: Group, factors: Vector) -> None:
    """Divides every tensor of a group by the factors; it gets another name, since it holds other values."""
    for node in group.makers:
        for index in range(1, min(len(node.inputs), 3)):
            _replace(graph, node, index, 1 / factors)
    for node in group.readers:
        if is_operator(node, "BatchNormalization"):
            _replace(graph, node, 1, factors)
            _replace(graph, node, 3, 1 / factors)
            continue
        weights, groups = _weights(node), integer(node, "group", 1)
        spread = np.broadcast_to(factors.reshape(groups, 1, -1), (groups, len(weights) // groups, weights.shape[1]))
        spread = spread.reshape(*weights.shape[:2], *(1,) * (weights.ndim - 2))
        _replace(graph, node, 1, spread)
    for value in group.tensors:
        value.name = fresh_name(graph, f"{value.name}.equalised")


def _replace(graph: ir.Graph, node: ir.Node, index: int, factors: Vector) -> None:
    """A constant times factors [outputs], or of its own shape; computed in float64, rounded once."""
    value = node.inputs[index]
    array = constant(value)
    if value is None or array is None:
        return
    fitting = factors.reshape(-1, *(1,) * (array.ndim - 1)) if factors.ndim == 1 else factors
    node.replace_input_with(index, add_constant(graph, f"{node.name}.{value.name}.equalised", multiplied(array, fitting)))


@dataclass(frozen=True)
class CorrectBias(Pass):
    """Runs the numpy reference, so the outcome is the same everywhere. samples: how many of the calibration's are used."""

    name: ClassVar[str] = "correct_bias"
    requires: ClassVar[tuple[str, ...]] = ("quantized",)
    ensures: ClassVar[tuple[str, ...]] = ("quantized",)
    samples: int = 8

    def run(self, model: ir.Model, context: Context) -> ir.Model:
        numerics, table = context.numerics, context.table
        if numerics is None or table is None or not context.samples:
            raise fail("E0918", "there is no calibration table, no sample, or no machine to quantise for", place=context.place)
        known: dict[ir.Value, Array] = {value: joined(context.samples[value.name or ""][: self.samples]) for value in model.graph.inputs}
        for node in model.graph:
            operands = [known.get(value) if (array := constant(value)) is None else array for value in node.inputs if value is not None]
            if node.domain != context.domain or any(operand is None for operand in operands):
                continue
            given = [operand for operand in operands if operand is not None]
            seen = table.tensors.get(node.metadata_props.get(INNER) or node.outputs[0].metadata_props.get(FLOAT_NAME, ""))
            call = None if kind_of(node) in BOUNDARY else read_call(node, context.kinds)
            means = aligned(node.outputs[0], np.asarray(seen.means) * calls.factors_of(node.outputs[0])) if seen is not None else None
            if call is not None and call.operation.bias and means is not None and len(means) == len(given[1]):
                given[2] = _corrected(node, call, given, means, numerics)
            known[node.outputs[0]] = run_call(node, given, numerics, context.kinds)
        return model


def _corrected(node: ir.Node, call: Call, operands: list[Array], wanted: Array, numerics: Numerics) -> Array:
    """The bias with the difference of the means added; as before where the sum would no longer fit."""
    sums = call_sums(call.operation, call.attributes, operands[: len(call.operation.operands)])
    step = _step(node, call, operands, numerics)
    rows = call.operation.operand[call.operation.bias].axes
    means = sums.mean(tuple(axis for axis, index in enumerate(call.operation.result.axes) if index not in rows))
    change = (wanted / step - means) / 2.0 ** call.attributes["bias_shift"]
    bias = np.clip(operands[2] + np.rint(change).astype(np.int64), numerics.bias.low, numerics.bias.high)
    value = node.inputs[2]
    shift = _scaling(call, operands, numerics).shift if numerics.form == "power_of_two" else 0
    zero = call.attributes.get(f"zero_{call.operation.data[0]}", 0)
    if value is None or too_large(operands[1], bias << call.attributes["bias_shift"], shift, numerics, zero).any():
        return operands[2]
    value.const_value = ir.Tensor(bias.astype(np.int32), name=value.name)
    return bias.astype(np.int32)


def _step(node: ir.Node, call: Call, operands: list[Array], numerics: Numerics) -> Reals:
    """The value of one unit of the sum: the output's scale times the scale of the sum."""
    result = float.fromhex(node.outputs[0].metadata_props[SCALE])
    found = _scaling(call, operands, numerics)
    return result * np.asarray(found.factor, np.float64) / 2.0**found.shift


def _scaling(call: Call, operands: list[Array], numerics: Numerics) -> Scaling:
    own = operands[len(call.operation.operands) :]
    return scaling_of(dict(zip(SCALINGS[numerics.form], own, strict=True)) if own else call.attributes)
