"""Facts of a user's own ONNX file before it is imported: its inputs, and the files that hold its weights."""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import onnx
from google.protobuf.message import DecodeError

from toolchain.graph.importing.dims import fix_dims, open_axes
from toolchain.graph.nodes.node_text import shape_text
from toolchain.models.model import Input
from toolchain.models.operators import Shape
from toolchain.spec.errors import fail
from toolchain.spec.suggest import nearest

NUMPY_NAMES = {"float": "float32", "double": "float64"}
"""Types that ONNX names differently."""


def stored_inputs(path: Path, dims: Mapping[str, int] | None = None, shapes: Mapping[str, Shape] | None = None) -> dict[str, Input]:
    """Inputs by name. dims: sizes of open dimensions, by their name or as `input.axis`. shapes: of inputs, as the model's own file has them.

    Raises UserError E0807 for a file that is no model, an unknown type, or a shape that does not fit it, E0904 and E0905 as `fix_dims`.
    """
    graph = _inputs(path)
    proto = onnx.ModelProto(graph=onnx.GraphProto(input=graph))
    fix_dims(proto, dims or {}, path)
    found = {value.name: _input(value, path) for value in proto.graph.input}
    for name, shape in (shapes or {}).items():
        if name not in found:
            raise fail("E0807", f"the ONNX file has no input '{name}'", hint=nearest(name, found) or f"it has: {', '.join(found)}", place=str(path))
        if found[name].shape != tuple(shape):
            raise fail("E0807", f"the input '{name}' has the shape {shape_text(found[name].shape)}, not {shape_text(shape)}", place=str(path))
    return found


def open_sizes(path: Path, inputs: Mapping[str, Shape]) -> dict[str, int]:
    """Sizes of the open dimensions, as `input.axis`, by the shapes of inputs. Raises UserError E0807 for a file that is no model."""
    axes = open_axes(onnx.GraphProto(input=_inputs(path)))
    return {axis.key: inputs[axis.input][axis.axis] for axis in axes if axis.axis < len(inputs.get(axis.input, ()))}


def _inputs(path: Path) -> list[onnx.ValueInfoProto]:
    graph = _read(path).graph
    constants = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in constants]


def _input(value: onnx.ValueInfoProto, path: Path) -> Input:
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        return Input((), value.type.WhichOneof("value") or "unknown")
    if kind.elem_type not in onnx.TensorProto.DataType.values():
        raise fail("E0807", f"the input '{value.name}' has a type that ONNX does not know: {kind.elem_type}", place=str(path))
    name = onnx.TensorProto.DataType.Name(kind.elem_type).lower()
    return Input(tuple(dim.dim_value for dim in kind.shape.dim), NUMPY_NAMES.get(name, name))


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
