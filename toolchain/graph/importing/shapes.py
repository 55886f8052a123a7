"""Operands that do not fit together: one line that names the node, its operator and the shapes."""

import re
from pathlib import Path

import onnx

from toolchain.graph.importing.operands import check_operands, misfit
from toolchain.graph.importing.resolve import strict_complaint
from toolchain.graph.nodes.tensor_shapes import Shapes, tensor_shapes
from toolchain.graph.running.session import ONCE, open_session
from toolchain.spec.errors import UserError, fail

_NODE = re.compile(r"\(op_type:\s*(?P<kind>[^,)]*)(?:,\s*node name:\s*(?P<name>[^)]*))?\)")
_PREFIX = re.compile(r"\[[A-Za-z]+\]|\(op_type:[^)]*\):?|Inference error\(s\):")


def check_shapes(proto: onnx.ModelProto, path: Path) -> None:
    """Raises UserError E0907 for operands that do not fit. proto: after shape inference, its large constants as inputs.

    Strict inference also complains about models that ONNX Runtime runs, so where it does ONNX Runtime decides.
    """
    shapes = tensor_shapes(proto)
    for node in proto.graph.node:
        check_operands(node, shapes, path)
    if not _open_tensors(proto, shapes):
        return
    complaint = strict_complaint(proto)
    if complaint and not is_taken(proto):
        raise _mismatch(proto, complaint, shapes, path)


def _open_tensors(proto: onnx.ModelProto, shapes: Shapes) -> bool:
    found = (shapes.get(name) for node in proto.graph.node for name in node.output if name)
    return any(shape is None or None in shape for shape in found)


def is_taken(proto: onnx.ModelProto, optimise: bool = False) -> bool:
    """Whether ONNX Runtime takes the model. optimise: also after its own rewriting, which finds more faults."""
    try:
        open_session(proto.SerializeToString(), optimise, threads=ONCE)
    except UserError:
        return False
    return True


def _mismatch(proto: onnx.ModelProto, text: str, shapes: Shapes, path: Path) -> UserError:
    """ONNX says node and operator; the shapes of the operands come from inference."""
    found = _NODE.search(text)
    reason = next((line.strip() for line in _PREFIX.sub("", text).splitlines() if line.strip()), "shapes do not fit").rstrip(".")
    node = next((n for n in proto.graph.node if found and n.name == (found["name"] or "").strip()), None)
    if node is None:
        return fail("E0907", reason, place=str(path))
    return misfit(node, reason, shapes, path)
