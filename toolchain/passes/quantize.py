"""Turns a fused float network into a machine's integers: int8 tensors between calls whose functions spell the arithmetic."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from toolchain.graph.calibration.calibrated import CALIBRATED, DECLARED, KEPT, MADE_UP, RECORDED, REPLACED
from toolchain.graph.calibration.output_ranges import Reader, judge_scales
from toolchain.graph.calibration.ranges import METHODS, Method
from toolchain.graph.calibration.table import Table
from toolchain.graph.integers.calls import (
    ACTIVATION,
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
from toolchain.graph.intervals import ANY, Interval, limits_of
from toolchain.graph.quantisation.requantisation import Stored, channel_factors, product, table, total, weight_scale
from toolchain.graph.quantisation.scales import RangeChoice, choose_scales, choose_zeros, fused_calls, scale_choices
from toolchain.graph.rewrite import add_constant, constant, drop_unused_constants, fresh_name, is_operator
from toolchain.operations.ending import of_call, quantize, scaling_operands, zero_names
from toolchain.operations.kind import OperationKind
from toolchain.operations.library import Kinds
from toolchain.passes.budget import Costly, Trials, costly_calls, held_out
from toolchain.passes.context import Context, Pass
from toolchain.passes.even_borders import Evened, even_borders
from toolchain.passes.leave import LIMITS, leave_border_activations, leave_calls, leave_costly, leave_unseen, leave_worst
from toolchain.passes.placement import place_calls
from toolchain.passes.refine import affordable, layer_of, refine
from toolchain.passes.remove_qdq import declares_ranges, keeps_scales
from toolchain.passes.shared_shifts import share_shifts
from toolchain.spec.errors import UserError, fail
from toolchain.spec.model.quantisation import Numerics
from toolchain.spec.reasons import Why, reasons_of_error, refuse
from toolchain.spec.suggest import nearest

EFFORTS = ("auto", "fast", "accurate")
WEIGHTS = ("per_tensor", "per_channel")
ROUNDS = 2
"""How often calls whose integers cost too much are left to the host: the rest is quantised anew, and held against the budget again."""
JUDGED = 16
"""The most samples on which ranges are judged."""


@dataclass(frozen=True)
class Quantize(Pass):
    """Gives the machine's operations integers; all others stay in floating point, each with its reason.

    method: `fast`, `accurate` (weights and biases by the error of each layer's output, see refine), or `auto`: accurate where samples are recorded.
    ranges: max, percentile, error, or output, which is error where the method is not accurate (see graph.ranges, graph.output_ranges).
    correct: take the mean error of rounded weights out of the bias.
    even: weight between activation-range and weight-range equalisation for the channels of tensors that the host makes;
    0: none. It takes samples.
    weights: per_channel gives the weights of each channel a scale of their own where the machine shifts each channel by an amount of its own;
    otherwise per_tensor. Multipliers are always as the machine declares them.
    samples: that the accurate method looks at. float_percent: of all multiply-accumulates, how many may stay in floating point; the layers
    whose integers put their output off by most do, which the accurate method alone knows. strict: an operation without integers is an error.
    """

    name: ClassVar[str] = "quantize"
    requires: ClassVar[tuple[str, ...]] = ("fused",)
    ensures: ClassVar[tuple[str, ...]] = ("quantized",)
    method: str = "auto"
    ranges: str = "error"
    percentile: float = 0.9999
    correct: bool = True
    samples: int = 64
    float_percent: float = 0.0
    weights: str = "per_tensor"
    even: float = 0.75
    strict: bool = False

    def run(self, model: ir.Model, context: Context) -> ir.Model:
        """Quantises, asks the machine, and starts again without the operations that it refuses, until it refuses none."""
        if context.numerics is None or context.table is None:
            raise fail("E0918", "there is no calibration table, or no machine to quantise for", place=context.place)
        numerics, table = self._numerics(context.numerics, context.place), context.table
        choice, budget, evened, fast = self._choice(context), self.float_percent, None, None
        trials, rounds = self._trials(context, table), ROUNDS
        while True:
            leave_border_activations(model, context.kinds)
            leave_unseen(model, table, context.kinds)
            floating = evened or Evened(model, table)
            trial = floating.model.clone()
            self._emit(trial, numerics, floating.table, choice, context)
            placement = place_calls(list(trial.graph), context.devices, context.policy)
            refused = {node.name or "": reason for node, reason in placement.refused.items() if node.domain == context.domain}
            if context.device is not None and refused:
                leave_calls(model, refused, table, context.kinds)
                evened = None
            elif evened is None and self._accurate(context, table):  # only now the borders are known
                fast, evened = trial, self._evened(model, table, trials, context)
                if self.ranges == "output":
                    choice = replace(choice, measured=self._measured(evened, numerics, context))
            else:
                unfitted = trial.clone() if trials else trial
                errors = self._refine(trial, floating, numerics, trials, context)
                found = _better(_Found(trial, unfitted, floating.model), _Found(fast, fast, model) if fast else None, trials, context)
                if budget and leave_worst(model, errors, budget):
                    budget, evened = 0.0, None
                elif rounds and trials and leave_costly(model, self._costly(found, trials, numerics, context)):
                    rounds, evened = rounds - 1, None
                else:
                    found.integer.metadata_props[CALIBRATED] = _calibrated(model, found.integer, context)
                    share_shifts(found.integer, numerics, context.kinds, context.domain)
                    return found.integer

    def _numerics(self, numerics: Numerics, place: str) -> Numerics:
        """The machine's, with one shift for all channels where the model does not ask for more."""
        if self.weights not in WEIGHTS:
            raise fail("E0912", f"'weights' cannot be '{self.weights}'", hint=f"known: {', '.join(WEIGHTS)}", place=place)
        return of_call(numerics, numerics.per_channel and self.weights == "per_channel")

    def _choice(self, context: Context) -> RangeChoice:
        method: Method | None = next((method for method in METHODS if method == self.ranges), None)
        if method is None or self.method not in EFFORTS:
            name, value, known = ("ranges", self.ranges, METHODS) if method is None else ("method", self.method, EFFORTS)
            raise fail("E0912", f"'{name}' cannot be '{value}'", hint=nearest(value, known) or f"known: {', '.join(known)}", place=context.place)
        return RangeChoice(method, self.percentile)

    def _accurate(self, context: Context, table: Table) -> bool:
        """Whether samples decide, because that was asked for or because they are real."""
        wanted = self.method == "accurate" or (self.method == "auto" and context.recorded)
        return wanted and bool(context.samples) and not table.failure

    def _evened(self, model: ir.Model, table: Table, trials: Trials | None, context: Context) -> Evened:
        """Factors for the channels at the borders. model: the fused network."""
        if not self.even or declares_ranges(model):
            return Evened(model, table)
        context.say("scales of channels at the borders")
        return even_borders(
            model, context.samples or {}, affordable(model, trials.learnt if trials else self.samples), table, context.kinds, self.even
        )

    def _measured(self, floating: Evened, numerics: Numerics, context: Context) -> Mapping[str, float]:
        """By tensor, the scale of least error at the outputs of the layers that read it."""
        model, calls = floating.model, fused_calls(floating.model, context.kinds)
        choices, readers = scale_choices(calls, numerics, floating.table), dict[str, list[Reader]]()
        for call in calls:
            if call.operation.bias:
                readers.setdefault(call.data[0], []).append(Reader(call, _floats(model, _weights(call))))
        context.say("ranges by the outputs of layers")
        judge_scales(model, choices, readers, context.samples or {}, affordable(model, min(self.samples, JUDGED)), numerics)
        return {name: choice.best for name, choice in choices.items()}

    def _trials(self, context: Context, table: Table) -> Trials | None:
        """None where nothing says how much the integers may lose, or there are no samples to tell."""
        if context.judge is None or not context.recorded or not context.samples or table.failure:
            return None
        held = held_out(context.samples, self.samples)
        return Trials(context.judge, held.samples, held.learnt, context.place)

    def _costly(self, found: "_Found", trials: Trials, numerics: Numerics, context: Context) -> Sequence[Costly]:
        """Calls to leave to the host; none where the integers lose no more than they may."""
        if found.loss <= trials.judge.budget:
            return ()
        context.say("calls whose integers cost too much")
        tariff = context.device.tariff if context.device else None
        return costly_calls(found.floating, found.unfitted, trials, numerics, context.kinds, tariff)

    def _refine(self, model: ir.Model, floating: Evened, numerics: Numerics, trials: Trials | None, context: Context) -> Mapping[str, float]:
        """Chooses weights and biases on samples, where that was asked for; the error of each layer."""
        table = floating.table
        if context.samples and self._accurate(context, table):
            count = trials.learnt if trials else self.samples
            seen = table if table.samples <= count or context.observe is None else context.observe(count)
            biased = [node for node in floating.model.graph if node.domain == FUSED and context.kinds[kind_of(node)].bias]
            layers = {node.name or "": layer_of(floating.model, node, context.kinds) for node in biased}
            return refine(model, floating.model, layers, numerics, seen, context.samples, count, context.say)
        return {}

    def _emit(self, model: ir.Model, numerics: Numerics, table: Table, choice: RangeChoice, context: Context) -> None:
        calls = fused_calls(model, context.kinds)
        weights = {call.name: weight_scale(_floats(model, _weights(call)), numerics) for call in calls if call.operation.weights}
        scales = choose_scales(calls, weights, numerics, table, choice, context.place)
        means = {name: seen.means for name, seen in table.tensors.items()} if self.correct else {}
        zeros = choose_zeros(calls, numerics, table)
        _Emitter(model, numerics, scales, zeros, weights, means, self.strict, context).emit()
        drop_unused_constants(model.graph)
        _drop_functions(model)


@dataclass(frozen=True)
class _Found:
    """An integer network, and the share of the float network's work that it loses; 0 where nothing measures it.

    unfitted: before its weights were fitted to samples, which also makes up for errors of the calls before them.
    floating: the float network that it stands for.
    """

    integer: ir.Model
    unfitted: ir.Model
    floating: ir.Model
    loss: float = 0.0


def _better(accurate: _Found, fast: _Found | None, trials: Trials | None, context: Context) -> _Found:
    """The integers of less noise on samples that neither was fitted to."""
    if trials is None:
        return accurate
    context.say("accuracy on held-out samples")
    rows = [(each, *trials.measured(each.floating, each.integer)) for each in (accurate, fast) if each]
    found, loss, _ = min(rows, key=lambda row: row[2])
    return replace(found, loss=loss)


def _calibrated(model: ir.Model, integer: ir.Model, context: Context) -> str:
    """Origin of the ranges. model: in floating point, with the ranges that a quantised model declares as metadata."""
    declares = declares_ranges(model)
    if context.recorded:
        return REPLACED if declares else RECORDED
    return MADE_UP if not declares else KEPT if keeps_scales(model, integer) else DECLARED


def _drop_functions(model: ir.Model) -> None:
    """The float functions that nothing calls any more."""
    called = {node.op_identifier() for node in model.graph}
    for key in [key for key in model.functions if key[0] == FUSED and key not in called]:
        del model.functions[key]
    if not any(key[0] == FUSED for key in model.functions):
        model.graph.opset_imports.pop(FUSED, None)


def _floats(model: ir.Model, name: str) -> np.typing.NDArray[np.float32]:
    array = constant(model.graph.initializers[name])
    assert array is not None
    return np.asarray(array, np.float32)


@dataclass(frozen=True)
class _Emitter:
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
        if call.operation.meaning.stages:
            raise refuse("E0919", Why.NO_INTEGERS([Why.STAGES()], node=call.name, operation=call.kind))
        operation, given, result = call.operation, [self.scales[name] for name in call.data], self.scales[call.output]
        zeros = self._zeros_of(call)
        if operation.form == "weighted":
            known, scales = [_floats(self.model, name) for name in call.inputs[len(given) :]], (given[0], self.weights[call.name], result)
            if not operation.bias:
                return channel_factors(call, known[0], scales, self.numerics, zeros)
            return product(call, known[0], known[1], self.means.get(call.inputs[0], ()), scales, self.numerics, zeros)
        if operation.form == "table":
            return table(call, given[0], result, self.numerics, (self._zero(call.data[0]), self._zero(call.output)))
        return total(call, given, result, self.numerics, zeros) if operation.scaled else Stored((), {**call.attributes, **zeros})

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
        variant = variant_of(node) if call.operation.meaning.join or call.activation == "leaky" else ""
        made = self._add(call.operation, variant, inputs, found.attributes, call.name, node)
        made.metadata_props.update(node.metadata_props | ({ACTIVATION: call.activation} if call.activation else {}))
        stored[node.outputs[0]] = self._typed(made, node.outputs[0], self.scales[call.output])
        return True

    def _quantized(self, value: ir.Value, before: ir.Node) -> ir.Value:
        """Stored integers of a tensor that the host makes; factors of its channels and the limits of a Clip or Relu become those of the integers."""
        scale, zero = self.scales[value.name or ""], self._zero(value.name or "")
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
        output.shape, output.type = like.shape, ir.TensorType(ir.DataType[stored.upper()])
        output.metadata_props.update({SCALE: float(scale).hex(), FLOAT_NAME: _float_name(like)})
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

    def _add(self, kind: OperationKind, variant: str, inputs: list[ir.Value], attributes: Mapping[str, Any], name: str, before: ir.Node) -> ir.Node:
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
    return (node.metadata_props.get(EVENED) if node is not None else None) or value.name or ""


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
    return (*(f"{name}.int" for name in known), *(f"{call.name}.{end}" for end in ends))


def _weights(call: Call) -> str:
    """The tensor of a call's weights."""
    return call.inputs[[each.name for each in call.operation.operands].index(call.operation.weights)]
