"""Calls of fused and integer operations: made, read back, and evaluated, one alone or the whole network."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from toolchain.graph.importing.versions import IR_VERSION, OPSET
from toolchain.graph.integers.functions import (
    FUSED,
    INTEGER,
    boundary_function,
    fused_function,
    integer_function,
    is_integer,
    kind_of,
    variant_of,
)
from toolchain.graph.nodes import REASON
from toolchain.graph.rewrite import constant, known_shape
from toolchain.graph.session import open_session, run_session
from toolchain.graph.store import open_model
from toolchain.operations.ending import of_call, quantize
from toolchain.operations.float_stages import GREATEST, rounded
from toolchain.operations.floating import evaluate_call
from toolchain.operations.kind import OperationKind
from toolchain.operations.library import Kinds, builtin_kinds, kind_named
from toolchain.operations.numbers import Attributes, attribute_numbers
from toolchain.operations.reference import evaluate
from toolchain.spec.arrays import Array
from toolchain.spec.errors import fail
from toolchain.spec.model.quantisation import Numerics
from toolchain.spec.reason import Reason, read_reasons, reasons_json
from toolchain.spec.typed_json import from_json, to_json

BOUNDARY = ("quantize", "dequantize")
SCALE = "tilewright.scale"
"""Metadata of a stored tensor: the value of one stored step, as a float's hexadecimal text."""
ZERO = "tilewright.zero"
"""Metadata of a stored tensor: the integer that stands for zero, where tensors have zeros of their own."""
FLOAT_NAME = "tilewright.float"
"""Metadata of a stored tensor: the tensor of the float network that it stands for."""
REAL_CHANNELS = "tilewright.channels"
"""Metadata of a stored tensor with channels that only fill a block: the places of the real ones, with spaces between them."""
EVENED = "tilewright.evened"
"""Metadata of a product with a factor for each channel that a conversion to integers absorbs: the tensor without the factors."""
DIVISORS = "tilewright.divisors"
"""Metadata of a tensor that stands for another one with each channel, the last axis, divided: the divisors, floats' hexadecimal texts with spaces
between them."""
REFUSALS = "tilewright.refusals"
"""Metadata of a node where several machines share a graph: by machine, as JSON, why each that was asked does not take it."""
Reasons = tuple[Reason, ...]
"""Why every way onto a machine is closed; none where one is open."""
ACTIVATION = "tilewright.activation"
"""Metadata of an integer call: relu and clip are in its limits, so its function's name does not say them."""


def reasons_of(node: ir.Node) -> Reasons:
    """Why a node is not on the machine; none where it is, or was not asked about yet."""
    return read_reasons(node.metadata_props[REASON]) if REASON in node.metadata_props else ()


def note_reasons(node: ir.Node, *reasons: Reason) -> None:
    """Keeps why a node is not on the machine, in place of earlier reasons."""
    node.metadata_props[REASON] = reasons_json(reasons)


def refusals_of(node: ir.Node) -> dict[str, Reasons]:
    """By machine, why it does not take the node; empty where one machine alone was asked."""
    return from_json(dict[str, Reasons], json.loads(node.metadata_props.get(REFUSALS, "{}")))


def note_refusals(node: ir.Node, refusals: Mapping[str, Reasons]) -> None:
    """Adds to the machines' refusals of a node; none leave the node as it is."""
    if refusals:
        node.metadata_props[REFUSALS] = json.dumps({name: to_json(each) for name, each in {**refusals_of(node), **refusals}.items()})


@dataclass(frozen=True)
class Call:
    """One operation: activation ('', relu, clip, leaky), tensors by name, attributes as plain values. shapes: of the inputs, where they are known."""

    name: str
    operation: OperationKind
    activation: str
    inputs: tuple[str, ...]
    output: str
    attributes: Attributes
    shapes: tuple[tuple[int, ...], ...] = ()

    @property
    def kind(self) -> str:
        """The name of the operation."""
        return self.operation.name

    @property
    def data(self) -> tuple[str, ...]:
        """The computed tensors among the inputs: all but weights, biases and tables."""
        return self.inputs if self.operation.meaning.join else self.inputs[: len(self.operation.data)]

    @property
    def joins_channels(self) -> bool:
        """Whether it puts tensors side by side along the channels of pictures."""
        return bool(self.operation.meaning.join) and self.attributes.get("axis") == 1

    @property
    def extents(self) -> dict[str, int]:
        """The extents of the operands, where shapes are known."""
        operands = zip(self.operation.operands, self.shapes, strict=False)
        return {extent: size for each, shape in operands for extent, size in zip(each.extents, shape, strict=False)}

    @property
    def known_numbers(self) -> dict[str, int]:
        """Extents and attributes by the names that the operation gives them."""
        return {**self.extents, **attribute_numbers(self.operation, self.attributes)}

    @property
    def reduced(self) -> tuple[int, ...]:
        """The extents of the reduced axes, where shapes are known."""
        known = self.known_numbers
        return tuple(known.get(extent, 1) for extent in self.operation.meaning.over.values())


