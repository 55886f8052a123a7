"""Operands that do not fit together, also where ONNX's own inference lets them pass: a line that names node, operator and shapes."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

import onnx

from toolchain.graph.importing.resolve import strict_complaint
from toolchain.graph.nodes.node_text import node_text, shape_text
from toolchain.graph.nodes.rewrite import ONNX_DOMAINS
from toolchain.graph.nodes.subgraphs import Shapes, tensor_shapes
from toolchain.graph.running.session import ONCE, open_session
from toolchain.spec.errors import UserError, fail

MAX_TAPS = 1 << 24
"""Limit of a pool's window. A larger one is mostly padding, and ONNX Runtime goes through all of it for every output."""


def check_operands(node: onnx.NodeProto, shapes: Shapes, path: Path) -> None:
    """Raises UserError E0907 where channels of a convolution, dense layer or batch norm do not agree, or a pool has no window inside its picture:
    ONNX Runtime ends the whole process then, by a division by zero; or its window has more than MAX_TAPS elements."""
    if node.domain not in ONNX_DOMAINS:
        return
    given = [shapes.get(name) if name else None for name in node.input]
    reason = ""
    match node.op_type, given:
        case "Conv", [[_, channels, *_], [filters, per_group, *_], *rest]:
            group = next((a.i for a in node.attribute if a.name == "group"), 1)
            if not _same(channels, None if per_group is None else per_group * group) or (filters or 0) % max(group, 1):
                reason = f"{'?' if channels is None else channels} input channels do not fit {filters} filters of {per_group} in {group} groups"
            reason = reason or _vector("bias", rest[:1], filters)
        case "Gemm", [[*_] as left, [*_] as right, *_]:
            flags = {a.name: a.i for a in node.attribute}
            if len(left) != 2 or len(right) != 2:
                reason = "its operands are no matrices"
            else:
                inner = left[0 if flags.get("transA") else 1], right[1 if flags.get("transB") else 0]
                reason = "" if _same(*inner) else f"inner sizes {inner[0]} and {inner[1]} differ"
        case "BatchNormalization", [[_, channels, *_], *rest]:
            reason = _vector("a parameter", rest, channels)
        case "MaxPool" | "AveragePool" | "LpPool", [[*size], *_]:
            result = shapes.get(node.output[0]) or ()
            taps = math.prod(next((a.ints for a in node.attribute if a.name == "kernel_shape"), ()))
            reason = "its window is larger than the picture with its padding" if 0 in result and 0 not in size else ""
            reason = reason or f"a window of {taps} elements; {MAX_TAPS} at most" * (taps > MAX_TAPS)
        case _:
            pass
    if reason:
        raise misfit(node, reason, shapes, path)


def misfit(node: onnx.NodeProto, reason: str, shapes: Shapes, path: Path) -> UserError:
    """E0907 with the node, its operator, and the shapes of its operands."""
    operands = ", ".join(f"'{name}' {shape_text(shapes.get(name))}" for name in node.input if name)
    return fail("E0907", f"{node_text(node)}: {reason} (operands {operands})", place=str(path))


def _same(one: int | None, other: int | None) -> bool:
    return one is None or other is None or one == other


def _vector(what: str, shapes: Sequence[Sequence[int | None] | None], size: int | None) -> str:
    for shape in shapes:
        if shape is not None and (len(shape) != 1 or not _same(shape[0], size)):
            return f"{what} of shape {shape_text(shape)} does not fit {size} channels"
    return ""


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
