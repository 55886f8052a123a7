"""Attention whose heads are no whole blocks of channels, with zeros behind the channels of each head, for machines that store channels in blocks.

The layers that make queries, keys and values make the zeros, and the layer that reads the context multiplies them by zeros. A machine divides scores
by the root of all channels of a head, so the weights of queries grow by the root of the ratio, and the model's own factor shrinks by it.
"""

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from toolchain.graph.quantisation.table import LIKE
from toolchain.graph.rewrite import add_constant, constant, drop_unused_constants, fresh_name, ints, is_operator, known_shape, multiplied, single_use
from toolchain.passes.attention import Attention
from toolchain.passes.attention_parts import only_reader
from toolchain.spec.arrays import Array

CHANNELS = 3
"""The axis of channels in [batch, rows, heads, channels of a head]."""


@dataclass(frozen=True)
class _Layer:
    """A product of a sequence and known weights [inputs, heads * channels], and the sum of that with a known bias, if there is one."""

    product: ir.Node
    bias: ir.Node | None


@dataclass(frozen=True)
class _Wide:
    """heads, inner, wide: the channels of a head before and after. scale: the product or quotient by the model's own factor; growth: of queries."""

    graph: ir.Graph
    heads: int
    inner: int
    wide: int
    scale: ir.Node

    @property
    def growth(self) -> float:
        return math.sqrt(self.wide / self.inner)


