"""Computes the nodes of a protobuf graph that depend on no input, as long as their results are small: shapes, indices, limits."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.graph.nodes import Shapes, needed, replace_nodes, subgraphs
from toolchain.graph.rewrite import ONNX_DOMAINS, is_operator
from toolchain.graph.session import ONCE, open_session, run_session
from toolchain.spec.errors import UserError

MAX_ELEMENTS = 1 << 20
"""A result that may be larger is left to be computed when the model runs."""
RANDOM = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout")
SHRINKING = ("NonZero", "Unique", "Compress", "Gather", "Slice", "Squeeze")
"""Operators whose results are no larger than their operands times the rank, whatever the data."""


def lift_constants(graph: onnx.GraphProto) -> None:
    """Turns Constant nodes into initializers; one whose result the graph hands out stays."""
    outputs = {entry.name for entry in graph.output}
    lifted = [node for node in graph.node if is_operator(node, "Constant") and node.output[0] not in outputs]
    for node in lifted:
        tensor = _constant_tensor(node)
        if tensor is not None:
            graph.initializer.append(tensor)
            graph.node.remove(node)


def _constant_tensor(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """None for a sparse constant."""
    attribute = node.attribute[0] if len(node.attribute) == 1 else None
    if attribute is None:
        return None
    match attribute.name:
        case "value":
            tensor = onnx.TensorProto()
            tensor.CopyFrom(attribute.t)
        case "value_int":
            tensor = numpy_helper.from_array(np.array(attribute.i, np.int64))
        case "value_ints":
            tensor = numpy_helper.from_array(np.array(attribute.ints, np.int64))
        case "value_float":
            tensor = numpy_helper.from_array(np.array(attribute.f, np.float32))
        case "value_floats":
            tensor = numpy_helper.from_array(np.array(attribute.floats, np.float32))
        case "value_string":
            tensor = _text((), [attribute.s])
        case "value_strings":
            tensor = _text((len(attribute.strings),), attribute.strings)
        case _:
            return None
    tensor.name = node.output[0]
    return tensor


def _text(shape: Sequence[int], values: Sequence[bytes]) -> onnx.TensorProto:
    return onnx.TensorProto(data_type=onnx.TensorProto.STRING, dims=shape, string_data=values)


def fold_nodes(proto: onnx.ModelProto, shapes: Shapes) -> bool:
    """Replaces nodes that can be computed now by initializers; whether there were any. shapes: as far as inference knows them."""
    graph = proto.graph
    known = {tensor.name for tensor in graph.initializer}
    sized = dict(_sized(graph, shapes))
    ready: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.output[0] in sized:
            known.add(node.output[0])
        elif _foldable(node, known, shapes):
            ready.append(node)
            known.update(node.output)
    if not ready and not sized:
        return False
    _store(graph, [numpy_helper.from_array(array, name) for name, array in sized.items()], set(sized))
    if not ready:
        return True
    results = _evaluate(proto, ready)
    if results is None:
        return bool(sized)
    _store(graph, results, {name for node in ready for name in node.output if name})
    return True


def _sized(graph: onnx.GraphProto, shapes: Shapes) -> Iterator[tuple[str, np.typing.NDArray[np.int64]]]:
    """Shape and Size of tensors whose shape is known."""
    for node in graph.node:
        if not is_operator(node, "Shape", "Size"):
            continue
        found = shapes.get(node.input[0])
        part = slice(*(next((a.i for a in node.attribute if a.name == name), None) for name in ("start", "end")))
        sizes = None if found is None else found[part]
        if sizes is not None and None not in sizes:
            known = [size for size in sizes if size is not None]
            yield node.output[0], np.array(known if node.op_type == "Shape" else math.prod(known), np.int64)


def _foldable(node: onnx.NodeProto, known: set[str], shapes: Shapes) -> bool:
    if node.op_type in RANDOM or node.domain not in ONNX_DOMAINS or subgraphs(node):
        return False
    given = list(needed(node))
    return bool(given) and all(name in known for name in given) and all(_small(node, name, shapes) for name in node.output if name)


def _small(node: onnx.NodeProto, name: str, shapes: Shapes) -> bool:
    shape = shapes.get(name)
    if shape is None or None in shape:
        return node.op_type in SHRINKING
    return math.prod(size or 0 for size in shape) <= MAX_ELEMENTS


def _evaluate(proto: onnx.ModelProto, nodes: Sequence[onnx.NodeProto]) -> list[onnx.TensorProto] | None:
    """Every result, by ONNX Runtime; None where it refuses, and will say so when the model runs."""
    made = {name for node in nodes for name in node.output if name}
    read = {name for node in nodes for name in needed(node)} - made
    held = [tensor for tensor in proto.graph.initializer if tensor.name in read]
    outputs = [onnx.ValueInfoProto(name=name) for name in sorted(made)]
    graph = onnx.GraphProto(node=nodes, name="constants", initializer=held, output=outputs)
    model = helper.make_model(graph, opset_imports=proto.opset_import, ir_version=proto.ir_version)
    try:
        found = run_session(open_session(model.SerializeToString(), optimise=False, threads=ONCE), {})
    except UserError:
        return None
    return [numpy_helper.from_array(np.asarray(found[name]), name) for name in sorted(made)]


def _store(graph: onnx.GraphProto, tensors: Sequence[onnx.TensorProto], made: set[str]) -> None:
    """Puts results in place of the nodes that made them; a result that the graph hands out keeps a node."""
    outputs = {entry.name for entry in graph.output}
    kept = [helper.make_node("Constant", [], [t.name], t.name, value=t) for t in tensors if t.name in outputs]
    kept += [node for node in graph.node if not made.issuperset(name for name in node.output if name)]
    replace_nodes(graph, kept)
    graph.initializer.extend(tensor for tensor in tensors if tensor.name not in outputs)
