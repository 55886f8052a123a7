"""Gives every open dimension of the inputs a size, and refuses operands that do not fit together.

ONNX's own inference lets some of those pass; the message names node, operator and shapes.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from toolchain.graph.importing.resolve import strict_complaint
from toolchain.graph.nodes import Shapes, node_text, shape_text, tensor_shapes
from toolchain.graph.rewrite import ONNX_DOMAINS
from toolchain.graph.session import ONCE, open_session
from toolchain.spec.errors import UserError, fail, nearest

MAX_ELEMENTS = 1 << 26
"""The most elements of one input: more than the largest pictures have."""


@dataclass(frozen=True)
class OpenAxis:
    """An axis of an input whose size the file leaves open. name: empty where the file gives none."""

    input: str
    axis: int
    name: str
    dim: onnx.TensorShapeProto.Dimension

    @property
    def says_zero(self) -> bool:
        """Whether the file itself says 0, which some exporters write for an open size and others mean."""
        return self.dim.HasField("dim_value") and self.dim.dim_value == 0

    @property
    def key(self) -> str:
        """`input.axis`, which no other axis has."""
        return f"{self.input}.{self.axis}"


def open_axes(graph: onnx.GraphProto) -> list[OpenAxis]:
    """In the order of the inputs; constants that are also inputs have none."""
    return list(_open_axes(graph))


def _open_axes(graph: onnx.GraphProto) -> Iterator[OpenAxis]:
    constants = {tensor.name for tensor in graph.initializer}
    for entry in graph.input:
        kind = entry.type.tensor_type
        if entry.name not in constants and entry.type.HasField("tensor_type") and kind.HasField("shape"):
            for axis, dim in enumerate(kind.shape.dim):
                if not dim.HasField("dim_value") or dim.dim_value <= 0:
                    yield OpenAxis(entry.name, axis, dim.dim_param, dim)


def fix_dims(proto: onnx.ModelProto, dims: Mapping[str, int], path: Path, constants: Collection[str] = ()) -> None:
    """Sets the open axes of the inputs: each by `input.axis`, or all of one name together; the former wins. constants: inputs that have values.

    Raises UserError E0904 (axes without a size, all of them; a size below 1; an input too large) and E0905 (a name that no axis has).
    """
    axes = open_axes(proto.graph)
    _check_names(axes, dims, path)
    missing = [axis for axis in axes if axis.key not in dims and axis.name not in dims]
    if missing:
        often = Counter(axis.name for axis in axes)
        keys = dict.fromkeys(axis.name if often[axis.name] == 1 and axis.name else axis.key for axis in missing)
        text = ", ".join(f"dimension {axis.axis} of the input '{axis.input}' ({_called(axis)})" for axis in missing)
        wanted, zeros = ",".join(f"{key}:1" for key in keys), ",".join(f"{axis.key}:0" for axis in missing if axis.says_zero)
        hint = f"give {'it one' if len(missing) == 1 else 'each one'}, such as dim={wanted}"
        raise fail("E0904", f"sizes are open: {text}", hint=hint + (f", or {zeros} where it has no elements" if zeros else ""), place=str(path))
    for axis in axes:
        size = dims[axis.key] if axis.key in dims else dims[axis.name]
        if size < (0 if axis.key in dims or axis.says_zero else 1):
            hint = "a size is at least 1" + f"; an axis without elements is named by itself: dim={axis.key}:0" * (size == 0)
            raise fail("E0904", f"dimension '{axis.key}' cannot be {size}", hint=hint, place=str(path))
        axis.dim.Clear()
        axis.dim.dim_value = size
    _check_sizes(proto.graph, path, constants)


def _called(axis: OpenAxis) -> str:
    return "0 in the file, which exporters write for an open size" if axis.says_zero else shown(axis.name)


def shown(name: str) -> str:
    """A dimension's name in a message."""
    return f"'{name}'" if name else "unnamed"


def _check_names(axes: list[OpenAxis], dims: Mapping[str, int], path: Path) -> None:
    known = dict.fromkeys([axis.key for axis in axes] + [axis.name for axis in axes if axis.name])
    for name in dims:
        if name not in known:
            hint = nearest(name, known) or (f"open: {', '.join(known)}" if known else "every dimension has a number already")
            raise fail("E0905", f"no dimension of the inputs is called '{name}'", hint=hint, place=str(path))


def _check_sizes(graph: onnx.GraphProto, path: Path, constants: Collection[str]) -> None:
    """A constant takes no more room than its file."""
    known = {tensor.name for tensor in graph.initializer} | set(constants)
    for entry in (entry for entry in graph.input if entry.name not in known):
        sizes = [dim.dim_value for dim in entry.type.tensor_type.shape.dim]
        if math.prod(sizes) > MAX_ELEMENTS:
            raise fail("E0904", f"the input '{entry.name}' of shape {shape_text(sizes)} has more than {MAX_ELEMENTS} elements", place=str(path))


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
