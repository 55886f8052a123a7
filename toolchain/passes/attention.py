"""Recognise attention by heads, and say it on sequences: shares of keys, and values by shares, which fusing makes a call each. No head is moved.

Exporters spell it as products of [batch, heads, rows, channels of a head], with a Reshape and a Transpose before and behind each. On sequences
[batch, rows, channels] heads are channels side by side, which is how the layers around leave them. A machine that stores channels in blocks may have
zeros behind the shares of each head, so that the next head begins at a block.

Heads that are no whole blocks of channels get zeros behind the channels of each head. The layers that make queries, keys and values make the zeros,
and the layer that reads the context multiplies them by zeros. A machine divides scores by the root of all channels of a head, so the weights of
queries grow by the root of the ratio, and the model's own factor shrinks by it.
"""

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from toolchain.graph.integers.calls import fused_call
from toolchain.graph.quantisation.table import LIKE
from toolchain.graph.rewrite import (
    BY_HEADS,
    KEYS_LAST,
    add_constant,
    constant,
    drop_unused_constants,
    fresh_name,
    integer,
    ints,
    is_operator,
    known_shape,
    multiplied,
    single_use,
    substitute,
)
from toolchain.operations.library import Kinds
from toolchain.passes.attention_parts import Mask, chain, find_mask, made_by, only_reader, scaled, split
from toolchain.passes.context import Device
from toolchain.spec.arrays import Array

SEQUENCE = 3
"""Axes of [batch, rows, channels]."""
CLOSE = 1e-5
"""Relative difference of a factor from 1 / sqrt(channels of a head) that exporters' roundings make."""


@dataclass(frozen=True)
class Family:
    """The operations of an attention's halves, by name. mask: axes of the mask. spaced: whether zeros may stand behind the shares of a head."""

    probabilities: str
    masked: str
    values: str
    mask: int
    spaced: bool

    @property
    def operations(self) -> frozenset[str]:
        return frozenset((self.probabilities, self.masked, self.values))


FAMILIES = (
    Family("attention_probabilities", "masked_attention_probabilities", "attention_values", 2, spaced=False),
    Family("spaced_attention_probabilities", "spaced_masked_attention_probabilities", "spaced_attention_values", 3, spaced=True),
)
"""In the order in which a machine is asked."""


@dataclass(frozen=True)
class Attention:
    """queries, keys, values: sequences [batch, rows, channels]. heads: of queries, `share` of which look at the same head of keys and values.
    of_shares, of_values: the nodes of each half, readers first. shares: the result of the first half, a sequence where a pass has laid it out as one.
    """

    queries: ir.Value
    keys: ir.Value
    values: ir.Value
    heads: int
    of_shares: tuple[ir.Node, ...]
    of_values: tuple[ir.Node, ...]
    mask: Mask | None = None
    share: int = 1

    @property
    def shares(self) -> ir.Value:
        return self.of_shares[0].outputs[0]

    @property
    def laid_out(self) -> bool:
        """Whether the shares stand as a sequence [batch, rows, heads * (keys + spare)]."""
        return len(known_shape(self.shares) or ()) == SEQUENCE

    @property
    def keys_of_head(self) -> int:
        return (known_shape(self.keys) or (0, 0, 0))[1]

    @property
    def spare(self) -> int:
        """Zeros behind the shares of each head, once they are laid out."""
        return (known_shape(self.shares) or (0,))[-1] // self.heads - self.keys_of_head if self.laid_out else 0

    def fits(self, family: Family) -> bool:
        """Whether its mask and the zeros behind its shares are those of a family, or can become them."""
        if (self.mask is not None and not _takes(family, self.mask)) or (self.share > 1 and not family.spaced):
            return False
        laid = self.mask is None or self.mask.row is None or len(known_shape(self.mask.row) or ()) == family.mask
        return not self.laid_out or (laid and (family.spaced or not self.spare))

    @property
    def taken(self) -> tuple[ir.Node, ...]:
        return (*self.of_values, *self.of_shares)


def _takes(family: Family, mask: Mask) -> bool:
    """Whether a mask can be laid out for a family. The host hands over numbers that the machine's format does not hold as its least, so none is an
    infinity."""
    return family.spaced or (mask.queries == 1 and not mask.known)


