"""Integers in place of the calls of a fused float network, and one shift in place of a channel's own where all channels have the same."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from toolchain.graph.integers.calls import (
    ACTIVATION,
    BOUNDARY,
    DIVISORS,
    EVENED,
    FLOAT_NAME,
    SCALE,
    ZERO,
    Call,
    boundary_call,
    integer_call,
    is_candidate,
    note_reasons,
    read_call,
)
from toolchain.graph.integers.functions import CHANNELS, FUSED, kind_of, variant_of
from toolchain.graph.operators import ANY, Interval, limits_of
from toolchain.graph.quantisation.own_arithmetic import own_total
from toolchain.graph.quantisation.requantisation import Stored, channel_factors, product, table, total
from toolchain.graph.rewrite import add_constant, constant, drop_unused_constants, fresh_name, is_operator, substitute
from toolchain.operations.ending import quantize, scaling_operands, zero_names
from toolchain.operations.float_stages import rounded
from toolchain.operations.floating import computable, ordered
from toolchain.operations.kind import OperationKind
from toolchain.operations.library import Kinds
from toolchain.operations.numbers import Attributes
from toolchain.passes.context import Context
from toolchain.passes.leave import LIMITS
from toolchain.spec.arrays import Floats
from toolchain.spec.errors import UserError
from toolchain.spec.model.quantisation import Numerics
from toolchain.spec.reasons import Why, reasons_of_error, refuse


@dataclass(frozen=True)
class Emitter:
    """Replaces calls one by one, in order; float tensors stay where the host reads them."""

    model: ir.Model
    numerics: Numerics
    scales: Mapping[str, float]
    zeros: Mapping[str, int]
    weights: Mapping[str, float]
    means: Mapping[str, tuple[float, ...]]
    strict: bool
    context: Context

    @property
    def kinds(self) -> Kinds:
        return self.context.kinds

    @property
    def domain(self) -> str:
        return self.context.domain

    def emit(self) -> None:
        stored: dict[ir.Value, ir.Value] = {}
        fused = [node for node in self.model.graph if is_candidate(node)]
        done = [node for node in fused if self._replace(node, stored)]
        inside = set(done)
        for node in done:
            self._hand_back(node.outputs[0], stored[node.outputs[0]], inside)
        self.model.graph.remove(done, safe=True)
        self._remove_absorbed()

    def _remove_absorbed(self) -> None:
        """Nodes that conversions replaced and that no other node reads."""
        limits = () if self.context.further else LIMITS  # another machine may take an activation
        for node in reversed(list(self.model.graph)):
            absorbed = is_operator(node, *limits) or EVENED in node.metadata_props
            if absorbed and not node.outputs[0].uses() and not node.outputs[0].is_graph_output():
                self.model.graph.remove(node, safe=True)

    def _integers(self, node: ir.Node, call: Call) -> Stored | None:
        """None for an operation that cannot be: its node says why. Raises UserError E0919 when strict."""
        try:
            return self._stored(call)
        except UserError as error:
            if self.strict:
                raise
            note_reasons(node, *reasons_of_error(error))
            return None

    def _stored(self, call: Call) -> Stored:
        if self.numerics.floats is not None:
            return self._halves(call)
        if call.operation.form == "real":
            raise refuse("E0919", Why.NO_INTEGERS([Why.STAGES()], node=call.name, operation=call.kind))
        operation, given, result = call.operation, [self.scales[name] for name in call.data], self.scales[call.output]
        zeros, known = self._zeros_of(call), [float_constant(self.model, name) for name in call.inputs[len(given) :]]
        if operation.form == "own":
            return own_total(call, known, given, self.weights.get(call.name, 1.0), result, self.numerics, zeros)
        if operation.form == "weighted":
            scales = given[0], self.weights[call.name], result
            if not operation.bias:
                return channel_factors(call, known[0], scales, self.numerics, zeros)
            return product(call, known[0], known[1], self.means.get(call.inputs[0], ()), scales, self.numerics, zeros)
        if operation.form == "table":
            return table(call, given[0], result, self.numerics, (self._zero(call.data[0]), self._zero(call.output)))
        return total(call, given, result, self.numerics, zeros) if operation.scaled else Stored((), {**call.attributes, **zeros})

    def _halves(self, call: Call) -> Stored:
        """Weights in the machine's format and biases in float32; the attributes are those of the function in floating point."""
        if not computable(call.operation):
            raise refuse("E0919", Why.NO_FLOATS(operation=call.kind))
        floats = self.numerics.floats
        assert floats is not None
        if not ordered(call.operation, {**call.operation.defaults, **call.known_numbers}, floats):
            raise refuse("E0919", Why.NO_ORDER(node=call.name))
        known = zip(call.operation.known, (float_constant(self.model, name) for name in call.inputs[len(call.data) :]), strict=True)
        with np.errstate(over="ignore"):
            arrays = tuple(array if name == call.operation.bias else rounded(array, floats.format) for name, array in known)
        if not all(np.isfinite(array).all() for array in arrays):
            raise refuse("E0919", Why.NO_HALF(node=call.name))
        return Stored(arrays, dict(call.attributes))

    def _zero(self, tensor: str) -> int:
        """The stored integer that stands for zero."""
        return self.zeros.get(tensor, 0)

    def _zeros_of(self, call: Call) -> dict[str, int]:
        """The attributes of a call that say which stored integers stand for zero."""
        tensors = {f"zero_{name}": tensor for name, tensor in zip(call.operation.data, call.data, strict=False)} | {"zero_y": call.output}
        return {name: self._zero(tensors[name]) for name in zero_names(call.operation, self.numerics)}

    def _replace(self, node: ir.Node, stored: dict[ir.Value, ir.Value]) -> bool:
        """Puts the integer call before the float one; whether there are integers for it."""
        call = read_call(node, self.kinds)
        found = self._integers(node, call)
        if found is None:
            return False
        given = [value for value in node.inputs[: len(call.data)] if value is not None]
        for value in given:
            if value not in stored:
                stored[value] = self._quantized(value, node)
        graph, inputs = self.model.graph, [stored[value] for value in given]
        inputs += [add_constant(graph, name, array) for name, array in zip(_names(call, self.numerics), found.constants, strict=False)]
        whole = call.operation.meaning.join or call.activation == "leaky" or self.numerics.floats is not None
        variant = variant_of(node) if whole else ""
        made = self._add(call.operation, variant, inputs, found.attributes, call.name, node)
        made.metadata_props.update(node.metadata_props | ({ACTIVATION: call.activation} if call.activation else {}))
        stored[node.outputs[0]] = self._typed(made, node.outputs[0], self.scales[call.output])
        return True

    def _quantized(self, value: ir.Value, before: ir.Node) -> ir.Value:
        """Stored integers of a tensor that the host makes; factors of its channels and the limits of a Clip or Relu become those of the integers."""
        scale, zero = self.scales[value.name or ""], self._zero(value.name or "")
        if self.numerics.floats is not None:
            made = boundary_call(self.model, "quantize", [value], {}, fresh_name(self.model.graph, f"{value.name}.round"), self.numerics, self.domain)
            self.model.graph.insert_before(before, made)
            return self._typed(made, value, scale)
        given, factors = _unfactored(value)
        source, limits = _unlimited(given)
        if factors and math.isfinite(limits[1]):  # each channel would have a limit of its own
            source, limits = given, ANY
        low, high = (self._stored_limit(limit, scale, zero) for limit in limits)
        attributes = {"scale": scale, "zero_y": zero, "low": low, "high": high}
        called = f"quantize{CHANNELS}" if factors else "quantize"
        name = fresh_name(self.model.graph, f"{value.name}.quantize")
        made = boundary_call(self.model, called, [source, *factors], attributes, name, self.numerics, self.domain)
        self.model.graph.insert_before(before, made)
        return self._typed(made, value, scale)

    def _stored_limit(self, value: float, scale: float, zero: int) -> int:
        """The integer that a limit rounds to as any other value does, within the stored range."""
        stored = self.numerics.activation
        if math.isinf(value):
            return stored.low if value < 0 else stored.high
        return int(quantize(np.array([value], np.float32), scale, stored.low, stored.high, self.numerics, zero)[0])

    def _typed(self, made: ir.Node, like: ir.Value, scale: float) -> ir.Value:
        output = made.outputs[0]
        stored = self.numerics.stored
        output.name = fresh_name(self.model.graph, f"{like.name}.{stored}")
        output.shape, output.type = like.shape, ir.TensorType(ir.DataType.FLOAT if stored == "bfloat16" else ir.DataType[stored.upper()])
        output.metadata_props.update({SCALE: float(scale).hex(), FLOAT_NAME: _float_name(like)})
        if DIVISORS in like.metadata_props:
            output.metadata_props[DIVISORS] = like.metadata_props[DIVISORS]
        if self.numerics.zero_points:
            output.metadata_props[ZERO] = str(self._zero(like.name or ""))
        return output

    def _hand_back(self, value: ir.Value, stored: ir.Value, done: set[ir.Node]) -> None:
        """Dequantises for the host and for outputs of the model."""
        readers = [(node, index) for node, index in value.uses() if node not in done]
        if not readers and not value.is_graph_output():
            return
        after = stored.producer()
        assert after is not None
        attributes: dict[str, float] = {"scale": self.scales[value.name or ""], "zero_x": self._zero(value.name or "")}
        name = fresh_name(self.model.graph, f"{value.name}.dequantize")
        called = "dequantize" if value.dtype in (None, ir.DataType.FLOAT) else f"dequantize__{int(value.dtype or ir.DataType.FLOAT)}"
        made = boundary_call(self.model, called, [stored], attributes, name, self.numerics, self.domain)
        self.model.graph.insert_after(after, made)
        output = made.outputs[0]
        output.shape, output.type = value.shape, value.type
        for node, index in readers:
            node.replace_input_with(index, output)
        outputs = self.model.graph.outputs
        for number, found in enumerate(outputs):
            if found is value:
                outputs[number] = output
        name, value.name = value.name, f"{value.name}.gone"
        output.name = name

    def _add(self, kind: OperationKind, variant: str, inputs: list[ir.Value], attributes: Attributes, name: str, before: ir.Node) -> ir.Node:
        made = integer_call(self.model, kind, variant, inputs, attributes, name, self.numerics, self.domain)
        self.model.graph.insert_before(before, made)
        return made


