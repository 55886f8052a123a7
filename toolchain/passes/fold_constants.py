"""Computes at build time whatever depends on nothing that is fed in."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from toolchain.graph.rewrite import Array, add_constant, constant, drop_unused_constants, is_operator, shape_of
from toolchain.graph.session import open_session, run_session
from toolchain.graph.versions import IR_VERSION
from toolchain.passes.base import Pass
from toolchain.passes.context import Context

RANDOM = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout")


@dataclass(frozen=True)
class FoldConstants(Pass):
    """max_bytes: results larger than this are left to be computed when the model runs."""

    name: ClassVar[str] = "fold_constants"
    requires: ClassVar[tuple[str, ...]] = ("shapes_known",)
    ensures: ClassVar[tuple[str, ...]] = ("no_constant_nodes", "shapes_known")
    max_bytes: int = 1 << 30

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        graph = model.graph
        for node in list(graph):
            _fold_simple(graph, node)
        _fold_rest(graph, self.max_bytes)
        drop_unused_constants(graph)
        return model


def _fold_simple(graph: ir.Graph, node: ir.Node) -> None:
    """Constants, shapes and fills need nobody to compute them; a fill keeps one element in memory however large it is."""
    array: Any = None
    if is_operator(node, "Constant"):
        array = _stored(node)
    elif is_operator(node, "Shape") and node.inputs[0] is not None:
        shape = shape_of(node.inputs[0])
        start, end = node.attributes.get("start"), node.attributes.get("end")
        array = np.array(shape[start.as_int() if start else None : end.as_int() if end else None], np.int64)
    elif is_operator(node, "ConstantOfShape") and (sizes := constant(node.inputs[0])) is not None:
        fill = node.attributes.get("value")
        array = np.broadcast_to(fill.as_tensor().numpy().reshape(()) if fill else np.float32(0), tuple(int(size) for size in sizes))
    if array is not None:
        _replace(graph, node, array)


def _stored(node: ir.Node) -> Array | None:
    name, attribute = next(iter(node.attributes.items()))
    kinds: dict[str, Any] = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    if name == "value":
        return attribute.as_tensor().numpy()
    return np.asarray(attribute.value, kinds[name]) if name in kinds else None


def _replace(graph: ir.Graph, node: ir.Node, array: Array) -> None:
    output = node.outputs[0]
    if output.is_graph_output():
        return
    value = add_constant(graph, output.name or "constant", array)
    output.replace_all_uses_with(value)
    graph.remove(node, safe=True)


def _fold_rest(graph: ir.Graph, max_bytes: int) -> None:
    """All other constant nodes in one run of ONNX Runtime."""
    folded, known = list[ir.Node](), set[ir.Value]()
    for node in graph:
        small = all(np.prod(shape_of(value)) * 8 <= max_bytes for value in node.outputs)
        if node.inputs and not is_operator(node, *RANDOM) and small and all(v is None or v in known or v.is_initializer() for v in node.inputs):
            folded.append(node)
            known.update(node.outputs)
    wanted = [value for value in known if not value.is_graph_output() and any(user not in folded for user, _ in value.uses())]
    if not wanted:
        return
    wanted.sort(key=lambda value: value.name or "")
    results = _compute(graph, folded, wanted)
    for value in wanted:
        value.replace_all_uses_with(add_constant(graph, f"{value.name}.folded", results[value.name or ""]))
    for node in reversed(folded):
        if not any(value.uses() or value.is_graph_output() for value in node.outputs):
            graph.remove(node, safe=True)


def _compute(graph: ir.Graph, nodes: list[ir.Node], wanted: list[ir.Value]) -> dict[str, Array]:
    view = ir.GraphView(
        inputs=(),
        outputs=wanted,
        nodes=nodes,
        initializers=[value for value in graph.initializers.values() if any(user in nodes for user, _ in value.uses())],
        opset_imports=graph.opset_imports,
        name="constants",
    )
    copy = view.clone()
    for value in copy.initializers.values():
        if isinstance(value.const_value, ir.ExternalTensor):
            value.const_value = ir.Tensor(value.const_value.numpy(), name=value.name)
    proto = ir.to_proto(ir.Model(copy, ir_version=IR_VERSION))
    return run_session(open_session(proto.SerializeToString(), optimise=False), {})
