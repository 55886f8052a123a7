"""Offers a further machine what those before it left: their reasons are kept beside the node, and it is looked at once more."""

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from toolchain.graph.integers.calls import REASON, note_refusals, reasons_of
from toolchain.graph.integers.functions import FUSED, is_integer
from toolchain.graph.nodes.rewrite import keep_given_names
from toolchain.passes.base import Pass
from toolchain.passes.context import Context
from toolchain.passes.fuse import ONLY
from toolchain.passes.leave import rejoin_activations, release_activations


@dataclass(frozen=True)
class Offer(Pass):
    """Stands between two machines' turns; a pipeline's own file never names it. A call that the user gives to one machine stays as it is, and so does
    every fused call where the next machine computes ONNX's own operators."""

    name: ClassVar[str] = "offer"
    requires: ClassVar[tuple[str, ...]] = ("quantized",)

    def run(self, model: ir.Model, context: Context) -> ir.Model:
        release_activations(model)
        rejoin_activations(model, context.kinds)
        keep_given_names(model.graph)
        asked, asking = context.before[-1].name, context.device.name if context.device else ""
        floats = context.device is not None and context.device.floats
        for node in model.graph:
            if is_integer(node) or REASON not in node.metadata_props:
                continue
            note_refusals(node, {asked: reasons_of(node)})
            if node.domain != FUSED or (not floats and node.metadata_props.get(ONLY, asking) == asking):
                del node.metadata_props[REASON]
        return model