def window_of(call: Call) -> tuple[int, int]:
    """How many elements an average is taken over, as rows and columns."""
    sizes = call.reduced
    return (sizes[0], sizes[1]) if len(sizes) == 2 else (math.prod(sizes), 1)


def zero_of(value: ir.Value) -> int:
    """The stored integer that stands for zero."""
    return int(value.metadata_props.get(ZERO, "0"))


def _places(value: ir.Value) -> list[int] | None:
    """Where the real channels of a stored tensor stand; None where all are real."""
    found = value.metadata_props.get(REAL_CHANNELS)
    return None if found is None else [int(place) for place in found.split()]


def real_channels(value: ir.Value, array: Array) -> Array:
    """A stored tensor's array without the channels that only fill a block."""
    places = _places(value)
    return array if places is None else array.take(places, 1)


def aligned(value: ir.Value, numbers: Array) -> Array:
    """A number for each channel of a stored tensor, from those of the real ones; zero for the others. None stay none."""
    places, size = _places(value), (known_shape(value) or (0, 0))[1]
    if places is None or len(numbers) != len(places):
        return numbers
    found = np.zeros(size, numbers.dtype)
    found[places] = numbers
    return found


def factors_of(value: ir.Value) -> Array:
    """The factors of a stored tensor's channels, where the conversion that makes it has them, or the network divides them; 1 for any other."""
    if DIVISORS in value.metadata_props:
        return 1 / np.array([float.fromhex(each) for each in value.metadata_props[DIVISORS].split()])
    node = value.producer()
    found = constant(node.inputs[1]) if node is not None and kind_of(node) == "quantize" and len(node.inputs) > 1 else None
    return np.ones(()) if found is None else found.astype(np.float64)


def is_candidate(node: ir.Node | None) -> bool:
    """Whether a node is a call of a fused operation that may still become integers: it has no reason against it."""
    return node is not None and node.domain == FUSED and REASON not in node.metadata_props


def read_call(node: ir.Node, kinds: Kinds) -> Call:
    """Reads a call back. Raises ValueError for any other node, UserError E0107 for an operation that is not described."""
    kind, variant = kind_of(node), variant_of(node)
    if not kind or kind in BOUNDARY:
        raise ValueError(f"{node.domain}.{node.op_type} is no fused operation")
    operation = kind_named(kinds, kind)
    inputs = tuple(value.name or "" for value in node.inputs if value is not None)
    activation = node.metadata_props.get(ACTIVATION, "" if operation.meaning.join else variant)
    shapes = tuple(known_shape(value) or () for value in node.inputs if value is not None)
    return Call(node.name or "", operation, activation, inputs, node.outputs[0].name or "", _attributes(node), shapes)


def _attributes(node: ir.Node) -> Attributes:
    return {name: _plain(attribute) for name, attribute in node.attributes.items()}


def _plain(attribute: ir.Attr) -> object:
    return tuple(attribute.as_ints()) if attribute.type == ir.AttributeType.INTS else attribute.value


def add_function(model: ir.Model, function: ir.Function) -> None:
    """Gives the model its own copy of a function, once."""
    if function.identifier() not in model.functions:
        model.functions[function.identifier()] = function.clone()
    model.graph.opset_imports[function.domain] = 1


def fused_call(model: ir.Model, kind: OperationKind, variant: str, inputs: Sequence[ir.Value], attributes: Attributes, name: str) -> ir.Node:
    """A new node, not yet in the graph, that calls the floating-point form."""
    return _call(model, fused_function(kind, variant), inputs, attributes, name)


def integer_call(
    model: ir.Model,
    kind: OperationKind,
    variant: str,
    inputs: Sequence[ir.Value],
    attributes: Attributes,
    name: str,
    numerics: Numerics,
    domain: str = INTEGER,
) -> ir.Node:
    """A new node that calls the integer form. inputs: with a shift for each channel or without, where the machine has both. domain: the
    machine's, see `integer_domain`."""
    own = of_call(numerics, bool(kind.bias) and len(inputs) > len(kind.operands))
    return _call(model, integer_function(kind, variant, own, domain), inputs, attributes, name)


def boundary_call(
    model: ir.Model, called: str, inputs: Sequence[ir.Value], attributes: Attributes, name: str, numerics: Numerics, domain: str = INTEGER
) -> ir.Node:
    """A new node that quantises or dequantises; called, inputs: see `boundary_function`; domain: the machine's, see `integer_domain`."""
    return _call(model, boundary_function(called, numerics, domain), inputs, attributes, name)


def _call(model: ir.Model, function: ir.Function, inputs: Sequence[ir.Value], attributes: Attributes, name: str) -> ir.Node:
    add_function(model, function)
    given = {key: attributes[key] for key in function.attributes}
    return ir.node(function.name, list(inputs), given, domain=function.domain, name=name, num_outputs=1)


