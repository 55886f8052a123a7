"""What is asked of a user's own ONNX file before it is imported: its inputs, and the files that hold its weights."""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import onnx
from google.protobuf.message import DecodeError

from toolchain.models.operators import Shape
from toolchain.spec.errors import fail


def stored_inputs(path: Path, dims: Mapping[str, int] | None = None) -> dict[str, Shape]:
    """Shapes of the inputs by name. dims: sizes of open dimensions by their name, or `input.axis` for one without.

    Raises UserError E0807 for a file that is no model, or an input without a fixed shape or of another type than float32.
    """
    return {value.name: _fixed(value, path, dims or {}) for value in _inputs(path)}


def open_sizes(path: Path, inputs: Mapping[str, Shape]) -> dict[str, int]:
    """What inputs of these shapes make of each open dimension, by its name. Raises UserError E0807 for a file that is no model."""
    found: dict[str, int] = {}
    for value in _inputs(path):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not _is_fixed(dim) and axis < len(inputs.get(value.name, ())):
                found[dim.dim_param or f"{value.name}.{axis}"] = inputs[value.name][axis]
    return found


def _inputs(path: Path) -> list[onnx.ValueInfoProto]:
    graph = _read(path).graph
    constants = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in constants]


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


def _is_fixed(dim: onnx.TensorShapeProto.Dimension) -> bool:
    return dim.HasField("dim_value") and dim.dim_value > 0


def _fixed(value: onnx.ValueInfoProto, path: Path, dims: Mapping[str, int]) -> Shape:
    kind = value.type.tensor_type.elem_type
    if kind != onnx.TensorProto.FLOAT:
        given = onnx.TensorProto.DataType.Name(kind).lower() if value.type.HasField("tensor_type") and kind else "no tensor"
        raise fail("E0807", f"the input '{value.name}' is {given}", hint="inputs must be float (float32)", place=str(path))
    found = value.type.tensor_type.shape.dim
    sizes = [dim.dim_value if _is_fixed(dim) else dims.get(dim.dim_param or f"{value.name}.{axis}", 0) for axis, dim in enumerate(found)]
    if not all(sizes):
        text = "x".join(str(size) if size or dim.HasField("dim_value") else dim.dim_param or "?" for size, dim in zip(sizes, found, strict=True))
        named = next(dim.dim_param or f"{value.name}.{axis}" for axis, dim in enumerate(found) if not sizes[axis])
        hint = f"give it under 'inputs' in a model file, or its size to a build: dim={named}:1"
        raise fail("E0807", f"the input '{value.name}' has no fixed shape: {text}", place=str(path), hint=hint)
    return tuple(sizes)


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
