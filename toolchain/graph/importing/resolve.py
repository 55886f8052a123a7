"""Shapes and types as far as they can be known: inference and folding in turn, until neither finds anything more."""

import onnx
from onnx import helper, shape_inference

from toolchain.graph.importing.branches import inline_branches
from toolchain.graph.importing.fold_nodes import fold_nodes, lift_constants
from toolchain.graph.importing.ml_operators import write_scalers
from toolchain.graph.importing.types import declare_types
from toolchain.graph.importing.window_sizes import write_windows
from toolchain.graph.nodes.rewrite import is_operator
from toolchain.graph.nodes.structure import drop_unread
from toolchain.graph.nodes.tensor_shapes import Shapes, tensor_shapes

ROUNDS = 64
"""A chain of shape computations this deep has not been seen."""


def resolve_shapes(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the type and shape of every tensor that has a fixed one; what depends on the data stays open.

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
    """Leaves shapes inside and of the outputs to inference; the types of outputs stay. An output that is an input is what the input is."""
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
