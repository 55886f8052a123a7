"""ONNX files as protobuf: read after their bytes are checked, written with their data in one file beside them."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import onnx
from google.protobuf.message import DecodeError

from toolchain.graph.files.weights import check_external, constants, is_external
from toolchain.graph.nodes.subgraphs import all_nodes, subgraphs
from toolchain.spec.errors import fail
from toolchain.spec.files import replacing, require_writable, write_atomic

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
