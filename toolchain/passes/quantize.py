"""Turns a fused float network into a machine's integers: int8 tensors between calls whose functions spell the arithmetic."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import onnx_ir as ir

from toolchain.graph.integers.calls import BOUNDARY, Reasons
from toolchain.graph.integers.functions import FUSED, is_integer, kind_of
from toolchain.graph.quantisation.ranges import CALIBRATED, DECLARED, KEPT, MADE_UP, METHODS, RECORDED, REPLACED, ROUNDED, ROUNDED_TO_BF16, Method
from toolchain.graph.quantisation.requantisation import weight_scale
from toolchain.graph.quantisation.scales import Function, RangeChoice, Reader, choose_scales, choose_zeros, fused_calls, judge_scales, scale_choices
from toolchain.graph.quantisation.table import Means, Table, with_moved
from toolchain.graph.rewrite import drop_unused_constants
from toolchain.graph.states import carried_pairs
from toolchain.operations.ending import of_call
from toolchain.passes.align_joins import align_joins, with_aligned_joins
from toolchain.passes.budget import Costly, Trials, costly_calls, held_out
from toolchain.passes.context import Context, Pass
from toolchain.passes.emit_integers import Emitter, drop_functions, float_constant, share_shifts, weights_of
from toolchain.passes.even_borders import Evened, even_borders
from toolchain.passes.leave import leave_border_activations, leave_calls, leave_costly, leave_unseen, leave_worst
from toolchain.passes.placement import place_calls
from toolchain.passes.refine import Lesson, Refinable, affordable, layer_of, refine
from toolchain.passes.remove_qdq import declares_ranges, keeps_scales
from toolchain.passes.smooth_streams import observe_streams
from toolchain.spec.errors import fail, nearest
from toolchain.spec.model.quantisation import Numerics

EFFORTS = ("auto", "fast", "accurate")
WEIGHTS = ("per_tensor", "per_channel")
ROUNDS = 2
"""How often calls whose integers cost too much are left to the host: the rest is quantised anew, and held against the budget again."""
DRAFTED = 4
"""Samples of a draft of the weights, which takes a fifth of the time of a whole fit."""
DOUBTFUL = 4
"""So many times the budget (assumed), and integers are in doubt: where a draft of their weights loses as much, calls are left without a whole fit."""
EVERYTHING = 1.0
"""The loss of integers that keep as good as no share of the work: a draft of their weights is not made."""
POWERS = (0.5, 0.65, 0.75, 0.85, 1.0)
"""Powers of a channel's range, for the divisors of streams."""
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
    smooth: whether channels of sequences around norms are divided (see smooth_streams), by the powers that put the outputs off by least.
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
    smooth: bool = True
    strict: bool = False

    def run(self, model: ir.Model, context: Context) -> ir.Model:
        """Quantises, asks the machine, and starts again without the operations that it refuses, until it refuses none."""
        if context.numerics is not None and context.numerics.floats is not None:
            return self._rounded(model, context.numerics, context)
        if context.numerics is None or context.table is None:
            raise fail("E0918", "there is no calibration table, or no machine to quantise for", place=context.place)
        numerics, table = self._numerics(context.numerics, context.place), with_moved(model.graph, context.table)
        choice, budget, evened, fast = self._choice(context), self.float_percent, None, None
        trials, rounds = self._trials(model, context, table), ROUNDS
        while True:
            leave_border_activations(model, context.kinds)
            leave_unseen(model, table, context.kinds)
            floating = evened or Evened(model, table)
            trial = floating.model.clone()
            self._emit(trial, numerics, floating.table, choice, context)
            refused = _refused(trial, context)
            if context.device is not None and refused:
                leave_calls(model, refused, table, context.kinds)
                evened = None
            elif evened is None and self._accurate(context, table):  # only now the borders are known
                smooth = self._smoothed(_Smooth(Evened(model, table), trial, choice), numerics, trials, context)
                fast, evened = (
                    _found(smooth.integer, smooth.integer, smooth.evened.model, trials, context),
                    self._evened(smooth.evened, trials, context),
                )
                scales = self._measured(evened, numerics, context) if self.ranges == "output" else smooth.choice.measured
                choice = replace(choice, measured=scales)
            elif rounds and trials and fast and self._given_up(model, _Found(trial, trial, floating.model, fast.loss), numerics, trials, context):
                rounds, evened = rounds - 1, None
            else:
                unfitted = trial.clone() if trials else trial
                errors = self._refine(trial, floating, numerics, trials, context)
                accurate = _found(trial, unfitted, floating.model, trials, context)
                found = min((each for each in (accurate, fast) if each), key=lambda each: each.noise)
                if budget and leave_worst(model, errors, budget):
                    budget, evened = 0.0, None
                elif rounds and trials and found.loss > trials.judge.budget and leave_costly(model, self._costly(found, trials, numerics, context)):
                    rounds, evened = rounds - 1, None
                else:
                    found.integer.metadata_props[CALIBRATED] = _calibrated(model, found.integer, context)
                    share_shifts(found.integer, numerics, context.kinds, context.domain)
                    align_joins(found.integer, context.devices, context.kinds)
                    return found.integer

    def _rounded(self, model: ir.Model, numerics: Numerics, context: Context) -> ir.Model:
        """In the machine's floating format, which takes neither scales nor samples; starts again without what the machine refuses."""
        ones = defaultdict[str, float](lambda: 1.0)
        while True:
            trial = model.clone()
            Emitter(trial, numerics, ones, {}, {}, {}, self.strict, context).emit()
            drop_unused_constants(trial.graph)
            drop_functions(trial)
            refused = _refused(trial, context)
            if context.device is None or not refused:
                trial.metadata_props[CALIBRATED] = ROUNDED if numerics.stored == "float16" else ROUNDED_TO_BF16
                align_joins(trial, context.devices, context.kinds)
                return trial
            leave_calls(model, refused, context.table or Table(0, {}), context.kinds)

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

    def _smoothed(self, plain: "_Smooth", numerics: Numerics, trials: Trials | None, context: Context) -> "_Smooth":
        """With streams divided by those powers, and the scales, whose integers put the outputs off by least; as it is where none are nearer."""
        model, table, held = plain.evened.model, plain.evened.table, held_out(context.samples or {}, self.samples)
        judging = trials or (context.judge and Trials(context.judge, held.samples, held.learnt, model.clone(), context.place))
        computes = context.device.computes if context.device else None
        if not judging or computes is None or not self.smooth or declares_ranges(model):
            return plain
        streams = observe_streams(model, context.samples or {}, judging.learnt, table, context.kinds, computes)
        if streams is None:
            return plain
        context.say("divisors of channels around norms")
        tried = [self._tried(streams.divided(power), plain.choice, numerics, context) for power in POWERS]
        best = _nearest(plain, tried, judging, context)
        if best is plain:
            return plain
        measured = replace(best.choice, measured=self._measured(best.evened, numerics, context))
        return _nearest(best, [self._tried(best.evened, measured, numerics, context)], judging, context)

    def _tried(self, evened: Evened, choice: RangeChoice, numerics: Numerics, context: Context) -> "_Smooth":
        """The integers of a network by a choice of scales."""
        integer = evened.model.clone()
        self._emit(integer, numerics, evened.table, choice, context)
        return _Smooth(evened, integer, choice)

    def _evened(self, smooth: Evened, trials: Trials | None, context: Context) -> Evened:
        """Factors for the channels at the borders. smooth: the fused network."""
        model, table = smooth.model, smooth.table
        if not self.even or declares_ranges(model):
            return smooth
        context.say("scales of channels at the borders")
        return even_borders(
            model, context.samples or {}, affordable(model, trials.learnt if trials else self.samples), table, context.kinds, self.even
        )

    def _measured(self, floating: Evened, numerics: Numerics, context: Context) -> Mapping[str, float]:
        """By tensor, the scale of least error at the outputs of the layers and functions that read it."""
        model, calls = floating.model, fused_calls(floating.model, context.kinds)
        choices = scale_choices(calls, numerics, floating.table, carried_pairs(model.graph, context.states))
        readers = dict[str, list[Reader | Function]]()
        for call in calls:
            if call.operation.fitted:
                readers.setdefault(call.data[0], []).append(Reader(call, float_constant(model, weights_of(call))))
            elif call.operation.meaning.table:
                readers.setdefault(call.data[0], []).append(Function(call.operation))
        context.say("ranges by the outputs of layers")
        judge_scales(model, choices, readers, context.samples or {}, affordable(model, min(self.samples, JUDGED)), numerics)
        return {name: choice.best for name, choice in choices.items()}

    def _trials(self, model: ir.Model, context: Context, table: Table) -> Trials | None:
        """None where there is nothing to judge by, or no recorded samples."""
        if context.judge is None or not context.recorded or not context.samples or table.failure:
            return None
        held = held_out(context.samples, self.samples)
        return Trials(context.judge, held.samples, held.learnt, model.clone(), context.place)

    def _costly(self, found: "_Found", trials: Trials, numerics: Numerics, context: Context) -> Sequence[Costly]:
        """Calls to leave to the host."""
        context.say("calls whose integers cost too much")
        tariff = context.device.tariff if context.device else None
        return costly_calls(found.floating, found.unfitted, trials, numerics, context.kinds, tariff)

    def _given_up(self, model: ir.Model, found: "_Found", numerics: Numerics, trials: Trials, context: Context) -> bool:
        """Whether calls were left without a whole fit, since a draft of it on few samples leaves the integers far from the budget, too.

        found: not fitted, with the loss of the fast method.
        """
        far = DOUBTFUL * trials.judge.budget
        if far < found.loss < EVERYTHING and self._draft(found, numerics, trials, context) <= far:
            return False
        return found.loss > far and leave_costly(model, self._costly(found, trials, numerics, context))

    def _draft(self, found: "_Found", numerics: Numerics, trials: Trials, context: Context) -> float:
        """The loss of a fit on few samples."""
        context.say("a draft of the weights")
        draft, lesson = found.integer.clone(), Lesson(context.samples or {}, min(DRAFTED, trials.learnt), 1)
        refine(draft, found.floating, _layers(found.floating, context), numerics, lesson, context.say)
        return trials.measured(draft)[0]

    def _refine(self, model: ir.Model, floating: Evened, numerics: Numerics, trials: Trials | None, context: Context) -> Mapping[str, float]:
        """Chooses weights and biases on samples, where that was asked for; the error of each layer."""
        if context.samples and self._accurate(context, floating.table):
            lesson = Lesson(context.samples, trials.learnt if trials else self.samples)
            return refine(model, floating.model, _layers(floating.model, context), numerics, lesson, context.say)
        return {}

    def _emit(self, model: ir.Model, numerics: Numerics, table: Table, choice: RangeChoice, context: Context) -> None:
        calls = fused_calls(model, context.kinds)
        weights = {call.name: weight_scale(float_constant(model, weights_of(call)), numerics) for call in calls if call.operation.weights}
        states = carried_pairs(model.graph, context.states)
        scales = choose_scales(calls, weights, numerics, table, choice, context.place, states)
        means: Means = table.means if self.correct else {}
        zeros = choose_zeros(calls, numerics, table, states)
        Emitter(model, numerics, scales, zeros, weights, means, self.strict, context).emit()
        drop_unused_constants(model.graph)
        drop_functions(model)


