"""Named properties of a graph that passes require and ensure; each is checked by code, never taken on trust."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import onnx_ir as ir

from toolchain.graph.integers.calls import REASON, is_candidate
from toolchain.graph.integers.functions import FUSED, is_integer
from toolchain.graph.nodes.rewrite import is_operator
from toolchain.graph.operators.affine import affine_of
from toolchain.graph.regions import REGION
from toolchain.passes.fold_batch_norm import foldable
from toolchain.passes.fold_constants import kept_constant
from toolchain.passes.remove_identity import passes_through

Check = Callable[[ir.Model], str]
"""Answers with what is wrong, or with an empty string."""


def _first(nodes: Iterable[ir.Node], sentence: str) -> str:
    node = next(iter(nodes), None)
    return "" if node is None else f"node '{node.name}' ({node.op_type}) {sentence}"


def _no_constant_nodes(model: ir.Model) -> str:
    constants = (node for node in model.graph if is_operator(node, "Constant") and not kept_constant(node))
    return _first(constants, "is a constant")


def _no_batch_norm(model: ir.Model) -> str:
    """None that a layer before it could take in."""
    left = (node for node in model.graph if is_operator(node, "BatchNormalization") and (found := affine_of(node)) is not None and foldable(found[0]))
    return _first(left, "is left")


def _no_identity(model: ir.Model) -> str:
    return _first((node for node in model.graph if passes_through(node) and not node.outputs[0].is_graph_output()), "changes nothing")


def _no_dead_nodes(model: ir.Model) -> str:
    unused = (node for node in model.graph if not any(value.uses() or value.is_graph_output() for value in node.outputs))
    return _first(unused, "is read by nobody")


def _fused(model: ir.Model) -> str:
    """Every node is a call of a fused operation, of integers already, or says why it is none."""
    seen = (node for node in model.graph if node.domain != FUSED and not is_integer(node) and REASON not in node.metadata_props)
    return _first(seen, "was not looked at")


def _quantized(model: ir.Model) -> str:
    return _first((node for node in model.graph if is_candidate(node)), "is still in floating point and does not say why")


def _partitioned(model: ir.Model) -> str:
    """Every node is a call of a region or says why it stays on the host."""
    return _first((node for node in model.graph if node.domain != REGION and REASON not in node.metadata_props), "does not say where it runs")


PROPERTIES: Mapping[str, Check] = MappingProxyType(
    {
        "no_constant_nodes": _no_constant_nodes,
        "no_batch_norm": _no_batch_norm,
        "no_identity": _no_identity,
        "no_dead_nodes": _no_dead_nodes,
        "fused": _fused,
        "quantized": _quantized,
        "partitioned": _partitioned,
    }
)
