"""Makes calls of fused operations out of the operators that templates match; the rest is left, each node with its reason."""

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from toolchain.graph.calls import fused_call
from toolchain.graph.numerics import Numerics
from toolchain.graph.requantisation import slope_of
from toolchain.graph.rewrite import drop_unused_constants
from toolchain.passes.base import Pass
from toolchain.passes.bindings import Fused, bind
from toolchain.passes.context import Context
from toolchain.passes.matching import Match, find
from toolchain.passes.templates import Template, default_templates

REASON, SOURCES, INNER = "tilewright.reason", "tilewright.nodes", "tilewright.before_activation"
"""Metadata of nodes: why one is not fused; which nodes a call was made of; the tensor that its activation read."""


@dataclass(frozen=True)
class Fuse(Pass):
    """keep: kinds of operations that are left alone."""

    name: ClassVar[str] = "fuse"
    requires: ClassVar[tuple[str, ...]] = ("shapes_known", "no_constant_nodes", "no_identity")
    ensures: ClassVar[tuple[str, ...]] = ("shapes_known", "fused")
    keep: tuple[str, ...] = ()

    def run(self, model: ir.Model, context: Context) -> ir.Model:
        templates = [template for template in context.templates or default_templates() if template.computes not in self.keep]
        for node in reversed(list(model.graph)):
            if node.graph is not None and node.domain in ("", "ai.onnx"):
                _fuse(model, node, templates, context.numerics)
        drop_unused_constants(model.graph)
        return model


def _fuse(model: ir.Model, node: ir.Node, templates: list[Template], numerics: Numerics | None) -> None:
    reason = "no operation of the templates"
    for template in templates:
        match = find(template, node)
        found = bind(match, model.graph) if match else ""
        if match and isinstance(found, Fused) and not _foreign(match, found, numerics):
            _replace(model, node, match, found)
            return
        reason = found if isinstance(found, str) and found else reason
    node.metadata_props[REASON] = reason


def _foreign(match: Match, fused: Fused, numerics: Numerics | None) -> bool:
    """Whether an activation with a slope that the machine does not have would keep the operation before it on the host as well."""
    own = numerics.leaky if numerics else None
    together = fused.variant == "leaky" and len(match.taken) > 1
    return together and own is not None and numerics is not None and slope_of(fused.attributes["alpha"], numerics) != own


def _replace(model: ir.Model, anchor: ir.Node, match: Match, fused: Fused) -> None:
    graph, output = model.graph, anchor.outputs[0]
    main = next((node for role, node in match.nodes.items() if role != "activation"), anchor)
    call = fused_call(model, match.template.computes, fused.variant, fused.operands, fused.attributes, main.name or output.name or "")
    call.metadata_props[SOURCES] = " ".join(node.name or "" for node in reversed(match.taken))
    if "activation" in match.nodes and (inner := match.nodes["activation"].inputs[0]) is not None:
        call.metadata_props[INNER] = inner.name or ""
    made = call.outputs[0]
    made.shape, made.type = output.shape, output.type
    graph.insert_after(anchor, call)
    output.replace_all_uses_with(made, replace_graph_outputs=True)
    name = output.name
    for node in match.taken:
        graph.remove(node, safe=True)
    made.name = name