def _refused(trial: ir.Model, context: Context) -> dict[str, Reasons]:
    """By name, the machine's calls that placement leaves to the host."""
    asked = with_aligned_joins(trial, context.devices, context.kinds)
    placement = place_calls(list(asked.graph), context.devices, context.policy)
    return {node.name or "": reasons for node, reasons in placement.refused.items() if node.domain == context.domain}


@dataclass(frozen=True)
class _Smooth:
    """A network whose streams may be divided, its integers before weights are fitted, and the choice of their scales."""

    evened: Evened
    integer: ir.Model
    choice: RangeChoice


def _nearest(first: _Smooth, others: Sequence[_Smooth], trials: Trials, context: Context) -> _Smooth:
    """The one that puts the outputs off by least; the first where none is nearer whose calls are all the same, and the machine's."""
    calls, best, least = _integer_calls(first.integer), first, trials.measured(first.integer)[1]
    for each in others:
        noise = trials.measured(each.integer)[1] if _integer_calls(each.integer) == calls else least
        if noise < least and not _refused(each.integer, context):
            best, least = each, noise
    return best


def _integer_calls(integer: ir.Model) -> set[str]:
    """Names of the calls that compute in integers, conversions apart."""
    return {node.name or "" for node in integer.graph if is_integer(node) and kind_of(node) not in BOUNDARY}


