"""Shapes and types as far as they can be known: inference and folding in turn, until neither finds anything more.

Windows of whose number ONNX's shape inference and ONNX Runtime disagree are written such that both agree on ONNX Runtime's result.
Pools that round their size up: ONNX Runtime leaves out a last window that begins behind the picture and its begin padding (measured on ONNX Runtime
1.31, operator sets 10 to 22). Transposed convolutions with automatic padding and output padding: ONNX Runtime's result is the picture times the
stride, inference adds the output padding to it (measured on 1.32, 260 combinations of size, kernel, stride, dilation and output padding).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from toolchain.graph.importing.fold_nodes import fold_nodes, lift_constants
from toolchain.graph.importing.foreign_operators import write_scalers
from toolchain.graph.nodes import Shapes, drop_unread, own_names, replace_nodes, subgraphs, tensor_shapes
from toolchain.graph.rewrite import is_operator
from toolchain.graph.session import ONCE, open_session
from toolchain.spec.errors import UserError

POOLS = ("MaxPool", "AveragePool", "LpPool")


@dataclass(frozen=True)
class Axis:
    """A window along one axis. reach: pixels from its first tap to its last. begin, end: padding."""

    size: int
    reach: int
    stride: int
    begin: int
    end: int

    @property
    def count(self) -> int:
        """Windows when their number is rounded up."""
        room = self.size + self.begin + self.end - self.reach
        found = -(-room // self.stride) + 1
        return found - 1 if (found - 1) * self.stride >= self.size + self.begin else found

    @property
    def needed(self) -> int:
        """The end padding that the last window reaches into."""
        return max((self.count - 1) * self.stride + self.reach - self.size - self.begin, 0)


def write_windows(graph: onnx.GraphProto, shapes: Shapes) -> bool:
    """Rewrites every such operator whose picture is known; whether there was one."""
    transposed = [_write_pads(node, shapes) for node in graph.node if is_operator(node, "ConvTranspose")]
    return _write_pools(graph, shapes) or any(transposed)


def _write_pads(node: onnx.NodeProto, shapes: Shapes) -> bool:
    """Writes the padding of a transposed convolution out; whether it was automatic, with output padding."""
    shape, weights = (shapes.get(name) for name in node.input[:2])
    mode, more = _automatic(node), _integers(node, "output_padding", [])
    if shape is None or weights is None or None in (*shape[2:], *weights[2:]) or not mode.startswith(b"SAME") or not any(more):
        return False
    rank = len(shape) - 2
    steps = zip(weights[2:], _integers(node, "strides", [1] * rank), _integers(node, "dilations", [1] * rank), more, strict=False)
    totals = [max(((k or 0) - 1) * d + 1 + extra - s, 0) for k, s, d, extra in steps]
    begins = [total // 2 if mode == b"SAME_UPPER" else total - total // 2 for total in totals]
    _set(node, "pads", [*begins, *(total - begin for total, begin in zip(totals, begins, strict=True))])
    _set(node, "auto_pad", "NOTSET")
    return True


def _write_pools(graph: onnx.GraphProto, shapes: Shapes) -> bool:
    """Pools that round up. A dilated one stays whose padding would be as long as its kernel, which ONNX Runtime refuses."""
    inserted: list[tuple[int, onnx.NodeProto]] = []
    found = False
    for number, node in enumerate(graph.node):
        if is_operator(node, *POOLS) and _integer(node, "ceil_mode") and _automatic(node).startswith(b"SAME"):
            _set(node, "ceil_mode", 0)  # ONNX Runtime's size follows from the stride alone, ONNX's inference rounds it up
            found = True
        shape = shapes.get(node.input[0]) if _rounds_up(node) else None
        if shape is None or None in shape[2:]:
            continue
        axes = _axes(node, [size or 0 for size in shape[2:]])
        if axes is None or any(axis.needed >= size for axis, size in zip(axes, _integers(node, "kernel_shape", []), strict=True)):
            continue
        found = True
        pads = [axis.begin for axis in axes] + [axis.needed for axis in axes]
        if node.op_type == "AveragePool" and _integer(node, "count_include_pad") and any(axis.needed > axis.end for axis in axes):
            inserted.append((number, _padded(graph, node, axes)))
            pads = [0] * len(axes) + [max(axis.needed - axis.end, 0) for axis in axes]
            _set(node, "count_include_pad", 0)
        _set(node, "ceil_mode", 0)
        _set(node, "pads", pads)
    for number, pad in reversed(inserted):
        graph.node.insert(number, pad)
    return found


def _rounds_up(node: onnx.NodeProto) -> bool:
    return is_operator(node, *POOLS) and bool(_integer(node, "ceil_mode")) and _automatic(node) in (b"NOTSET", b"")


def _automatic(node: onnx.NodeProto) -> bytes:
    """The attribute auto_pad."""
    return next((a.s for a in node.attribute if a.name == "auto_pad"), b"NOTSET")


def _axes(node: onnx.NodeProto, sizes: Sequence[int]) -> list[Axis] | None:
    """None for attributes that do not fit, which inference is going to tell."""
    rank = len(sizes)
    kernel, strides = _integers(node, "kernel_shape", []), _integers(node, "strides", [1] * rank)
    dilations, pads = _integers(node, "dilations", [1] * rank), _integers(node, "pads", [0] * 2 * rank)
    if [len(kernel), len(strides), len(dilations), len(pads)] != [rank, rank, rank, 2 * rank] or min((*kernel, *strides, *dilations)) < 1:
        return None
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    return [Axis(*five) for five in zip(sizes, spans, strides, pads[:rank], pads[rank:], strict=True)]


def _padded(graph: onnx.GraphProto, node: onnx.NodeProto, axes: Sequence[Axis]) -> onnx.NodeProto:
    """Zeros that count for the average, unlike those beyond the declared padding."""
    name = f"{node.name or node.output[0]}.padded"
    pads = [0, 0, *(axis.begin for axis in axes), 0, 0, *(axis.end for axis in axes)]
    graph.initializer.append(numpy_helper.from_array(np.array(pads, np.int64), f"{name}.pads"))
    pad = helper.make_node("Pad", [node.input[0], f"{name}.pads"], [name], name)
    node.input[0] = name
    return pad


def _integer(node: onnx.NodeProto, name: str) -> int:
    return next((a.i for a in node.attribute if a.name == name), 0)


def _integers(node: onnx.NodeProto, name: str, default: list[int]) -> list[int]:
    return next((list(a.ints) for a in node.attribute if a.name == name), default)


def _set(node: onnx.NodeProto, name: str, value: int | list[int] | str) -> None:
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])


_TENSOR = re.compile(r"tensor\((\w+)\)\Z")
_KINDS = {"float": "FLOAT", "double": "DOUBLE"}


def declare_types(proto: onnx.ModelProto) -> bool:
    """Adds type and shape of tensors that have none yet; whether there were any. A model that ONNX Runtime refuses stays: running it tells why."""
    known = {entry.name for entry in (*proto.graph.value_info, *proto.graph.input, *proto.graph.output) if entry.type.WhichOneof("value")}
    known |= {tensor.name for tensor in proto.graph.initializer}
    missing = [name for node in proto.graph.node for name in node.output if name and name not in known]
    if not missing:
        return False
    watched = onnx.ModelProto()
    watched.CopyFrom(proto)
    outputs = {entry.name for entry in proto.graph.output}
    watched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in missing if name not in outputs)
    try:
        session = open_session(watched.SerializeToString(), optimise=False, threads=ONCE)
    except UserError:
        return False
    found = {entry.name: info for entry in session.get_outputs() if (info := _info(entry.name, entry.type, list(entry.shape))) is not None}
    for entry in proto.graph.output:
        if entry.name in found and entry.name in missing:
            entry.CopyFrom(found[entry.name])
    proto.graph.value_info.extend(found[name] for name in missing if name in found and name not in outputs)
    return bool(found)


def _info(name: str, text: str, shape: list[int | str | None]) -> onnx.ValueInfoProto | None:
    """None for sequences and maps. ONNX Runtime shows a tensor of unknown rank as one without axes, so that one stays unknown."""
    match = _TENSOR.match(text)
    if match is None:
        return None
    kind = onnx.TensorProto.DataType.Value(_KINDS.get(match[1], match[1].upper()))
    return helper.make_tensor_value_info(name, kind, shape or None)


def inline_branches(graph: onnx.GraphProto) -> bool:
    """Writes out every If whose condition is a constant; whether there was one."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    nodes: list[onnx.NodeProto] = []
    found = False
    for node in graph.node:
        condition = constants.get(node.input[0]) if is_operator(node, "If") else None
        if condition is None:
            nodes.append(node)
            continue
        found = True
        taken = bool(numpy_helper.to_array(condition).reshape(-1)[0])
        branch = next(a.g for a in node.attribute if a.name == ("then_branch" if taken else "else_branch"))
        nodes += _written_out(graph, branch, node)
    if found:
        replace_nodes(graph, nodes)
        lift_constants(graph)
    return found


