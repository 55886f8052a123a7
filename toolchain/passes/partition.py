"""Makes regions of what the machine computes: maximal convex sets of operations, each a local function that names its kernels; the rest says why it
stays."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

import onnx_ir as ir

from toolchain.graph.integers.calls import Reasons, note_reasons, note_refusals, reasons_of, refusals_of
from toolchain.graph.nodes.node_text import shape_text
from toolchain.graph.nodes.rewrite import given_names, known_shape
from toolchain.graph.regions import REGION, TARGET
from toolchain.passes.base import Pass
from toolchain.passes.context import Context
from toolchain.passes.fuse import unknown
from toolchain.passes.leave import absorb_activations
from toolchain.passes.outline import outline
from toolchain.passes.placement import is_boundary, owner_of, place_calls
from toolchain.spec.errors import Diagnostic, UserError
from toolchain.spec.reasons import Why, texts_of


@dataclass(frozen=True)
class Partition(Pass):
    """fallback: whether operations may stay on the host, besides the conversions at the border."""

    name: ClassVar[str] = "partition"
    requires: ClassVar[tuple[str, ...]] = ("quantized",)
    ensures: ClassVar[tuple[str, ...]] = ("partitioned",)
    fallback: bool = True

    def run(self, model: ir.Model, context: Context) -> ir.Model:
        if context.before:
            absorb_activations(model)
        nodes = list(model.graph)
        placement = place_calls(nodes, context.devices, context.policy)
        inside = {node for region in placement.regions for node in region}
        left = [node for node in nodes if node not in inside]
        for node in left:
            _note(node, (Why.CONVERTS(),) if is_boundary(node) else _reasons(node, placement.refused), context)
        if not self.fallback:
            _refuse([node for node in left if not is_boundary(node)], context)
        names = (name for number in count() if (name := f"region{number}") not in given_names(model.graph))
        for name, region in zip(names, placement.regions, strict=False):
            device = owner_of(region[0], context.devices)
            call = outline(model, region, REGION, name, {TARGET: device.name if device else ""})
            if device:
                device.settles(model, call)
        model.graph.sort()
        return model


def _reasons(node: ir.Node, refused: Mapping[ir.Node, Reasons]) -> Reasons:
    return refused.get(node) or reasons_of(node) or (unknown(node),)


def _note(node: ir.Node, reasons: Reasons, context: Context) -> None:
    """Of several machines' reasons, those of the first stand for all; the others are beside them."""
    asked = owner_of(node, context.devices) or context.device
    if context.before and asked is not None and not is_boundary(node):
        note_refusals(node, {asked.name: reasons})
        reasons = refusals_of(node).get(context.before[0].name, reasons)
    note_reasons(node, *reasons)


def _refuse(left: list[ir.Node], context: Context) -> None:
    """Raises UserError E0920 with every node that stays on the host."""
    if left:
        raise UserError(*(Diagnostic("E0920", _told(node), place=context.place, hint="fallback=yes leaves it to the host") for node in left))


def _told(node: ir.Node) -> str:
    value = node.outputs[0]
    where = f"node '{node.name}' ({node.op_type}), which makes '{value.name}' of shape {shape_text(known_shape(value))}"
    return f"{where}, cannot run on the machine: {texts_of(reasons_of(node))}"
