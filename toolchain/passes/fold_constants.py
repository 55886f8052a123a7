"""Computes at build time whatever depends on nothing that is fed in."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from toolchain.graph.importing.fold_nodes import RANDOM
from toolchain.graph.importing.versions import IR_VERSION
from toolchain.graph.rewrite import ONNX_DOMAINS, add_constant, captured, constant, drop_unused_constants, is_operator, known_shape
from toolchain.graph.session import ONCE, open_session, run_session
from toolchain.passes.context import Context, Pass
from toolchain.spec.arrays import Array


@dataclass(frozen=True)
class FoldConstants(Pass):
    """max_bytes: results larger than this are left to be computed when the model runs."""

    name: ClassVar[str] = "fold_constants"
    requires: ClassVar[tuple[str, ...]] = ()
    ensures: ClassVar[tuple[str, ...]] = ("no_constant_nodes",)
    max_bytes: int = 1 << 30

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        graph = model.graph
        for node in list(graph):
            _fold_simple(graph, node, self.max_bytes)
        _fold_rest(graph, self.max_bytes, model.ir_version or IR_VERSION)
        drop_unused_constants(graph)
        return model


def _fold_simple(graph: ir.Graph, node: ir.Node, max_bytes: int) -> None:
    """Constants, shapes and fills need nobody to compute them; a fill keeps one element in memory."""
    array: Any = None
    if is_operator(node, "Constant"):
        array = _stored(node)
    elif is_operator(node, "Shape") and (shape := known_shape(node.inputs[0])) is not None:
        start, end = node.attributes.get("start"), node.attributes.get("end")
        array = np.array(shape[start.as_int() if start else None : end.as_int() if end else None], np.int64)
    elif is_operator(node, "ConstantOfShape") and (sizes := constant(node.inputs[0])) is not None:
        fill = node.attributes.get("value")
        one, shape = fill.as_tensor().numpy().reshape(()) if fill else np.zeros((), np.float32), tuple(int(size) for size in sizes)
        if min(shape, default=0) >= 0 and math.prod(shape) * one.itemsize <= max_bytes:
            array = np.broadcast_to(one, shape)
    if array is not None:
        _replace(graph, node, array)


def kept_constant(node: ir.Node) -> bool:
    """Whether a Constant stays a node: an output of the graph, or one that is no dense tensor."""
    return node.outputs[0].is_graph_output() or _stored(node) is None


def _stored(node: ir.Node) -> Array | None:
    name, attribute = next(iter(node.attributes.items()))
    kinds: dict[str, Any] = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    if name == "value":
        return attribute.as_tensor().numpy()
    return np.asarray(attribute.value, kinds[name]) if name in kinds else None


def _replace(graph: ir.Graph, node: ir.Node, array: Array) -> None:
    output = node.outputs[0]
    if not output.is_graph_output():
        output.replace_all_uses_with(add_constant(graph, output.name or "constant", array, instead=True))
        graph.remove(node, safe=True)


def _fold_rest(graph: ir.Graph, max_bytes: int, ir_version: int) -> None:
    """All other constant nodes in one run of ONNX Runtime."""
    folded, known = list[ir.Node](), set[ir.Value]()
    for node in graph:
        plain = bool(node.inputs) and node.domain in ONNX_DOMAINS and not is_operator(node, *RANDOM) and not captured(node)
        if plain and _small(node, max_bytes) and all(v is None or v in known or v.is_initializer() for v in node.inputs):
            folded.append(node)
            known.update(node.outputs)
    inside = set(folded)
    made = [value for node in folded for value in node.outputs if not value.is_graph_output()]
    wanted = [value for value in made if any(user not in inside for user, _ in value.uses())]
    if not wanted:
        return
    wanted.sort(key=lambda value: value.name or "")
    results = _compute(graph, folded, wanted, ir_version)
    for value in wanted:
        value.replace_all_uses_with(add_constant(graph, f"{value.name}.folded", results[value.name or ""]))
    for node in reversed(folded):
        if not any(value.uses() or value.is_graph_output() for value in node.outputs):
            graph.remove(node, safe=True)


def _small(node: ir.Node, max_bytes: int) -> bool:
    shapes = [known_shape(value) for value in node.outputs if value.name]
    return all(shape is not None and math.prod(shape) * 8 <= max_bytes for shape in shapes)


def _compute(graph: ir.Graph, nodes: list[ir.Node], wanted: list[ir.Value], ir_version: int) -> dict[str, Array]:
    inside = set(nodes)
    view = ir.GraphView(
        inputs=(),
        outputs=wanted,
        nodes=nodes,
        initializers=[value for value in graph.initializers.values() if any(user in inside for user, _ in value.uses())],
        opset_imports=graph.opset_imports,
        name="constants",
    )
    copy = view.clone()
    for value in copy.initializers.values():
        if isinstance(value.const_value, ir.ExternalTensor):
            value.const_value = ir.Tensor(value.const_value.numpy(), name=value.name)
    proto = ir.to_proto(ir.Model(copy, ir_version=ir_version))
    return run_session(open_session(proto.SerializeToString(), optimise=False, threads=ONCE), {})