def _unfactored(value: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
    """The tensor that a border's factors multiply, and the factors; for others the value itself."""
    node = value.producer()
    if node is None or EVENED not in node.metadata_props:
        return value, []
    source, factors = node.inputs
    assert source is not None
    assert factors is not None
    return source, [factors]


def _float_name(value: ir.Value) -> str:
    """The tensor of the float stages that a value stands for, whether or not factors divide it."""
    node = value.producer()
    return value.metadata_props.get(FLOAT_NAME) or (node.metadata_props.get(EVENED) if node is not None else None) or value.name or ""


def _unlimited(value: ir.Value) -> tuple[ir.Value, Interval]:
    """The operand of the Clip or Relu that makes a value, and its limits; for others the value itself."""
    node = value.producer()
    limits = None if node is None else limits_of(node)
    source = None if node is None or limits is None else node.inputs[0]
    return (value, ANY) if source is None or limits is None else (source, limits)


def _names(call: Call, numerics: Numerics) -> tuple[str, ...]:
    """Names of the constants of an integer call."""
    if call.operation.form == "table":
        return (f"{call.name}.table",)
    known, ends = call.inputs[len(call.data) :], scaling_operands(call.operation, numerics)
    kind = "int" if numerics.floats is None else "half"
    return (*(f"{name}.{kind}" for name in known), *(f"{call.name}.{end}" for end in ends))


def float_constant(model: ir.Model, name: str) -> Floats:
    """float32, of the tensor's shape. name: of an initializer."""
    array = constant(model.graph.initializers[name])
    assert array is not None
    return np.asarray(array, np.float32)


def weights_of(call: Call) -> str:
    """The tensor of a call's weights."""
    return call.inputs[[each.name for each in call.operation.operands].index(call.operation.weights)]


def drop_functions(model: ir.Model) -> None:
    """The float functions that nothing calls any more."""
    called = {node.op_identifier() for node in model.graph}
    for key in [key for key in model.functions if key[0] == FUSED and key not in called]:
        del model.functions[key]
    if not any(key[0] == FUSED for key in model.functions):
        model.graph.opset_imports.pop(FUSED, None)


def share_shifts(model: ir.Model, numerics: Numerics, kinds: Kinds, domain: str) -> None:
    """Calls whose channels all have the same shift become calls of one shift; results stay the same. domain: of the machine's integers."""
    for node in list(model.graph):
        if node.domain == domain and node.op_type.endswith(CHANNELS) and kind_of(node) not in BOUNDARY:
            _share(model, node, numerics, kinds)
    called = {node.op_identifier() for node in model.graph}
    for key in [key for key in model.functions if key[0] == domain and key not in called]:
        del model.functions[key]
    drop_unused_constants(model.graph)


def _share(model: ir.Model, node: ir.Node, numerics: Numerics, kinds: Kinds) -> None:
    shifts, call = constant(node.inputs[-1]), read_call(node, kinds)
    if shifts is None or shifts.min() != shifts.max():
        return
    inputs = [value for value in node.inputs[:-1] if value is not None]
    attributes = {**call.attributes, "shift": int(shifts.min())}
    made = integer_call(model, call.operation, variant_of(node), inputs, attributes, call.name, numerics, node.domain)
    made.metadata_props.update(node.metadata_props)
    substitute(model.graph, [node], [made])
