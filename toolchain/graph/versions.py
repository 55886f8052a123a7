"""Brings a model to the one operator set that everything after works on."""

from pathlib import Path

import onnx
from onnx import defs, inliner, shape_inference, version_converter

from toolchain.graph.node_text import node_text
from toolchain.spec.errors import fail
from toolchain.spec.suggest import nearest

OPSET = 21
IR_VERSION = 10


def to_opset(proto: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """The model at OPSET, its local functions written out. Raises UserError E0906: unknown version or operator, or no way to convert."""
    if proto.functions:
        proto = inliner.inline_local_functions(proto)
    version = next(entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx"))
    if not 1 <= version <= defs.onnx_opset_version():
        text = f"operator set {version} is not known; the installed onnx package knows 1 to {defs.onnx_opset_version()}"
        raise fail("E0906", text, hint="export the model at an older operator set", place=str(path))
    _check_operators(proto, version, path)
    proto.ir_version = max(proto.ir_version, IR_VERSION)
    if version != OPSET:
        proto = _convert(proto, version, path)
    proto.ir_version = IR_VERSION
    return proto


def _convert(proto: onnx.ModelProto, version: int, path: Path) -> onnx.ModelProto:
    names = {next(iter(node.output), ""): node.name for node in proto.graph.node}
    try:
        converted = version_converter.convert_version(proto, OPSET)
    except (RuntimeError, version_converter.ConvertError, shape_inference.InferenceError) as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise fail("E0906", f"cannot convert operator set {version} to {OPSET}: {reason}", place=str(path)) from None
    for node in converted.graph.node:
        output = next(iter(node.output), "")
        node.name = node.name or names.get(output, output)
    return converted


def _check_operators(proto: onnx.ModelProto, version: int, path: Path) -> None:
    known: set[str] = set()
    for node in proto.graph.node:
        if node.domain in ("", "ai.onnx") and not defs.has(node.op_type, version, ""):
            known = known or {schema.name for schema in defs.get_all_schemas()}
            raise fail("E0906", f"{node_text(node)}: operator set {version} has no such operator", hint=nearest(node.op_type, known), place=str(path))
