"""Gives the machine what it takes: every maximal convex set of such operations becomes a region; what stays on the host says why."""

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from toolchain.graph.calls import BOUNDARY
from toolchain.graph.functions import INTEGER, kind_of
from toolchain.graph.regions import REGION, TARGET
from toolchain.graph.rewrite import shape_of
from toolchain.passes.base import Pass
from toolchain.passes.context import Context, Device
from toolchain.passes.convex import convex_groups
from toolchain.passes.fuse import REASON
from toolchain.passes.outline import outline
from toolchain.spec.errors import UserError, fail

NO_DEVICE = "no machine was named"
CONVERTS = "converts between floating point and stored integers"
ONLY_MOVES = "nothing beside it is computed on the machine"
PLACED = ("concat", "flatten", "pad")
"""Kinds that a machine does by where tensors stand, without an instruction."""


@dataclass(frozen=True)
class Partition(Pass):
    """fallback: whether operations may stay on the host, besides the conversions at the border."""

    name: ClassVar[str] = "partition"
    requires: ClassVar[tuple[str, ...]] = ("quantized", "shapes_known")
    ensures: ClassVar[tuple[str, ...]] = ("partitioned", "shapes_known")
    fallback: bool = True

    def run(self, model: ir.Model, context: Context) -> ir.Model:
        graph = model.graph
        reasons = {node: _reason(node, context.device) for node in graph}
        groups = _groups(list(graph), reasons)
        for node, reason in reasons.items():
            if reason:
                node.metadata_props[REASON] = reason
                if not self.fallback and not is_boundary(node):
                    raise _refused(node, reason, context)
        for number, nodes in enumerate(groups):
            outline(model, nodes, REGION, f"region{number}", {TARGET: context.device.name if context.device else ""})
        graph.sort()
        return model


def is_boundary(node: ir.Node) -> bool:
    """Whether a node only converts between floating point and integers."""
    return kind_of(node) in BOUNDARY


def _reason(node: ir.Node, device: Device | None) -> str:
    """Why a node stays on the host; empty where the machine takes it."""
    if node.domain != INTEGER:
        return node.metadata_props.get(REASON, "no operation of the templates")
    if is_boundary(node):
        return CONVERTS
    return device.refuses(node) if device else NO_DEVICE


def _groups(nodes: list[ir.Node], reasons: dict[ir.Node, str]) -> list[list[ir.Node]]:
    """Regions; sets in which nothing is computed go to the host."""
    numbers = {node: number for number, node in enumerate(nodes)}
    makers = [[value.producer() for value in node.inputs if value is not None] for node in nodes]
    before = [sorted({numbers[maker] for maker in each if maker is not None}) for each in makers]
    groups = [[nodes[number] for number in group] for group in convex_groups(before, [not reasons[node] for node in nodes])]
    for group in groups:
        if all(kind_of(node) in PLACED for node in group):
            reasons.update(dict.fromkeys(group, ONLY_MOVES))
    return [group for group in groups if not reasons[group[0]]]


def _refused(node: ir.Node, reason: str, context: Context) -> UserError:
    value = node.outputs[0]
    where = f"node '{node.name}' ({node.op_type}), which makes '{value.name}' of shape {list(shape_of(value))}"
    return fail("E0920", f"{where}, cannot run on the machine: {reason}", hint="fallback=yes leaves it to the host", place=context.place)
