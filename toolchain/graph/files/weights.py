"""Constants of a protobuf model: where their bytes are, inside it or beside it; large ones leave the model while ONNX's own tools copy it."""

import stat
from collections.abc import Container, Iterator, Mapping
from math import prod
from pathlib import Path, PurePosixPath

import onnx
import onnx_ir as ir
from onnx import helper

from toolchain.graph.nodes.structure import needed
from toolchain.graph.nodes.subgraphs import subgraphs
from toolchain.spec.errors import UserError, fail

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


def check_constants(proto: onnx.ModelProto, path: Path) -> None:
    """Raises UserError E0901 (a constant is cut short) or E0902 (external data that is missing, outside, linked or too short)."""
    for name, tensor in constants(proto.graph):
        if is_external(tensor):
            check_external(name, tensor, path)
        elif not is_whole(tensor):
            shape = "x".join(map(str, tensor.dims)) or "scalar"
            raise fail("E0901", f"the constant '{name}' of shape {shape} does not hold as many values as its shape says", place=str(path))


def check_external(name: str, tensor: onnx.TensorProto, path: Path) -> tuple[str, int, int]:
    """Location, offset and length in bytes of one external tensor. Raises UserError E0902."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    size = _file_size(name, location, path)
    wanted = byte_count(tensor)
    offset = _number(name, entries, "offset", 0, path)
    length = _number(name, entries, "length", wanted, path)
    if wanted < 0 or length != wanted:
        raise _refused(name, f"{length} bytes are given, its shape and type need {wanted}", path)
    if offset + length > size:
        raise _refused(name, f"bytes {offset} to {offset + length} are past the end of '{location}' ({size} bytes)", path)
    return location, offset, length


def _number(name: str, entries: Mapping[str, str], key: str, default: int, path: Path) -> int:
    text = entries.get(key, str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise _refused(name, f"its {key} '{text[:30]}' is not a count of bytes", path)
    return int(text)


def _file_size(name: str, location: str, path: Path) -> int:
    """Every folder on the way is looked at, so no link can lead out of the model's folder."""
    parts = PurePosixPath(location).parts
    if not parts or "\\" in location or "\0" in location or location.startswith("/") or any(part in ("..", ".") or ":" in part for part in parts):
        raise _refused(name, f"'{location}' is not a path inside the model's folder", path)
    place, found = path.parent, path.parent.stat()
    try:
        for part in parts:
            place = place / part
            found = place.lstat()
            if stat.S_ISLNK(found.st_mode):
                raise _refused(name, f"'{location}' goes through a symbolic link", path, "put the file itself beside the model")
    except OSError as error:
        raise _refused(name, f"cannot read '{location}': {error.strerror}", path) from None
    if not stat.S_ISREG(found.st_mode):
        raise _refused(name, f"'{location}' is not a regular file", path)
    if found.st_nlink > 1:
        raise _refused(name, f"'{location}' is a hard link, {found.st_nlink} names share its bytes", path, "copy the file: cp --remove-destination")
    return found.st_size


def _refused(name: str, reason: str, path: Path, hint: str = "") -> UserError:
    return fail("E0902", f"external data of tensor '{name}': {reason}", hint=hint, place=str(path))


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
