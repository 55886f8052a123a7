"""Brings a model to an operator set that everything after works on."""

from collections.abc import Container
from functools import cache
from pathlib import Path

import onnx
from onnx import defs, helper

from toolchain.graph.importing.opsets.upgrade import upgrade
from toolchain.graph.nodes.node_text import node_text
from toolchain.graph.nodes.subgraphs import all_nodes, subgraphs
from toolchain.spec.errors import fail
from toolchain.spec.suggest import nearest

OPSET = 21
"""The oldest operator set that goes on from here; a newer one stays."""
IR_VERSION = 10
"""The oldest format that can say OPSET."""


def to_opset(proto: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """The model, which has no local functions, at OPSET or the newer operator set that it has.

    Raises UserError E0906: unknown version or operator, or a node that has no equal form at OPSET.
    """
    _shorten_domains(proto)
    version = _version(proto, path)
    _check_operators(proto.graph, version, {entry.domain for entry in proto.opset_import}, path)
    proto = upgrade(proto, path, OPSET)
    needed = helper.find_min_ir_version_for([helper.make_opsetid("", max(version, OPSET))])
    proto.ir_version = max(needed, IR_VERSION)
    return proto


def _shorten_domains(proto: onnx.ModelProto) -> None:
    """Writes ONNX's own domain in one way: onnx does not infer shapes for the other."""
    for node in all_nodes(proto.graph.node):
        if node.domain == "ai.onnx":
            node.domain = ""
    for entry in proto.opset_import:
        if entry.domain == "ai.onnx":
            entry.domain = ""


def _version(proto: onnx.ModelProto, path: Path) -> int:
    versions = sorted({entry.version for entry in proto.opset_import if not entry.domain})
    if not versions:  # no operator is one of ONNX's own; those that come later are
        proto.opset_import.append(helper.make_opsetid("", OPSET))
        return OPSET
    if len(versions) > 1:
        raise fail("E0906", f"the model names several operator sets of ONNX: {', '.join(map(str, versions))}", place=str(path))
    if not 1 <= versions[0] <= defs.onnx_opset_version():
        text = f"operator set {versions[0]} is not known; the installed onnx package knows 1 to {defs.onnx_opset_version()}"
        raise fail("E0906", text, hint="export the model at an older operator set", place=str(path))
    return versions[0]


def _check_operators(graph: onnx.GraphProto, version: int, domains: Container[str], path: Path) -> None:
    for node in graph.node:
        if node.domain not in domains:
            raise fail("E0906", f"{node_text(node)}: the model names no operator set of the domain '{node.domain}'", place=str(path))
        if not node.domain and not _has(node.op_type, version):
            hint = _hint(node.op_type, version)
            raise fail("E0906", f"{node_text(node)}: operator set {version} has no such operator", hint=hint, place=str(path))
        for inner in subgraphs(node):
            _check_operators(inner, version, domains, path)


@cache
def _has(kind: str, version: int) -> bool:
    """Whether an operator set has an operator, and has not given it up for good."""
    return defs.has(kind, version, "") and not (defs.get_schema(kind, version, "").deprecated and defs.get_schema(kind, OPSET, "").deprecated)


def _hint(kind: str, version: int) -> str:
    """The operator sets that have the operator, or one of a similar name."""
    known = [schema for schema in defs.get_all_schemas_with_history() if not schema.domain]
    since = [schema.since_version for schema in known if schema.name == kind]
    if not since:
        return nearest(kind, {schema.name for schema in known if not schema.deprecated})
    return f"it came with operator set {min(since)}" if version < min(since) else f"operator set {max(since) - 1} was the last to have it"
