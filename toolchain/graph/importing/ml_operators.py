"""Operators of classical machine learning pipelines (domain ai.onnx.ml), as skl2onnx writes them around a network, in standard ones."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.graph.importing.quantized_operators import Writer
from toolchain.graph.nodes.subgraphs import replace_nodes

DOMAIN = "ai.onnx.ml"
NARROW = (onnx.TensorProto.FLOAT, onnx.TensorProto.INT32, onnx.TensorProto.INT64)
"""Operands that ONNX Runtime takes to float32 first; a double it takes there last."""


def write_scalers(graph: onnx.GraphProto) -> bool:
    """Rewrites every Scaler whose operand's type is known to be one of NARROW; whether there was one."""
    types = {entry.name: entry.type.tensor_type.elem_type for entry in (*graph.input, *graph.value_info)}
    found = [node for node in graph.node if node.domain == DOMAIN and node.op_type == "Scaler" and types.get(node.input[0]) in NARROW]
    if found:
        replace_nodes(graph, [made for node in graph.node for made in (_written(graph, node) if node in found else [node])])
    return bool(found)


def drop_maps(graph: onnx.GraphProto) -> None:
    """Hands out the tensor [n, classes] of which a ZipMap makes a sequence of maps: their values, sorted by class as maps are."""
    zips = {node.output[0]: node for node in graph.node if node.domain == DOMAIN and node.op_type == "ZipMap"}
    kept = [node for node in graph.node if not node.output or node.output[0] not in zips]
    for entry in graph.output:
        if entry.name in zips:
            writer = Writer(zips[entry.name])
            labels = next(iter(writer.keep("classlabels_int64s", "classlabels_strings").values()))
            order = np.array(sorted(range(len(labels)), key=lambda number: labels[number]), np.int64)
            graph.initializer.append(numpy_helper.from_array(order, f"{entry.name}/order"))
            writer.add("Gather", [writer.node.input[0], f"{entry.name}/order"], "sorted", entry.name, axis=1)
            kept += writer.nodes
            entry.type.CopyFrom(helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None))
    if zips:
        replace_nodes(graph, kept)


def _written(graph: onnx.GraphProto, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """(x - offset) * scale, in float32 as ONNX Runtime computes it."""
    writer = Writer(node)
    for name in ("offset", "scale"):
        values = np.array(writer.keep(name)[name], np.float32)
        graph.initializer.append(numpy_helper.from_array(values, f"{node.output[0]}/{name}"))
    x = writer.add("Cast", [node.input[0]], "float", to=onnx.TensorProto.FLOAT)
    difference = writer.add("Sub", [x, f"{node.output[0]}/offset"], "difference")
    writer.add("Mul", [difference, f"{node.output[0]}/scale"], "scaled", node.output[0])
    return writer.nodes
