"""What is asked of a user's own ONNX file before it is imported: its inputs, and the files that hold its weights."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import onnx
from google.protobuf.message import DecodeError

from toolchain.models.operators import Shape
from toolchain.spec.errors import fail


def stored_inputs(path: Path) -> dict[str, Shape]:
    """Shapes of the inputs by name. Raises UserError E0807 for a file that is no model, or an input without a fixed shape."""
    graph = _read(path).graph
    constants = {tensor.name for tensor in graph.initializer}
    return {value.name: _fixed(value, path) for value in graph.input if value.name not in constants}


def external_files(path: Path) -> list[Path]:
    """The files beside a model that hold its weights. Raises UserError E0807 for one that is missing or lies elsewhere."""
    names = dict.fromkeys(entry.value for tensor in _tensors(_read(path).graph) for entry in tensor.external_data if entry.key == "location")
    return [_beside(path, name) for name in names]


def _read(path: Path) -> onnx.ModelProto:
    try:
        model = onnx.load(path, load_external_data=False)
    except OSError as error:
        raise fail("E0001", f"cannot read the model: {error.strerror}", place=str(path)) from None
    except DecodeError:
        raise fail("E0807", "this is not an ONNX file, or it is cut short", place=str(path)) from None
    if not model.ir_version or not model.graph.node:
        raise fail("E0807", "this ONNX file holds no graph", place=str(path))
    return model


def _fixed(value: onnx.ValueInfoProto, path: Path) -> Shape:
    dims = value.type.tensor_type.shape.dim
    if not all(dim.HasField("dim_value") and dim.dim_value > 0 for dim in dims):
        text = "x".join(str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in dims)
        raise fail("E0807", f"the input '{value.name}' has no fixed shape: {text}", place=str(path), hint="give it under 'inputs' in a model file")
    return tuple(dim.dim_value for dim in dims)


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Every constant, also of bodies of loops and conditions."""
    yield from graph.initializer
    for attribute in (a for node in graph.node for a in node.attribute):
        yield attribute.t
        yield from attribute.tensors
        for inner in (attribute.g, *attribute.graphs):
            yield from _tensors(inner)


def _beside(path: Path, name: str) -> Path:
    if len(PurePosixPath(name).parts) != 1 or name in (".", "..") or "\\" in name:
        raise fail("E0807", f"the weights '{name}' are not in the model's own folder", place=str(path))
    file = path.parent / name
    if not file.is_file() or file.is_symlink():
        raise fail("E0807", f"the model's weights '{name}' are missing", place=str(path))
    return file
