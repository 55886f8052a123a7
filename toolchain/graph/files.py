"""ONNX files as protobuf: read after their bytes are checked, written with their data in one file beside them.

The bytes of a constant lie inside the model or beside it; large ones leave the model while ONNX's own tools copy it.
"""

import stat
from collections.abc import Container, Iterator, Mapping
from math import prod
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError
from onnx import helper

from toolchain.graph.nodes import all_nodes, needed, subgraphs
from toolchain.spec.errors import UserError, fail
from toolchain.spec.files import replacing, require_writable, write_atomic

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


MIN_IR_VERSION = 3
DOMAIN = ("", "ai.onnx")
"""Names of ONNX's own operator set."""


def read_proto(path: Path) -> onnx.ModelProto:
    """The model as it is stored, external data not read. Raises UserError E0001 (cannot be read), E0901 (not an ONNX model)."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise fail("E0001", f"cannot read the model: {error.strerror}", place=str(path)) from None
    if not data:
        raise fail("E0901", "the file is empty", place=str(path))
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError:
        raise fail("E0901", "not an ONNX model, or a truncated one: its bytes do not parse", place=str(path)) from None
    _complete(proto, path)
    if not all(isinstance(text, str) for text in _texts(proto.graph)):
        raise fail("E0901", "a name in the model is no text (not UTF-8); the file is damaged", place=str(path))
    return proto


def _texts(graph: onnx.GraphProto) -> Iterator[object]:
    """Every name; protobuf hands out bytes where one is not UTF-8."""
    for entry in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        yield entry.name
        if isinstance(entry, onnx.ValueInfoProto):
            yield from (dim.dim_param for dim in entry.type.tensor_type.shape.dim)
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield attribute.name
            if attribute.type == onnx.AttributeProto.STRING:
                yield attribute.s.decode() if _decodes(attribute.s) else attribute.s
        for inner in subgraphs(node):
            yield from _texts(inner)


def _complete(proto: onnx.ModelProto, path: Path) -> None:
    """A protobuf reader takes nearly any short file as an empty model."""
    own = any(entry.domain in DOMAIN for entry in proto.opset_import)
    if proto.ir_version < MIN_IR_VERSION or not proto.opset_import or (not own and _needs_own(proto)):
        raise fail("E0901", "not an ONNX model: it names no IR version or no operator set", place=str(path))
    if not proto.graph.node or not proto.graph.output:
        raise fail("E0901", "the model's graph has no nodes or no outputs", place=str(path))


def _needs_own(proto: onnx.ModelProto) -> bool:
    """Whether any operator is one of ONNX's own; a model of others alone need not name their set."""
    nodes = (proto.graph.node, *(function.node for function in proto.functions))
    return any(node.domain in DOMAIN for each in nodes for node in all_nodes(each))


def _decodes(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


ALIGNMENT = 64
CHUNK = 1 << 20


def write_proto(proto: onnx.ModelProto, source: Path, path: Path) -> None:
    """Writes `path`, and `path`.data where tensors point to files beside `source`; they are copied piece by piece, however large. `proto` changes.

    Raises UserError E0005 (cannot be written, or would replace the source), E0902 (external data that cannot be read).
    """
    if path.resolve() == source.resolve():
        raise fail("E0005", "cannot write the file: it is the model itself", place=str(path))
    require_writable(path)
    outside = [(name, tensor) for name, tensor in constants(proto.graph) if is_external(tensor)]
    if outside:
        data = path.with_name(f"{path.name}.data")
        with replacing(data) as file:
            for name, tensor in outside:
                _move(file, name, tensor, source, data.name)
    write_atomic(path, proto.SerializeToString(deterministic=True))


def _move(file: BinaryIO, name: str, tensor: onnx.TensorProto, source: Path, location: str) -> None:
    held, offset, length = check_external(name, tensor, source)
    file.write(bytes(-file.tell() % ALIGNMENT))
    start, left = file.tell(), length
    with (source.parent / held).open("rb") as found:
        found.seek(offset)
        while left:
            part = found.read(min(left, CHUNK))
            if not part:
                raise fail("E0902", f"external data of tensor '{name}': '{held}' became shorter", place=str(source))
            file.write(part)
            left -= len(part)
    del tensor.external_data[:]
    for key, value in (("location", location), ("offset", str(start)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
