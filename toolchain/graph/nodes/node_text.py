"""How messages name nodes, tensors and shapes; the only place that knows the wording."""

from collections.abc import Sequence

import onnx


def node_text(node: onnx.NodeProto) -> str:
    """`node 'conv1' (Conv)`; a node without a name goes by its first output."""
    kind = f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
    return f"node '{node.name or next(iter(node.output), '')}' ({kind})"


def shape_text(shape: Sequence[int | str | None] | None) -> str:
    """`1x3x224x224`, `?` for what is not known."""
    if shape is None:
        return "of unknown rank"
    return "x".join("?" if size is None else str(size) for size in shape) or "scalar"
