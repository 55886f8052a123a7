"""What host operators have to do: multiply-accumulates and bytes, by kind; what it costs is the machine's business."""

import math
from collections.abc import Sequence

import onnx_ir as ir

from toolchain.graph.functions import kind_of
from toolchain.runtime.contents import Work

CONVOLUTIONS = ("conv2d", "Conv", "ConvInteger")
WEIGHTED = {**dict.fromkeys(CONVOLUTIONS, 1), "depthwise": 1, "dense": 1}
"""Operators whose results each take a row of the weights, and which operand these are."""


def host_work(nodes: Sequence[ir.Node]) -> dict[str, Work]:
    """By kind: of a fused or integer call its kind, of any other node its operator, but `depthwise` for a convolution that has as many groups as
    channels. Tensors of unknown shape count as nothing."""
    found: dict[str, Work] = {}
    for node in nodes:
        kind = _kind(node)
        before = found.get(kind, Work(0, 0, 0))
        tensors = (value for value in (*node.inputs, *node.outputs) if value is not None)
        found[kind] = Work(before.nodes + 1, before.macs + _macs(kind, node), before.bytes + sum(map(_bytes, tensors)))
    return dict(sorted(found.items()))


def _kind(node: ir.Node) -> str:
    kind, group = kind_of(node) or node.op_type, node.attributes.get("group")
    if kind in CONVOLUTIONS and group is not None and group.as_int() > 1 and _shape(node.inputs[0])[1:2] == (group.as_int(),):
        return "depthwise"
    return kind


def _macs(kind: str, node: ir.Node) -> int:
    result = _shape(node.outputs[0])
    if kind in WEIGHTED:
        return math.prod(result) * math.prod(_shape(node.inputs[WEIGHTED[kind]])[1:])
    if kind == "ConvTranspose":
        return math.prod(_shape(node.inputs[0])) * math.prod(_shape(node.inputs[1])[1:])
    if kind == "Gemm":
        left, turned = _shape(node.inputs[0]), node.attributes.get("transA")
        return math.prod(result) * left[0 if turned is not None and turned.as_int() else 1]
    if kind in ("MatMul", "MatMulInteger"):
        return math.prod(result) * (_shape(node.inputs[0]) or (0,))[-1]
    return 0


def _shape(value: ir.Value | None) -> tuple[int, ...]:
    """(0,) where it is not known."""
    if value is None or value.shape is None or not value.shape.is_static():
        return (0,)
    return tuple(int(size) for size in value.shape.numpy())


def _bytes(value: ir.Value) -> int:
    size = 0 if value.dtype is None or value.dtype == ir.DataType.STRING else value.dtype.itemsize
    return int(math.prod(_shape(value)) * size)
