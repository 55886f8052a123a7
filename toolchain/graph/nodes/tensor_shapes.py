"""Shapes of tensors as a protobuf model declares them."""

from collections.abc import Mapping, Sequence

import onnx

Shapes = Mapping[str, Sequence[int | None] | None]
"""By tensor; None for a size that is open, and for a tensor of unknown rank."""


def tensor_shapes(proto: onnx.ModelProto) -> Shapes:
    """The shape of every tensor that has one; None for a size that is open."""
    graph = proto.graph
    shapes: dict[str, Sequence[int | None] | None] = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for entry in (*graph.input, *graph.value_info, *graph.output):
        kind = entry.type.tensor_type
        if entry.type.HasField("tensor_type") and kind.HasField("shape"):
            shapes[entry.name] = tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim)
    return shapes
