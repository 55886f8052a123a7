"""Calls of fused and integer operations: made, read back, and evaluated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from toolchain.graph.functions import FUSED, boundary_function, fused_function, integer_function, kind_of, variant_of
from toolchain.graph.integer_reference import evaluate, quantize
from toolchain.graph.numerics import Numerics

Array = np.typing.NDArray[Any]
BOUNDARY = ("quantize", "dequantize")
SCALE = "tilewright.scale"
"""Metadata of an int8 tensor: what one stored step is worth, as a float's hexadecimal text."""
FLOAT_NAME = "tilewright.float"
"""Metadata of an int8 tensor: the tensor of the float network that it stands for."""
REASON = "tilewright.reason"
"""Metadata of a node: why it is not on the machine."""
ACTIVATION = "tilewright.activation"
"""Metadata of an integer call: relu and clip are in its limits, so its function's name does not say them."""


@dataclass(frozen=True)
class Call:
    """One operation: kind (see functions.KINDS), activation ('', relu, clip, leaky), tensors by name, attributes as plain values."""

    name: str
    kind: str
    activation: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, Any]


def is_candidate(node: ir.Node | None) -> bool:
    """Whether a node is a call of a fused operation that may still become integers: it has no reason against it."""
    return node is not None and node.domain == FUSED and REASON not in node.metadata_props


def read_call(node: ir.Node) -> Call:
    """Reads a call back. Raises ValueError for any other node."""
    kind, variant = kind_of(node), variant_of(node)
    if not kind:
        raise ValueError(f"{node.domain}.{node.op_type} is no fused operation")
    attributes = {name: _plain(attribute) for name, attribute in node.attributes.items()}
    inputs = tuple(value.name or "" for value in node.inputs if value is not None)
    activation = node.metadata_props.get(ACTIVATION, "" if kind == "concat" else variant)
    return Call(node.name or "", kind, activation, inputs, node.outputs[0].name or "", attributes)


def _plain(attribute: ir.Attr) -> Any:
    return tuple(attribute.as_ints()) if attribute.type == ir.AttributeType.INTS else attribute.value


def function_name(kind: str, variant: str) -> str:
    return f"{kind}__{variant}" if variant else kind


def add_function(model: ir.Model, function: ir.Function) -> None:
    """Gives the model its own copy of a function, once."""
    if function.identifier() not in model.functions:
        model.functions[function.identifier()] = function.clone()
    model.graph.opset_imports[function.domain] = 1


def fused_call(model: ir.Model, kind: str, variant: str, inputs: Sequence[ir.Value], attributes: Mapping[str, Any], name: str) -> ir.Node:
    """A new node, not yet in the graph, that calls the floating-point form."""
    function = fused_function(function_name(kind, variant))
    return _call(model, function, inputs, attributes, name)


def integer_call(
    model: ir.Model, kind: str, variant: str, inputs: Sequence[ir.Value], attributes: Mapping[str, Any], name: str, numerics: Numerics
) -> ir.Node:
    """A new node that calls the integer form; quantize and dequantize count as kinds here."""
    called = function_name(kind, variant)
    function = boundary_function(called, numerics) if kind in BOUNDARY else integer_function(called, numerics)
    return _call(model, function, inputs, attributes, name)


def _call(model: ir.Model, function: ir.Function, inputs: Sequence[ir.Value], attributes: Mapping[str, Any], name: str) -> ir.Node:
    add_function(model, function)
    given = {key: attributes[key] for key in function.attributes}
    return ir.node(function.name, list(inputs), given, domain=function.domain, name=name, num_outputs=1)


def run_call(call: Call, operands: Sequence[Array], numerics: Numerics) -> Array:
    """One integer call in the numpy reference."""
    attributes = call.attributes
    if call.kind == "quantize":
        return quantize(operands[0], attributes["scale"], attributes["low"], attributes["high"], numerics.rounding)
    if call.kind == "dequantize":
        return operands[0].astype(np.float32) * np.float32(attributes["scale"])
    return evaluate(call.kind, call.activation, attributes, operands, numerics)