def widen_heads(graph: ir.Graph, found: Attention, block: int) -> bool:
    """Whether it has changed the layers around an attention that is not laid out, so that its heads are whole blocks of channels: not where they are
    already, where heads of keys are shared, or where something but layers of known weights makes or reads them."""
    inner = (known_shape(found.queries) or (0,))[-1] // found.heads
    layers = [_layer(value) for value in (found.queries, found.keys, found.values)]
    joined, _, context = found.of_values[:3]
    behind = only_reader(joined.outputs[0], "MatMul")
    scale = next((node for node in found.of_shares if is_operator(node, "Mul", "Div")), None)
    product = next(node for node in found.of_shares if is_operator(node, "MatMul"))
    if inner % block == 0 or found.share > 1 or found.laid_out or scale is None or behind is None or not _reads(behind, joined.outputs[0]):
        return False
    if any(layer is None for layer in layers):
        return False
    wide = _Wide(graph, found.heads, inner, -(-inner // block) * block, scale)
    queries, keys, values = (layer for layer in layers if layer is not None)
    _rescale(graph, scale, wide.growth)
    grown = _widened(wide, queries, product, wide.growth) * _widened(wide, keys, product, 1.0)
    _widened(wide, values, context, 1.0)
    _follow_scores(wide, product, grown)
    _widen_context(wide, context, joined, behind)
    drop_unused_constants(graph)
    return True


def _layer(value: ir.Value) -> _Layer | None:
    """The layer that makes a sequence which nothing else reads."""
    maker = value.producer() if single_use(value) else None
    bias = maker if maker is not None and is_operator(maker, "Add") else None
    source = next((each for each in bias.inputs if each is not None and constant(each) is None), None) if bias is not None else value
    product = source.producer() if source is not None and single_use(source) else None
    known = [constant(each) for each in bias.inputs if each is not source] if bias is not None else []
    if product is None or not is_operator(product, "MatMul") or any(array is None or array.ndim != 1 for array in known):
        return None
    weights = constant(product.inputs[1])
    return _Layer(product, bias) if weights is not None and weights.ndim == 2 else None


def _reads(node: ir.Node, value: ir.Value) -> bool:
    """Whether a product is of a sequence and known weights."""
    weights = constant(node.inputs[1])
    return node.inputs[0] is value and weights is not None and weights.ndim == 2


def _rescale(graph: ir.Graph, node: ir.Node, growth: float) -> None:
    """Divides the number of a product by the growth, or multiplies that of a quotient."""
    index = next(place for place, value in enumerate(node.inputs) if constant(value) is not None)
    array = constant(node.inputs[index])
    assert array is not None
    factor = 1 / growth if is_operator(node, "Mul") else growth
    node.replace_input_with(index, add_constant(graph, f"{node.name}.wide", multiplied(array.reshape(-1), np.array(factor)).reshape(array.shape)))


def _widened(wide: _Wide, layer: _Layer, stop: ir.Node, factor: float) -> float:
    """Widens a layer's results, `factor` times what they were, and all that is made of them up to the node `stop`. Answers with the factor there."""
    _replace(wide, layer.product, 1, 1, factor)
    value, axis = layer.product.outputs[0], 2
    _name(wide, value, factor, wide.heads * wide.wide, axis)
    if layer.bias is not None:
        _replace(wide, layer.bias, next(k for k, each in enumerate(layer.bias.inputs) if each is not value), 0, factor)
    while (node := _reader(value)) is not stop:
        factor = factor / wide.growth if node is wide.scale else factor
        channels = wide.heads * wide.wide if node is layer.bias else wide.wide
        axis = CHANNELS if is_operator(node, "Reshape") else ints(node, "perm", ()).index(axis) if is_operator(node, "Transpose") else axis
        value = node.outputs[0]
        _name(wide, value, factor, channels, axis)
        if is_operator(node, "Reshape"):
            _resize(wide.graph, node)
    return factor


def _follow_scores(wide: _Wide, product: ir.Node, factor: float) -> None:
    """Names the scores up to the model's own factor, where they are other ones."""
    node = product
    while not math.isclose(factor, 1.0) and node is not wide.scale:
        _name(wide, node.outputs[0], factor)
        node = _reader(node.outputs[0])


def _widen_context(wide: _Wide, context: ir.Node, joined: ir.Node, behind: ir.Node) -> None:
    """Widens what attention makes, and the weights of the layer that reads it."""
    moved = _reader(context.outputs[0])
    for node in (context, moved):
        _name(wide, node.outputs[0], 1.0, wide.wide, CHANNELS)
    _name(wide, joined.outputs[0], 1.0, wide.heads * wide.wide, 2)
    _resize(wide.graph, joined)
    _replace(wide, behind, 1, 0, 1.0)


def _reader(value: ir.Value) -> ir.Node:
    """The only node that reads a tensor."""
    (reader,) = {node for node, _ in value.uses()}
    return reader


def _name(wide: _Wide, value: ir.Value, factor: float, size: int = 0, axis: int = 0) -> None:
    """A new name for a tensor, which holds other values: `factor` times the old ones, and zeros. size: along an axis, if that changes."""
    shape, old = list(known_shape(value) or ()), value.name or ""
    if size:
        shape[axis] = size
        value.shape = ir.Shape(shape)
    value.metadata_props[LIKE] = f"{factor.hex()} {old}"
    value.name = fresh_name(wide.graph, f"{old}.wide")


def _resize(graph: ir.Graph, node: ir.Node) -> None:
    """Gives a Reshape the sizes of its result."""
    sizes = np.array(known_shape(node.outputs[0]), np.int64)
    node.replace_input_with(1, add_constant(graph, f"{node.outputs[0].name}.sizes", sizes))


def _replace(wide: _Wide, node: ir.Node, index: int, axis: int, factor: float) -> None:
    """A constant of a layer, `factor` times what it was, with zeros behind the channels of each head along an axis."""
    value = node.inputs[index]
    array = constant(value)
    assert value is not None
    assert array is not None
    grown = multiplied(array, np.array(factor)) if factor != 1 else array
    node.replace_input_with(index, add_constant(wide.graph, f"{value.name}.wide", spaced(grown, axis, wide.heads, wide.wide)))


def spaced(array: Array, axis: int, heads: int, wide: int) -> Array:
    """Heads side by side along an axis, with zeros behind each so that it has `wide` elements."""
    before, after = array.shape[:axis], array.shape[axis + 1 :]
    inner = array.shape[axis] // heads
    found = np.zeros((*before, heads, wide, *after), array.dtype)
    found[(slice(None),) * (axis + 1) + (slice(0, inner),)] = array.reshape(*before, heads, inner, *after)
    return found.reshape(*before, heads * wide, *after)