def _written_out(graph: onnx.GraphProto, branch: onnx.GraphProto, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The nodes of a branch under names of their own; its constants go to the graph."""
    prefix = f"{node.name or node.output[0]}/"
    inner = [tensor.name for tensor in branch.initializer] + [name for part in branch.node for name in part.output if name]
    names = {name: f"{prefix}{name}" for name in inner}
    for tensor in branch.initializer:
        copy = graph.initializer.add()
        copy.CopyFrom(tensor)
        copy.name = names[tensor.name]
    nodes = [_renamed(part, names) for part in branch.node]
    for part in nodes:
        part.name = f"{prefix}{part.name or part.output[0]}"
    ends = zip(branch.output, node.output, strict=False)
    return nodes + [helper.make_node("Identity", [names.get(end.name, end.name)], [output], f"{prefix}{output}") for end, output in ends if output]


def _renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """A copy whose tensors have new names, in its subgraphs too, where those do not make tensors of these names themselves."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for field in (copy.input, copy.output):
        field[:] = [names.get(name, name) for name in field]
    for inner in subgraphs(copy):
        own = own_names(inner)
        outer = {name: new for name, new in names.items() if name not in own}
        replace_nodes(inner, [_renamed(part, outer) for part in inner.node])
        for entry in inner.output:
            entry.name = outer.get(entry.name, entry.name)
    return copy


ROUNDS = 64
"""A chain of shape computations this deep has not been seen."""


def resolve_shapes(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the type and shape of every tensor that has a fixed one; shapes that depend on the data stay open.

    Shapes that the file declares inside, or for its outputs, are dropped: exporters get them wrong. Tensors that ONNX's own inference
    cannot type, such as results of operators outside its standard, are typed by ONNX Runtime.
    """
    _forget_shapes(proto.graph)
    lift_constants(proto.graph)
    proto = _settle(proto)
    for _ in range(ROUNDS):
        if not declare_types(proto):
            break
        proto = _settle(proto)
    return proto


def _settle(proto: onnx.ModelProto) -> onnx.ModelProto:
    for _ in range(ROUNDS):
        proto = infer_partly(proto)
        shapes = tensor_shapes(proto)
        if write_windows(proto.graph, shapes):  # what is known now of the sizes behind such a pool may be wrong, and inference keeps what it finds
            _forget_shapes(proto.graph)
            continue
        if not any([write_scalars(proto.graph, shapes), write_scalers(proto.graph), fold_nodes(proto, shapes), inline_branches(proto.graph)]):
            break
        drop_unread(proto.graph)
    return proto


def _forget_shapes(graph: onnx.GraphProto) -> None:
    """Leaves shapes inside and of the outputs to inference; the types of outputs stay. An output that is an input keeps the input's shape."""
    del graph.value_info[:]
    given = {entry.name: entry for entry in graph.input}
    for entry in graph.output:
        if entry.name in given:
            entry.type.CopyFrom(given[entry.name].type)
        elif entry.type.HasField("tensor_type"):
            entry.type.tensor_type.ClearField("shape")


def infer_partly(proto: onnx.ModelProto) -> onnx.ModelProto:
    """As much as can be told of a model that need not be right; nothing of one whose nodes lack operands."""
    try:
        return shape_inference.infer_shapes(proto, check_type=False, strict_mode=False, data_prop=True)
    except (shape_inference.InferenceError, ValueError, RuntimeError):
        return proto


def strict_complaint(proto: onnx.ModelProto) -> str:
    """The first objection of strict inference; empty where it has none."""
    try:
        shape_inference.infer_shapes(proto, check_type=True, strict_mode=True, data_prop=True)
    except (shape_inference.InferenceError, ValueError, RuntimeError) as error:
        return str(error)
    return ""


def write_scalars(graph: onnx.GraphProto, shapes: Shapes) -> bool:
    """Squeezes every operand of a Range that has one axis; whether there was one."""
    inserted: list[tuple[int, onnx.NodeProto]] = []
    for number, node in enumerate(graph.node):
        if not is_operator(node, "Range"):
            continue
        for place, name in enumerate(node.input):
            if shapes.get(name) == (1,):
                scalar = f"{node.output[0]}/operand{place}"
                inserted.append((number, helper.make_node("Squeeze", [name], [scalar], scalar)))
                node.input[place] = scalar
    for number, node in reversed(inserted):
        graph.node.insert(number, node)
    return bool(inserted)
