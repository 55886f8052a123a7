"""Local functions written out where they are called, within bounds that are checked first."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx
from onnx import inliner

from toolchain.graph.nodes.node_text import node_text
from toolchain.graph.nodes.subgraphs import all_nodes
from toolchain.spec.errors import fail

MAX_NODES = 1 << 18
"""A model of more nodes than this after inlining is refused."""
Key = tuple[str, str]


def inline_functions(proto: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """The model without local functions.

    Raises UserError E0903 for a function that calls itself, E0922 for calls that multiply beyond MAX_NODES nodes.
    """
    if not proto.functions:
        return proto
    sizes = _Sizes({(function.domain, function.name): function for function in proto.functions}, path)
    total = sum(map(sizes.of_node, all_nodes(proto.graph.node)))
    if total > MAX_NODES:
        raise fail(
            "E0922",
            f"written out, the model's functions make more than {MAX_NODES} nodes",
            hint="do they call each other too often?",
            place=str(path),
        )
    return inliner.inline_local_functions(proto)


@dataclass(frozen=True)
class _Sizes:
    """Counts nodes without writing them out; MAX_NODES + 1 stands for any larger number."""

    functions: Mapping[Key, onnx.FunctionProto]
    path: Path
    known: dict[Key, int] = field(default_factory=dict[Key, int])
    open: list[Key] = field(default_factory=list[Key])

    def of_node(self, node: onnx.NodeProto) -> int:
        key = (node.domain, node.op_type)
        if key not in self.functions:
            return 1
        if key in self.open:
            raise fail("E0903", f"the function '{node.op_type}' calls itself, in {node_text(node)}", place=str(self.path))
        if key not in self.known:
            self.open.append(key)
            total = sum(map(self.of_node, all_nodes(self.functions[key].node)))
            self.open.pop()
            self.known[key] = min(total, MAX_NODES + 1)
        return self.known[key]
