"""Takes out nodes and constants that no output depends on."""

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from toolchain.graph.nodes.rewrite import drop_unused_constants
from toolchain.passes.base import Pass
from toolchain.passes.context import Context


@dataclass(frozen=True)
class RemoveDead(Pass):
    """Inputs of the model stay, read or not: they are its interface."""

    name: ClassVar[str] = "remove_dead"
    ensures: ClassVar[tuple[str, ...]] = ("no_dead_nodes",)

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        for node in reversed(list(model.graph)):
            if not any(value.uses() or value.is_graph_output() for value in node.outputs):
                model.graph.remove(node, safe=True)
        drop_unused_constants(model.graph)
        return model