def find_attention(softmax: ir.Node) -> Attention | None:
    """The attention that a Softmax is part of; None for any other Softmax."""
    if not is_operator(softmax, "Softmax") or integer(softmax, "axis", -1) not in (-1, 3):
        return None
    masked = find_mask(softmax.inputs[0])
    scores = scaled(masked[1] if masked else softmax.inputs[0])
    product = made_by(scores.value, "MatMul")
    there, back = _laid_out(softmax.outputs[0])
    shares = (back[0] if back else softmax).outputs[0]
    context = only_reader(shares, "MatMul")
    moved = context and only_reader(context.outputs[0], "Transpose")
    joined = moved and only_reader(moved.outputs[0], "Reshape")
    if (
        not (product and context and moved and joined)
        or context.inputs[0] is not shares
        or bool(there) != bool(back)
        or ints(moved, "perm", ()) != BY_HEADS
    ):
        return None
    queries, keys, values = split(product.inputs[0], BY_HEADS), split(product.inputs[1], KEYS_LAST), split(context.inputs[1], BY_HEADS)
    if not (queries and keys and values) or values.factor != 1 or queries.share != 1 or (keys.heads, keys.share) != (values.heads, values.share):
        return None
    if queries.heads != keys.heads * keys.share:
        return None
    mask, factor = masked[0] if masked else None, queries.factor * keys.factor * scores.factor
    rows, others, given, made = (known_shape(value) or () for value in (queries.source, keys.source, values.source, joined.outputs[0]))
    batches = {shape[:1] for shape in (rows, others, *([mask.extents] if mask and not mask.known else []))}
    if len(rows) != SEQUENCE or rows != made or others != given or len(batches) > 1 or (mask and mask.queries not in (1, rows[1])):
        return None
    if abs(factor * math.sqrt(rows[-1] // queries.heads) - 1) > CLOSE:
        return None
    of_shares = (*there, softmax, *(mask.taken if mask else ()), *scores.taken, product, *keys.taken, *queries.taken)
    of_values = (joined, moved, context, *values.taken, *back)
    return Attention(queries.source, keys.source, values.source, queries.heads, of_shares, of_values, mask, keys.share)


def _laid_out(shares: ir.Value) -> tuple[tuple[ir.Node, ...], tuple[ir.Node, ...]]:
    """The nodes that make a sequence of shares [batch, heads, rows, keys], and those that undo it, readers first; none where there are none."""
    spaced = chain(shares, "Pad", "Transpose", "Reshape")
    there = spaced or chain(shares, "Transpose", "Reshape")
    back = chain(there[0].outputs[0], "Reshape", "Transpose", *(["Slice"] if spaced else [])) if there else ()
    if not back or (spaced and not _spares(spaced[-1], back[0])):
        return there, ()
    return there, back


def _spares(pad: ir.Node, cut: ir.Node) -> bool:
    """Whether a Pad adds nothing but zeros behind the keys, and a Slice leaves nothing but them out."""
    shape = known_shape(pad.inputs[0]) or (0, 0, 0, 0)
    pads, *others = (constant(value) for value in pad.inputs[1:])
    bounds = [constant(value) for value in cut.inputs[1:]]
    if pads is None or any(array is None or array.any() for array in others) or any(array is None for array in bounds):
        return False
    spare = int(pads.ravel()[-1])
    told = [[int(number) for number in np.ravel(array)] for array in bounds if array is not None]
    return spare >= 0 and pads.ravel().tolist() == [0] * 7 + [spare] and told == [[0], [shape[-1]], [3]] and not pad.attributes


def replace_attention(model: ir.Model, found: Attention, family: Family, kinds: Kinds) -> tuple[ir.Node, ir.Node]:
    """The two calls in the place of the nodes of an attention that is laid out."""
    softmax = next(node for node in found.of_shares if is_operator(node, "Softmax"))
    attributes, row = {"heads": found.heads, **({"spare": found.spare} if family.spaced else {})}, found.mask.row if found.mask else None
    sharing = {"share": found.share} if family.spaced else {}
    kind, operands = kinds[family.probabilities if row is None else family.masked], [found.queries, found.keys, *([] if row is None else [row])]
    shares = fused_call(model, kind, "", operands, attributes, softmax.name or found.shares.name or "")
    product = found.of_values[2]
    substitute(model.graph, found.of_shares, [shares])
    values = fused_call(
        model, kinds[family.values], "", [shares.outputs[0], found.values], attributes | sharing, product.name or product.outputs[0].name or ""
    )
    substitute(model.graph, found.of_values, [values])
    return shares, values


def family_for(device: Device | None, found: Attention) -> Family | None:
    """The first of the families of which a machine computes both halves, and that an attention is laid out for, once it is; None where there is
    none."""
    computes = None if device is None else device.computes
    for each in FAMILIES:
        wanted = {each.masked if found.mask else each.probabilities, each.values}
        if (computes is None or computes >= wanted) and found.fits(each):
            return each
    return None


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
