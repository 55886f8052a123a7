"""The size of a region beside the limits that a machine's file declares."""

import math
from collections.abc import Sequence

import onnx_ir as ir

from toolchain.graph.integers.calls import Reasons
from toolchain.graph.nodes.rewrite import known_shape
from toolchain.graph.operators.work import node_macs
from toolchain.passes.convex import Room, Weight
from toolchain.spec.model import RegionLimits
from toolchain.spec.reasons import Why

MEASURES = ("operations", "macs", "parameter_bytes", "result_bytes")


def room_for(nodes: Sequence[ir.Node], limits: RegionLimits) -> Room | None:
    """The limits beside the weight of each node; None where nothing is limited."""
    most = _most(limits)
    return None if all(math.isinf(value) for value in most) else Room(most, [_weight(node) for node in nodes])


def oversize(node: ir.Node, limits: RegionLimits) -> Reasons:
    """Why an operation alone is more than a region may be; none where it is not."""
    most = _most(limits)
    if all(math.isinf(value) for value in most):
        return ()
    for name, value, limit in zip(MEASURES, _weight(node), most, strict=True):
        if value > limit:
            return (Why.OVERSIZE(value=value, measure=name.replace("_", " "), limit=limit),)
    return ()


def _most(limits: RegionLimits) -> Weight:
    values = (limits.operations, limits.macs, limits.parameter_bytes, limits.result_bytes)
    return tuple(math.inf if value is None else value for value in values)


def _weight(node: ir.Node) -> Weight:
    """Of one sample, in the order of MEASURES. A constant that several operations read counts for each."""
    constants = (value.const_value for value in node.inputs if value is not None and value.is_initializer())
    results = ((known_shape(value) or (), value.dtype) for value in node.outputs)
    made = sum(math.prod(shape) * (dtype.itemsize if dtype else 1) for shape, dtype in results)
    return 1, node_macs(node), sum(constant.nbytes for constant in constants if constant is not None), made
