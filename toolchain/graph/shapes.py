"""Shape inference with every tensor's shape known afterwards, or one line that says where it stopped."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from onnx import shape_inference

from toolchain.graph.node_text import node_text, shape_text
from toolchain.graph.operands import check_operands
from toolchain.spec.errors import UserError, fail

Shape = tuple[int, ...]
_NODE = re.compile(r"\(op_type:\s*(?P<kind>[^,)]*)(?:,\s*node name:\s*(?P<name>[^)]*))?\)")
_PREFIX = re.compile(r"\[[A-Za-z]+\]|\(op_type:[^)]*\):?|Inference error\(s\):")


def infer(proto: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """The model with the type and shape of every tensor. Raises UserError E0907 (shapes do not fit), E0908 (a shape cannot be known)."""
    known = _infer(proto, path)
    shapes = tensor_shapes(known)
    for node in known.graph.node:
        check_operands(node, shapes, path)
        for name in filter(None, node.output):
            shape = shapes.get(name)
            if shape is None or None in shape:
                text = f"{node_text(node)}: the shape of the tensor '{name}' ({shape_text(shape)}) depends on data or is not known"
                raise fail("E0908", text, hint="only fixed shapes can be compiled", place=str(path))
    return known


def infer_partly(proto: onnx.ModelProto) -> onnx.ModelProto:
    """As much as can be told of a model that need not be right; nothing of one whose nodes lack operands."""
    try:
        return shape_inference.infer_shapes(proto)
    except (shape_inference.InferenceError, ValueError, RuntimeError):
        return proto


def _infer(proto: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    try:
        return shape_inference.infer_shapes(proto, check_type=True, strict_mode=True, data_prop=True)
    except (shape_inference.InferenceError, ValueError, RuntimeError) as error:
        raise _mismatch(proto, str(error), path) from None


def _mismatch(proto: onnx.ModelProto, text: str, path: Path) -> UserError:
    """ONNX says node and operator; the shapes of the operands come from what it inferred until then."""
    found = _NODE.search(text)
    reason = next((line.strip() for line in _PREFIX.sub("", text).splitlines() if line.strip()), "shapes do not fit").rstrip(".")
    node = next((n for n in proto.graph.node if found and n.name == (found["name"] or "").strip()), None)
    if node is None:
        return fail("E0907", reason, place=str(path))
    shapes = tensor_shapes(infer_partly(proto))
    operands = ", ".join(f"'{name}' {shape_text(shapes.get(name))}" for name in node.input if name)
    return fail("E0907", f"{node_text(node)}: {reason} (operands {operands})", place=str(path))


def tensor_shapes(proto: onnx.ModelProto) -> Mapping[str, Sequence[int | None] | None]:
    """The shape of every tensor that has one; None for a size that is open."""
    graph = proto.graph
    shapes: dict[str, Sequence[int | None] | None] = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for entry in (*graph.input, *graph.value_info, *graph.output):
        kind = entry.type.tensor_type
        if entry.type.HasField("tensor_type") and kind.HasField("shape"):
            shapes[entry.name] = tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim)
    return shapes