def _layers(floating: ir.Model, context: Context) -> dict[str, Refinable]:
    """The layers of a fused network by name."""
    biased = [node for node in floating.graph if node.domain == FUSED and context.kinds[kind_of(node)].fitted]
    return {node.name or "": layer_of(floating, node, context.kinds) for node in biased}


@dataclass(frozen=True)
class _Found:
    """An integer network, the share of the float network's work that it loses, and its noise, on samples that it was not fitted to; 0 where
    nothing measures them.

    unfitted: before its weights were fitted to samples, which also makes up for errors of the calls before them.
    floating: the float network that it stands for.
    """

    integer: ir.Model
    unfitted: ir.Model
    floating: ir.Model
    loss: float = 0.0
    noise: float = 0.0


def _found(integer: ir.Model, unfitted: ir.Model, floating: ir.Model, trials: Trials | None, context: Context) -> _Found:
    """Measured, where there are samples for that."""
    if trials is None:
        return _Found(integer, unfitted, floating)
    context.say("accuracy on held-out samples")
    return _Found(integer, unfitted, floating, *trials.measured(integer))


def _calibrated(model: ir.Model, integer: ir.Model, context: Context) -> str:
    """Origin of the ranges. model: in floating point, with the ranges that a quantised model declares as metadata."""
    declares = declares_ranges(model)
    if context.recorded:
        return REPLACED if declares else RECORDED
    return MADE_UP if not declares else KEPT if keeps_scales(model, integer) else DECLARED
