"""From an ONNX file to a graph: functions written out, one operator set, shapes and types as far as they can be known.

Local functions are written out where they are called, within bounds that are checked first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx import inliner

from toolchain.graph.files import check_constants, ir_tensor, read_proto, take_weights
from toolchain.graph.importing.fold_nodes import lift_constants
from toolchain.graph.importing.foreign_operators import WRITTEN, drop_maps, share_floats, write_out
from toolchain.graph.importing.fused_layers import has_layers, lend_layers, write_layers
from toolchain.graph.importing.parts import chain_concats, split_products, write_parts
from toolchain.graph.importing.resolve import resolve_shapes
from toolchain.graph.importing.shapes import check_shapes, fix_dims, is_taken
from toolchain.graph.importing.versions import to_opset
from toolchain.graph.nodes import all_nodes, check_sizes, node_text, part_names, sort_nodes, subgraphs, unify_constants
from toolchain.graph.rewrite import is_operator, keep_given_names
from toolchain.spec.errors import fail

MAX_NODES = 1 << 18
"""A model of more nodes than this after inlining is refused."""
Key = tuple[str, str]


def inline_functions(proto: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """The model without local functions.

    Raises UserError E0903 for a function that calls itself, E0922 for calls that multiply beyond MAX_NODES nodes.
    """
    if not proto.functions:
        return proto
    sizes = _Sizes({(function.domain, function.name): function for function in proto.functions}, path)
    total = sum(map(sizes.of_node, all_nodes(proto.graph.node)))
    if total > MAX_NODES:
        raise fail(
            "E0922",
            f"written out, the model's functions make more than {MAX_NODES} nodes",
            hint="do they call each other too often?",
            place=str(path),
        )
    return inliner.inline_local_functions(proto)


@dataclass(frozen=True)
class _Sizes:
    """Counts nodes without writing them out; MAX_NODES + 1 stands for any larger number."""

    functions: Mapping[Key, onnx.FunctionProto]
    path: Path
    known: dict[Key, int] = field(default_factory=dict[Key, int])
    open: list[Key] = field(default_factory=list[Key])

    def of_node(self, node: onnx.NodeProto) -> int:
        key = (node.domain, node.op_type)
        if key not in self.functions:
            return 1
        if key in self.open:
            raise fail("E0903", f"the function '{node.op_type}' calls itself, in {node_text(node)}", place=str(self.path))
        if key not in self.known:
            self.open.append(key)
            total = sum(map(self.of_node, all_nodes(self.functions[key].node)))
            self.open.pop()
            self.known[key] = min(total, MAX_NODES + 1)
        return self.known[key]


FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16)
WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "BatchNormalization", "LSTM", "GRU", "RNN")
"""Operators with weights; other constants may be infinite, such as the masks of attention."""


def load_graph(path: Path, dims: Mapping[str, int] | None = None) -> ir.Model:
    """Reads, checks and converts a model. dims: sizes for open dimensions, such as {'batch': 1}.

    Tensors whose shape depends on the data have none. Raises UserError E0001, E0901 to E0909 and E0922; each names the
    file and, where there is one, node, operator, tensor and shape.
    """
    proto = read_proto(path)
    check_constants(proto, path)
    unify_constants(proto.graph, path)
    proto = inline_functions(proto, path)
    lift_constants(proto.graph)
    sort_nodes(proto.graph, path)
    check_sizes(proto.graph, path)
    weights = take_weights(proto)
    model = _graph(_shaped(proto, dims or {}, weights, path), path)
    _attach(model, weights, path)
    check_finite(model, path)
    keep_given_names(model.graph)
    write_parts(model)
    split_products(model)
    chain_concats(model)
    return model


def _shaped(proto: onnx.ModelProto, dims: Mapping[str, int], weights: Mapping[str, onnx.TensorProto], path: Path) -> onnx.ModelProto:
    lend_layers(proto)
    converted = to_opset(proto, path)
    write_layers(converted)
    if write_out(converted.graph):
        converted.metadata_props.add(key=WRITTEN, value="yes")
    share_floats(converted.graph)
    drop_maps(converted.graph)
    part_names(converted.graph)
    unsized = _copy(converted) if any(subgraphs(node) for node in converted.graph.node) else None
    fix_dims(converted, dims, path, weights)
    known = _with_layers(resolve_shapes(converted))
    if unsized is not None and not is_taken(
        known, optimise=True
    ):  # a branch that is never taken need not fit the sizes, but then nobody may declare them
        known = _with_layers(resolve_shapes(unsized))
    if not weights.keys() <= {entry.name for entry in known.graph.input}:
        raise fail("E0906", "converting the operator set lost a constant", place=str(path))
    check_shapes(known, path)
    return known


def _with_layers(known: onnx.ModelProto) -> onnx.ModelProto:
    """Fused layers once more, of which rules ask numbers that sizes tell, such as how many keys there are."""
    if not has_layers(known):
        return known
    write_layers(known)
    return resolve_shapes(known)


def _copy(proto: onnx.ModelProto) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    return made


def _graph(proto: onnx.ModelProto, path: Path) -> ir.Model:
    try:
        return ir.from_proto(proto)
    except ir.serde.SerdeError as error:
        cause = error.__cause__ or error
        raise fail("E0901", f"the model cannot be read: {' '.join(str(cause).split())[:200]}", place=str(path)) from None


def _attach(model: ir.Model, weights: Mapping[str, onnx.TensorProto], path: Path) -> None:
    """Gives the large constants back to the inputs that stood for them; one that nothing reads any more goes."""
    graph = model.graph
    stand_ins = {value.name or "": value for value in graph.inputs if value.name in weights}
    kept = [value for value in graph.inputs if value.name not in weights]
    graph.inputs.clear()
    graph.inputs.extend(kept)
    for name, value in stand_ins.items():
        if value.uses():
            value.const_value = ir_tensor(weights[name], path)
            graph.register_initializer(value)


def check_finite(model: ir.Model, path: Path) -> None:
    """Raises UserError E0909 naming the first weight with NaN or infinity, its place in it and its reader."""
    for value in model.graph.initializers.values():
        if value.const_value is None or value.const_value.dtype not in FLOATS or not any(is_operator(node, *WEIGHTED) for node, _ in value.uses()):
            continue
        array = value.const_value.numpy()
        with np.errstate(invalid="ignore", over="ignore"):
            quick = np.isfinite(array.sum())  # one that is not finite makes the sum so; a sum may also be too large
        if quick:
            continue
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            number = float(array[tuple(bad[0])])
            users = ", ".join(f"node '{node.name}' ({node.op_type})" for node, _ in value.uses())
            place = ", ".join(str(int(index)) for index in bad[0])
            more = f" and {len(bad) - 1} more such values" if len(bad) > 1 else ""
            text = f"the constant '{value.name}' holds {number} at [{place}]{more}; read by {users}"
            raise fail("E0909", text, place=str(path))
