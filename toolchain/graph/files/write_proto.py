"""Writes an ONNX model whose external data lie beside another file, with those data in one file of its own."""

from pathlib import Path
from typing import BinaryIO

import onnx

from toolchain.graph.files.external_data import check_external
from toolchain.graph.files.tensors import constants, is_external
from toolchain.spec.errors import fail
from toolchain.spec.files import replacing, require_writable, write_atomic

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
