"""Large constants leave the model while ONNX's own tools work on it: those tools copy whole models, several times over."""

from collections.abc import Container
from pathlib import Path

import onnx
import onnx_ir as ir
from onnx import helper

from toolchain.graph.files.external_data import check_external
from toolchain.graph.files.tensors import byte_count, is_external
from toolchain.graph.nodes.structure import needed

INLINE_BYTES = 1024
"""Constants up to this size stay: shapes, scales and limits that shape inference reads."""


def take_weights(proto: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
    """Turns large initializers into graph inputs and answers with them by name; no initializer stays an input as well.

    Those that a subgraph reads, or that are outputs themselves, stay.
    """
    graph = proto.graph
    pinned = {entry.name for entry in graph.output} | {name for node in graph.node for name in set(needed(node)) - set(node.input)}
    found = [tensor for tensor in graph.initializer if tensor.name not in pinned]
    large = {tensor.name: tensor for tensor in found if byte_count(tensor) > INLINE_BYTES or is_external(tensor)}
    small = [tensor for tensor in graph.initializer if tensor.name not in large]
    del graph.initializer[:]
    graph.initializer.extend(small)
    strip_inputs(proto, {*large, *(tensor.name for tensor in small)})
    graph.input.extend(helper.make_tensor_value_info(name, tensor.data_type, tensor.dims) for name, tensor in large.items())
    return large


def strip_inputs(proto: onnx.ModelProto, names: Container[str]) -> None:
    """Removes graph inputs of these names."""
    kept = [entry for entry in proto.graph.input if entry.name not in names]
    del proto.graph.input[:]
    proto.graph.input.extend(kept)


def ir_tensor(tensor: onnx.TensorProto, path: Path) -> ir.TensorProtocol:
    """A tensor of the graph; external ones are mapped, not read. Raises UserError E0902."""
    if not is_external(tensor):
        return ir.from_proto(tensor)
    location, offset, length = check_external(tensor.name, tensor, path)
    kind = ir.DataType(tensor.data_type)
    return ir.ExternalTensor(location, offset, length, kind, shape=ir.Shape(tensor.dims), name=tensor.name, base_dir=str(path.parent.absolute()))
