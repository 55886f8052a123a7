"""The pass that lays out attention for a machine: shares of keys once as a sequence, rotary positions and caches too, heads in whole blocks."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from toolchain.graph.rewrite import BY_HEADS, add_constant, known_shape, reshape_node, typed_node
from toolchain.passes.align_joins import WIDEST
from toolchain.passes.attention import Attention, family_for, find_attention
from toolchain.passes.attention_parts import lay_out_mask
from toolchain.passes.context import Context, Device, Pass
from toolchain.passes.lay_out_caches import lay_out_caches, lay_out_rows
from toolchain.passes.lay_out_rotary import lay_out_rotary
from toolchain.passes.widen_heads import widen_heads


@dataclass(frozen=True)
class LayOutAttention(Pass):
    """The shares of every attention stand once as a sequence [batch, rows, heads * (keys + spare)], and rotary positions and caches on sequences, for
    machines that compute them so."""

    name: ClassVar[str] = "lay_out_attention"
    requires: ClassVar[tuple[str, ...]] = ("no_constant_nodes",)

    def run(self, model: ir.Model, context: Context) -> ir.Model:
        lay_out_rotary(model.graph, context.device)
        lay_out_caches(model.graph, context.device)
        lay_out_rows(model.graph, context.device)
        for node in list(model.graph):
            found = find_attention(node)
            if found is not None and _widened(model.graph, found, context.device):
                found = find_attention(node)
            family = None if found is None or found.laid_out else family_for(context.device, found)
            if found is not None and family is not None:
                _lay_out(model.graph, found, spare_for(context.device, found) if family.spaced else 0)
                if found.mask is not None:
                    lay_out_mask(model.graph, found.mask, family.mask, (known_shape(found.queries) or (1,))[0])
        return model


def _widened(graph: ir.Graph, found: Attention, device: Device | None) -> bool:
    """Whether the heads had to become whole blocks of a machine that computes both halves of the attention."""
    able = device is not None and device.computes is not None and family_for(device, found) is not None
    return able and widen_heads(graph, found, _block_of(device))


def _block_of(device: Device | None) -> int:
    """Channels of a block at which a tensor can begin inside another; 1 where no block matters."""
    return device.block if device is not None and device.block <= WIDEST else 1


def spare_for(device: Device | None, found: Attention) -> int:
    """How many zeros behind its shares fill up the last block of a head."""
    return -found.keys_of_head % _block_of(device)


def _lay_out(graph: ir.Graph, found: Attention, spare: int) -> None:
    """Puts a Transpose and a Reshape behind the softmax, and the same back; a Pad before the first and a Slice behind the last where there is
    something to spare."""
    shares, product = found.shares, found.of_values[2]
    batch, heads, rows, keys = known_shape(shares) or (0, 0, 0, 0)
    name = shares.name or ""
    room, made = keys + spare, [_padded(graph, shares, spare)] if spare else []
    source = made[-1].outputs[0] if made else shares
    turned = typed_node(graph, "Transpose", [source], (batch, rows, heads, room), shares.type, f"{name}.turned", perm=BY_HEADS)
    joined = reshape_node(graph, turned.outputs[0], (batch, rows, heads * room), f"{name}.rows")
    apart = reshape_node(graph, joined.outputs[0], (batch, rows, heads, room), f"{name}.apart")
    back = typed_node(graph, "Transpose", apart.outputs, (batch, heads, rows, room), shares.type, f"{name}.back", perm=BY_HEADS)
    made += [turned, joined, apart, back]
    if spare:
        made.append(_cut(graph, back.outputs[0], (batch, heads, rows, keys), f"{name}.cut"))
    graph.insert_before(product, made)
    product.replace_input_with(0, made[-1].outputs[0])


def _padded(graph: ir.Graph, value: ir.Value, spare: int) -> ir.Node:
    """A Pad, not yet in the graph, of zeros behind the last of four axes."""
    name, shape = f"{value.name}.spaced", known_shape(value) or (0,)
    pads = add_constant(graph, f"{name}.pads", np.array([0] * 7 + [spare], np.int64))
    return typed_node(graph, "Pad", [value, pads], (*shape[:-1], shape[-1] + spare), value.type, name)


def _cut(graph: ir.Graph, value: ir.Value, shape: tuple[int, ...], name: str) -> ir.Node:
    """A Slice, not yet in the graph, of the first elements along the last of four axes. shape: of its result."""
    bounds = [add_constant(graph, f"{name}.{end}", np.array([number], np.int64)) for end, number in (("first", 0), ("stop", shape[-1]), ("axis", 3))]
    return typed_node(graph, "Slice", [value, *bounds], shape, value.type, name)
