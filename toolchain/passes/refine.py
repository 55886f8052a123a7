"""Weights and biases chosen by the error of each layer's output on samples, layer by layer, every layer seeing the integers of those before it.

The scale of the weights is the one whose rounded weights put the output off by least: it may clip a few. Then each weight goes up or down so that the
output is off by less (see quantisation.least_squares), the errors of the inputs included (see calibration.statistics), and the bias takes out the
rest of the mean error in each channel.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import takewhile

import numpy as np
import onnx_ir as ir

from toolchain.graph.equivalence import same_operator
from toolchain.graph.integers.calls import SCALE, ZERO, Call, read_call, zero_of
from toolchain.graph.integers.functions import is_integer
from toolchain.graph.quantisation.least_squares import SWEEPS, Gram, round_channels, round_rows
from toolchain.graph.quantisation.ranges import rounded
from toolchain.graph.quantisation.requantisation import Stored, TooFineError, channel_steps, stored_product, within_span
from toolchain.graph.quantisation.statistics import Drift, drift_of, joined, moments_of, tap_means
from toolchain.graph.quantisation.stepping import Stepper
from toolchain.graph.quantisation.table import Samples
from toolchain.graph.rewrite import constant, known_shape
from toolchain.operations.library import Kinds
from toolchain.spec.arrays import Array, Reals
from toolchain.spec.errors import UserError
from toolchain.spec.model.quantisation import Numerics
from toolchain.spec.on_cores import on_cores

Say = Callable[[str], None]
HALVINGS = 4
"""Scales of the weights that are tried: the one that clips none, and its halves."""
TRIED = 2
"""Scales that are tried with the best rounding: those that are best for weights rounded to the nearest."""
ROWS = 32
"""Rows of weights, of each group, by which a scale is chosen; of more, every n-th."""
FRACTIONS = tuple(1 - n / 16 for n in range(10))
"""The limit for machines whose scales are not powers of two."""
MAX_BYTES = 1 << 30
"""The most bytes of one float tensor on all samples; where it is larger, fewer samples are looked at."""


@dataclass(frozen=True)
class Refinable:
    """A convolution or dense layer of the float network that became integers."""

    call: Call
    weights: Array
    bias: Array


@dataclass(frozen=True)
class SeenLayer:
    """A layer on samples. rows: [groups, rows, k], its float weights; means: [groups, k] of its inputs in stored steps; grams: of each group;
    wanted: mean of each channel of its output in the float network before any activation; scales: of a step of its input and of its output;
    zeros: attributes of its call that say which stored integers stand for zero."""

    rows: Reals
    means: Reals
    grams: tuple[Gram, ...]
    drift: Drift
    wanted: Reals
    scales: tuple[float, float]
    zeros: Mapping[str, int]

    @cached_property
    def units(self) -> Reals:
        """[groups, 1, 1], of the grams."""
        return np.array([gram.unit for gram in self.grams]).reshape(-1, 1, 1)

    @cached_property
    def signal(self) -> float:
        """The energy of the layer's output, without its bias."""
        return sum(float(gram.energies(w).sum()) for w, gram in zip(self.rows, self.grams, strict=True))

    def some(self, most: int) -> "SeenLayer":
        """With every n-th row of each group, so that there are no more than `most`."""
        every = -(-self.rows.shape[1] // most)
        return self if every == 1 else replace(self, rows=self.rows[:, ::every], drift=self.drift.some(every))


@dataclass(frozen=True)
class Refined:
    """error: of the layer's outputs by its rounded weights and its inputs' errors, as a share of their energy (by damped products, see
    quantisation.least_squares); 0 where nothing was seen of them."""

    stored: Stored
    error: float


@dataclass(frozen=True)
class Lesson:
    """samples: the first `count` of them are looked at. sweeps: of the descent, at most; more take longer and
    gain less."""

    samples: Samples
    count: int
    sweeps: int = SWEEPS


def refine(model: ir.Model, floating: ir.Model, layers: Mapping[str, Refinable], numerics: Numerics, lesson: Lesson, say: Say) -> dict[str, float]:
    """Changes the constants of a quantised model's layers in place. floating: the network that was quantised, with calls of the same names.

    layers: by name of the call. Answers with the error of each layer's outputs, as a share of their energy.
    """
    import threadpoolctl

    with threadpoolctl.threadpool_limits(1, "blas"):  # threads of many small products wait for each other longer than they work
        return _refine(model, floating, layers, numerics, lesson, say)


def _refine(model: ir.Model, floating: ir.Model, layers: Mapping[str, Refinable], numerics: Numerics, lesson: Lesson, say: Say) -> dict[str, float]:
    errors: dict[str, float] = {}
    integers, floats, waiting = Stepper(model), Stepper(floating), deque(floating.graph)
    for stepper in (integers, floats):
        stepper.feed(lesson.samples, affordable(floating, lesson.count))
    nodes = list(model.graph)
    alike = _run_alike(nodes, integers, waiting, floats)
    fitted = deque(node.name or "" for node in nodes[alike:] if is_integer(node) and node.name in layers)
    for number, node in enumerate(nodes[alike:], alike):
        if fitted and node.name == fitted[0]:
            name = fitted.popleft()
            say(f"operator {number + 1} of {len(nodes)}, {name}")
            _advance(floats, waiting, name)
            seen = _seen(layers[name], node, waiting[0], integers, floats)
            found = _beside(partial(_refined, layers[name], seen, numerics, lesson.sweeps), partial(_run_ahead, floats, waiting, fitted))
            if found is not None:
                _store(node, found.stored)
                errors[name] = found.error
        integers.run(node)
    return errors


def _beside(fit: Callable[[], "Refined | None"], ahead: Callable[[], None]) -> "Refined | None":
    """The result of the first, with the second done on another processor where there is one."""
    return on_cores(lambda make: make(), (fit, ahead))[0]


def _run_alike(nodes: Sequence[ir.Node], integers: Stepper, waiting: "deque[ir.Node]", floats: Stepper) -> int:
    """Computes the operators that the two networks begin with both, once; how many these are."""
    pairs = list(takewhile(lambda pair: same_operator(*pair), zip(nodes, waiting, strict=False)))
    for _ in pairs:
        floats.run(waiting.popleft())
    for node, twin in pairs:
        integers.take(node, [floats.values.get(value, []) for value in twin.outputs])
    return len(pairs)


def _advance(floats: Stepper, waiting: "deque[ir.Node]", name: str) -> None:
    """Runs the float network up to the call of a name, which comes next."""
    while waiting[0].name != name:
        floats.run(waiting.popleft())


def _run_ahead(floats: Stepper, waiting: "deque[ir.Node]", fitted: "deque[str]") -> None:
    """Computes the float network up to the next layer to fit: it does not depend on the weights that are chosen meanwhile."""
    if fitted:
        _advance(floats, waiting, fitted[0])
        _ = floats.values


def affordable(model: ir.Model, count: int) -> int:
    """At most `count` samples, of which the largest tensor takes no more than MAX_BYTES; at least one."""
    sizes = [int(np.prod(known_shape(value) or (1,))) * 4 for node in model.graph for value in node.outputs]
    return max(min(count, MAX_BYTES // max(1, *sizes)), 1)


def _seen(layer: Refinable, node: ir.Node, twin: ir.Node, integers: Stepper, floats: Stepper) -> SeenLayer:
    """node: the layer's integer call, before it is computed. twin: the same in the float network."""
    value, real = node.inputs[0], twin.inputs[0]
    assert value is not None
    assert real is not None
    stored, reals = on_cores(lambda each: each[0].values[each[1]], ((integers, value), (floats, real)))  # one opens a session while the other runs
    given = _centred_integers(value, stored)
    steps = [float.fromhex(each.metadata_props[SCALE]) for each in (value, node.outputs[0])]
    given, reals = joined(given, reals)
    moments = moments_of(layer.call, given, layer.weights.shape)
    rows = _rows(layer.weights, len(moments.inputs))
    grams = tuple(Gram(each, rows.shape[1]) for each in moments.inputs)
    drift = drift_of(layer.call, given, reals, steps[0], layer.weights, moments.inputs)
    wanted = _means(layer, rows, tap_means(layer.call, reals, layer.weights.shape))
    zeros = {name: node.attributes[name].as_int() for name in layer.call.operation.zeros if name in node.attributes}
    return SeenLayer(rows, moments.means, grams, drift, wanted, (steps[0], steps[1]), zeros)


def _means(layer: Refinable, rows: Reals, taps: Reals) -> Reals:
    """[channels] of a layer's output in the float network, rounded. rows: [groups, rows, k], its weights. taps: [groups, k], means of its inputs."""
    found = np.einsum("gok,gk->go", rows, taps).reshape(-1) + layer.bias
    return np.array([rounded(float(each)) for each in found])


def _centred_integers(value: ir.Value, arrays: list[Array]) -> list[Array]:
    """Stored integers less their zero."""
    return [array.astype(np.int16) - zero_of(value) for array in arrays] if ZERO in value.metadata_props else arrays


def _refined(layer: Refinable, seen: SeenLayer, numerics: Numerics, sweeps: int) -> Refined | None:
    """None where no better integers exist than those that the node has."""
    candidates = _candidates(layer.weights, numerics)
    if numerics.form == "power_of_two" and numerics.per_channel:
        candidates.append(_best_of_each(candidates, seen, numerics))
    some = seen.some(ROWS)
    narrowed = [_steps_of(steps, some, seen) for steps in candidates]
    plain = _shares([_nearest(steps, some, numerics) for steps in narrowed], narrowed, some)
    hopeful = sorted(range(len(candidates)), key=lambda number: plain[number])[:TRIED]
    numbers = list(dict.fromkeys((*hopeful, 0)))
    tried = dict(zip(numbers, _rounded([narrowed[number] for number in numbers], some, numerics, sweeps if some is seen else 1), strict=True))
    for number in sorted(tried, key=lambda number: tried[number].error):
        steps = candidates[number]
        weights = tried[number].weights if some is seen else _rounded_rows([steps], seen, numerics, sweeps)[0]
        if (stored := _stored(layer, weights, steps, seen, numerics)) is not None:
            return Refined(stored, _shares([_rows_of(weights, some)], [narrowed[number]], some)[0])
    return None


@dataclass(frozen=True)
class _Rounding:
    """weights: [groups, rows, k], whole. error: as in Refined."""

    weights: Reals
    error: float


def _steps_of(steps: Reals, some: SeenLayer, seen: SeenLayer) -> Reals:
    """The scales of some rows: [groups * rows]."""
    return _rows_of(steps.reshape(len(seen.rows), -1), some).reshape(-1)


def _rows_of(array: Reals, some: SeenLayer) -> Reals:
    """[groups, some rows, ...] of [groups, rows, ...]."""
    return array[:, :: -(-array.shape[1] // some.rows.shape[1])]


def _candidates(weights: Array, numerics: Numerics) -> list[Reals]:
    """Scales of each channel's weights."""
    largest = float(np.abs(weights).max(initial=0.0)) or 1.0
    if numerics.form != "power_of_two":
        plain = channel_steps(weights.astype(np.float32), largest / numerics.weight.high, numerics)
        return [plain * fraction for fraction in FRACTIONS]
    plain = channel_steps(weights.astype(np.float32), 2.0 ** np.ceil(np.log2(largest / numerics.weight.high)), numerics)
    return [plain / 2.0**n for n in range(HALVINGS)]


def _best_of_each(candidates: list[Reals], seen: SeenLayer, numerics: Numerics) -> Reals:
    """For each channel, the scale among the candidates that puts its output off by least."""
    nearest = [_nearest(steps, seen, numerics) for steps in candidates]
    errors = _energies([found * column - seen.rows for found, column in zip(nearest, _columns(candidates, seen), strict=True)], seen)
    return within_span(np.choose(np.argmin(errors.reshape(len(errors), -1), axis=0), candidates), numerics)


def _nearest(steps: Reals, seen: SeenLayer, numerics: Numerics) -> Reals:
    """Stored weights of these scales, rounded to the nearest."""
    return np.clip(np.rint(seen.rows / steps.reshape(len(seen.rows), -1, 1)), numerics.weight.low, numerics.weight.high)


def _rows(weights: Array, groups: int) -> Reals:
    """[groups, rows, k]."""
    return weights.reshape(groups, len(weights) // groups, -1).astype(np.float64)


def _shares(found: Sequence[Reals], steps: Sequence[Reals], seen: SeenLayer) -> list[float]:
    """For each of several roundings, the energy of the output's error over that of the output, without its bias."""
    if seen.signal <= 0:
        return [0.0] * len(found)
    noises = _energies([weights * column - seen.rows for weights, column in zip(found, _columns(steps, seen), strict=True)], seen)
    return [max(float(noise.sum() + seen.drift.energy.sum()), 0.0) / seen.signal for noise in noises]


def _energies(errors: Sequence[Reals], seen: SeenLayer) -> Reals:
    """[roundings, groups, rows]: the energy that errors of the weights add to that of the output's error."""
    joined = np.concatenate(errors, 1)
    own = np.stack([gram.energies(rows) for rows, gram in zip(joined, seen.grams, strict=True)])
    own = own.reshape(len(own), len(errors), -1).transpose(1, 0, 2)
    return own + 2 * np.stack([(each * seen.drift.products).sum(2) for each in errors])


def _columns(steps: Sequence[Reals], seen: SeenLayer) -> list[Reals]:
    """Scales as [groups, rows, 1]."""
    return [each.reshape(len(seen.rows), -1, 1) for each in steps]


def _rounded(steps: Sequence[Reals], seen: SeenLayer, numerics: Numerics, sweeps: int) -> list[_Rounding]:
    """For several choices of scales, the weights that put the output off by least."""
    found = _rounded_rows(steps, seen, numerics, sweeps)
    return [_Rounding(*each) for each in zip(found, _shares(found, steps, seen), strict=True)]


def _rounded_rows(steps: Sequence[Reals], seen: SeenLayer, numerics: Numerics, sweeps: int) -> list[Reals]:
    """As `_rounded`: [groups, rows, k] of each choice. All are rounded at once: rows do not depend on each other."""
    limits, columns, rows = (numerics.weight.low, numerics.weight.high), _columns(steps, seen), seen.rows.shape[1]
    scaled = np.concatenate([seen.rows / column for column in columns], 1)
    drift = np.concatenate([seen.drift.products / column / seen.units for column in columns], 1)
    normal = [gram.normal for gram in seen.grams if gram.normal is not None] if rows == 1 else []
    if len(normal) == len(scaled):
        each = range(len(steps))
        return [round_channels(scaled[:, number], np.stack(normal), *limits, drift[:, number])[:, None] for number in each]
    found = np.stack([round_rows(w, gram, *limits, d, sweeps) for w, gram, d in zip(scaled, seen.grams, drift, strict=True)])
    return np.split(found, len(steps), 1)


def _stored(layer: Refinable, whole: Reals, steps: Reals, seen: SeenLayer, numerics: Numerics) -> Stored | None:
    """The layer's constants; None where the machine has no such integers."""
    stored, scales = whole.reshape(layer.weights.shape).astype(np.int8), (seen.scales[0], float(steps[0]), seen.scales[1])
    try:
        return stored_product(layer.call, stored, steps, _centred(whole, steps, seen), scales, numerics, seen.zeros)
    except (TooFineError, UserError):
        return None


def _centred(whole: Reals, steps: Reals, seen: SeenLayer) -> Reals:
    """The bias at which the mean of each channel is that of the float network."""
    return seen.wanted - np.einsum("gok,gk->go", whole, seen.means).reshape(-1) * steps * seen.scales[0]


def _store(node: ir.Node, stored: Stored) -> None:
    """Gives the node its constants and attributes; the constants are its own."""
    for value, array in zip(node.inputs[1:], stored.constants, strict=True):
        assert value is not None
        value.const_value = ir.Tensor(array, name=value.name)
    for name, attribute in stored.attributes.items():
        if name in node.attributes and isinstance(attribute, int):
            node.attributes[name] = ir.AttrInt64(name, attribute)
        elif name in node.attributes and isinstance(attribute, float):
            node.attributes[name] = ir.AttrFloat32(name, attribute)


def layer_of(model: ir.Model, node: ir.Node, kinds: Kinds) -> Refinable:
    """Weights and bias of a fused call."""
    weights, bias = (constant(model.graph.initializers[value.name or ""]) for value in node.inputs[1:3] if value is not None)
    assert weights is not None
    assert bias is not None
    return Refinable(read_call(node, kinds), np.asarray(weights, np.float32), np.asarray(bias, np.float32))
