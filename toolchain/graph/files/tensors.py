"""Constants inside a protobuf model: where they are, and whether their bytes are all there."""

from collections.abc import Iterator
from math import prod

import onnx

from toolchain.graph.nodes.subgraphs import subgraphs

DATA_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")


def constants(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """Every stored tensor with the name messages use, also in attributes and subgraphs."""
    for tensor in graph.initializer:
        yield tensor.name, tensor
    for node in graph.node:
        yield from ((next(iter(node.output), node.name), attribute.t) for attribute in node.attribute if attribute.HasField("t"))
        for inner in subgraphs(node):
            yield from constants(inner)


def is_external(tensor: onnx.TensorProto) -> bool:
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def byte_count(tensor: onnx.TensorProto) -> int:
    """The bytes that type and shape call for; -1 where the type has no fixed size or the shape is absurd."""
    if tensor.data_type in (onnx.TensorProto.STRING, onnx.TensorProto.UNDEFINED) or any(size < 0 for size in tensor.dims):
        return -1
    try:
        bits = onnx_bits(tensor.data_type)
    except KeyError:
        return -1
    return -(-prod(tensor.dims) * bits // 8)


def onnx_bits(data_type: int) -> int:
    """Bits of one element. Raises KeyError for a number that is no type."""
    small = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2}
    name = {number: name for name, number in onnx.TensorProto.DataType.items()}[data_type]
    return small[name] if name in small else onnx.helper.tensor_dtype_to_np_dtype(data_type).itemsize * 8


def is_whole(tensor: onnx.TensorProto) -> bool:
    """Whether the values stored inline are as many as the shape says."""
    wanted = byte_count(tensor)
    if wanted < 0:
        return tensor.data_type == onnx.TensorProto.STRING
    if tensor.HasField("raw_data"):
        return len(tensor.raw_data) == wanted
    stored = sum(len(getattr(tensor, field)) for field in DATA_FIELDS)
    return stored == prod(tensor.dims) or onnx_bits(tensor.data_type) < 8