def run_call(node: ir.Node, operands: Sequence[Array], numerics: Numerics, kinds: Kinds) -> Array:
    """One integer call in the numpy reference, conversions at a border included."""
    if kind_of(node) not in BOUNDARY:
        call = read_call(node, kinds)
        if numerics.floats is not None:
            return evaluate_call(call.operation, call.activation, call.attributes, operands, numerics.floats)
        return evaluate(call.operation, call.activation == "leaky", call.attributes, operands, numerics)
    if numerics.floats is not None:
        if kind_of(node) == "quantize":
            form = numerics.floats.format
            return rounded(np.clip(operands[0], -GREATEST[form], GREATEST[form]), form)
        return operands[0].astype((node.outputs[0].dtype or ir.DataType.FLOAT).numpy())
    attributes = _attributes(node)
    if kind_of(node) == "quantize":
        x = np.multiply(*operands, dtype=np.float64) if len(operands) == 2 else operands[0]
        return quantize(x, attributes["scale"], attributes["low"], attributes["high"], numerics, attributes.get("zero_y", 0))
    return (operands[0].astype(np.float32) - np.float32(attributes.get("zero_x", 0))) * np.float32(attributes["scale"])


LENGTH = 4608
"""512 channels of 3x3, the longest sum of the usual networks."""


@cache
def check_oracle() -> None:
    """Raises UserError E0914 when sums of LENGTH products of extremes come out wrong: without VNNI, pairs of products can saturate at 16 bits."""
    values = np.array([-128, 127, -127, 126], np.int8)
    x = np.repeat(values, LENGTH).reshape(4, LENGTH)
    w = np.concatenate([x, np.tile(values, LENGTH).reshape(4, LENGTH)])
    int8, int32 = onnx.TensorProto.INT8, onnx.TensorProto.INT32
    inputs = [helper.make_tensor_value_info("x", int8, x.shape), helper.make_tensor_value_info("w", int8, (LENGTH, 8))]
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w"], ["y"])], "selftest", inputs, [helper.make_tensor_value_info("y", int32, (4, 8))]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    found = run_session(open_session(proto.SerializeToString()), {"x": x, "w": np.ascontiguousarray(w.T)})["y"]
    convolved = _convolved(x, w)
    wanted = x.astype(np.int64) @ w.T.astype(np.int64)
    if not (found == wanted).all() or not (convolved == wanted).all():
        raise fail("E0914", "ONNX Runtime's integer products are not exact on this processor", hint="use a newer onnxruntime or another machine")


def _convolved(x: np.typing.NDArray[np.int8], w: np.typing.NDArray[np.int8]) -> np.typing.NDArray[np.int32]:
    """Compute the products as a 3x3 convolution, which takes another path through ONNX Runtime."""
    int8, int32 = onnx.TensorProto.INT8, onnx.TensorProto.INT32
    images, weights = x.reshape(4, -1, 3, 3), w.reshape(8, -1, 3, 3)
    inputs = [helper.make_tensor_value_info("x", int8, images.shape), helper.make_tensor_value_info("w", int8, weights.shape)]
    graph = helper.make_graph(
        [helper.make_node("ConvInteger", ["x", "w"], ["y"])], "selftest", inputs, [helper.make_tensor_value_info("y", int32, (4, 8, 1, 1))]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    return run_session(open_session(proto.SerializeToString()), {"x": images, "w": weights})["y"].reshape(4, 8)


STORED = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.FLOAT16)


def integer_tensors(model: ir.Model) -> list[ir.Value]:
    """The stored results of integer calls, in the order of the graph."""
    made = (node.outputs[0] for node in model.graph if is_integer(node))
    return [value for value in made if value.dtype in STORED or (value.dtype == ir.DataType.FLOAT and SCALE in value.metadata_props)]


def run_oracle(model: ir.Model, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """ONNX Runtime's results: outputs and every stored tensor, by name. Raises UserError E0910 and E0914."""
    check_oracle()
    return run_session(open_model(model, integer_tensors(model)), inputs)


def run_reference(model: ir.Model, inputs: Mapping[str, Array], numerics: Numerics, kinds: Kinds | None = None) -> dict[str, Array]:
    """All integer tensors by the numpy reference; those that depend on a host operator are left out."""
    known: dict[ir.Value, Array] = {value: inputs[value.name or ""] for value in model.graph.inputs}
    for node in model.graph:
        operands = [known.get(value) if (array := constant(value)) is None else array for value in node.inputs if value is not None]
        given = [operand for operand in operands if operand is not None]
        if is_integer(node) and len(given) == len(operands):
            known[node.outputs[0]] = run_call(node, given, numerics, kinds or builtin_kinds())
    return {value.name or "": array for value, array in known.items() if not value.is_graph_input()}
