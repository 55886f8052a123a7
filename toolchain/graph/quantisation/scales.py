"""One scale for every tensor of a fused network: seen ranges, tensors forced together, limits of the machine's shifts; and scales by the effect of
their rounding and clipping on the outputs of the layers and functions that read a tensor, on samples.

A value that no weight makes anything of may be cut off, one that a large weight multiplies may not: the error of the values alone does not tell.
Weights and errors are rounded to whole numbers whose sums stay below 2**53, so that the choice does not depend on a processor's order of adding up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from toolchain.graph.integers.calls import Call, is_candidate, read_call, window_of
from toolchain.graph.integers.endings import average_fraction
from toolchain.graph.quantisation.ranges import Method, choose_scale, choose_step, choose_zero, position, rounded
from toolchain.graph.quantisation.statistics import columns_of, groups_of, sampled
from toolchain.graph.quantisation.stepping import Stepper
from toolchain.graph.quantisation.table import Samples, Table, ranging
from toolchain.graph.states import NONE
from toolchain.operations.kind import OperationKind
from toolchain.operations.library import Kinds
from toolchain.operations.numbers import complete
from toolchain.operations.whole import constants_of, evaluate_table, unmet
from toolchain.spec.arrays import Array, Reals
from toolchain.spec.errors import fail, nearest
from toolchain.spec.model.quantisation import Numerics

POSITIONS = 1 << 11
"""Output positions of a layer that are looked at, of all samples together."""
INPUT_PARTS = 1 << 6
"""Parts of a stored step to which float inputs and their errors are rounded."""
WEIGHT_PARTS = 1 << 16
"""Parts of the largest weight to which weights are rounded."""
DROPPED = 1 << 13
"""The divisor of an output's error before it is rounded: with 2**13 weights a row, sums of its squares stay below 2**53."""
VALUES = 1 << 16
"""Elements of a tensor at which a function of each is computed, of all samples together."""
RESULT_PARTS = 1 << 16
"""Parts of a function's largest result to which results are rounded."""
LARGEST = 1 << 15
"""Parts of a step at which a value is cut off: 512 steps, more than the finest scale clips at."""
DIGITS = 3
"""Significant decimal digits of an error: scales that differ by less count as equal, and the coarsest is taken."""


@dataclass(frozen=True)
class Reader:
    """A layer that reads a tensor first. weights: its own, in floating point."""

    call: Call
    weights: Array


@dataclass(frozen=True)
class Function:
    """A function of each element that reads a tensor, such as a GELU."""

    kind: OperationKind


Readers = Mapping[str, Sequence[Reader | Function]]
"""By name of a tensor."""


@dataclass
class Choice:
    """A group of tensors that share a scale. scales: those to choose from, the coarsest first. errors: of each, in shares of the readers' outputs."""

    scales: Sequence[float]
    zero: int = 0
    errors: list[float] = field(default_factory=list[float])

    def add(self, errors: Sequence[float]) -> None:
        self.errors = [a + b for a, b in zip(self.errors or [0.0] * len(self.scales), errors, strict=True)]

    @property
    def best(self) -> float:
        """The scale of least error."""
        found = [rounded(error, DIGITS) for error in self.errors]
        return self.scales[found.index(min(found))] if found else self.scales[0]


def judge_scales(model: ir.Model, choices: Mapping[str, Choice], readers: Readers, samples: Samples, count: int, numerics: Numerics) -> None:
    """Runs the float network on `count` samples and adds the errors of every choice up. choices: by name of a tensor.

    A tensor that no layer and no function reads is judged by its own values.
    """
    stepper = Stepper(model)
    stepper.feed(samples, count)
    for value in model.graph.inputs:
        _judge(value.name or "", ranging(value, stepper.values[value]), choices, readers, numerics)
    for node in model.graph:
        stepper.run(node)
        for value in node.outputs:
            if value.name in choices:
                _judge(value.name or "", ranging(value, stepper.values[value]), choices, readers, numerics)


def _judge(name: str, floats: Sequence[Array], choices: Mapping[str, Choice], readers: Readers, numerics: Numerics) -> None:
    if name not in choices:
        return
    choice, given = choices[name], readers.get(name, ())
    found = [_function_shares(each, floats, choice, numerics) for each in given if isinstance(each, Function)]
    layers = [(each, _whole_rows(each)) for each in given if isinstance(each, Reader)]
    if layers or not given:
        parts = [[_parts(array, scale, choice.zero, numerics) for array in floats] for scale in choice.scales]
        found += [[_output_share(*each, some) for some in parts] for each in layers] or [[_value_share(some) for some in parts]]
    for errors in found:
        choice.add(errors)


def _function_shares(function: Function, floats: Sequence[Array], choice: Choice, numerics: Numerics) -> list[float]:
    """For each scale, the energy of the error of a function's results over that of the results."""
    seen = np.concatenate([array.ravel() for array in floats]).astype(np.float64)
    seen = seen[:: max(-(-len(seen) // VALUES), 1)]
    wanted = evaluate_table(function.kind, seen)
    unit = (float(np.abs(wanted).max(initial=0.0)) or 1.0) / RESULT_PARTS
    whole, low, high = np.rint(wanted / unit), numerics.activation.low - choice.zero, numerics.activation.high - choice.zero
    shares = list[float]()
    for scale in choice.scales:
        table = np.rint(evaluate_table(function.kind, np.arange(low, high + 1, dtype=np.float64) * scale) / unit)
        stored = np.clip(np.rint(seen / scale), low, high).astype(np.int64) - low
        shares.append(_share(_energy(table[stored] - whole), _energy(whole)))
    return shares


@dataclass(frozen=True)
class _Parts:
    """A tensor of a sample in parts of a step: the values, and the errors of rounding and clipping them; int16."""

    values: Array
    errors: Array


def _parts(array: Array, scale: float, zero: int, numerics: Numerics) -> _Parts:
    steps = np.asarray(array, np.float32) / np.float32(scale)
    stored = np.clip(np.rint(steps), numerics.activation.low - zero, numerics.activation.high - zero)
    values = np.clip(np.rint(steps * INPUT_PARTS), -LARGEST, LARGEST - 1)
    return _Parts(values.astype(np.int16), np.clip(stored * INPUT_PARTS - values, -LARGEST, LARGEST - 1).astype(np.int16))


def _value_share(parts: Sequence[_Parts]) -> float:
    return _share(*(sum(_energy(array) for array in arrays) for arrays in ([p.errors for p in parts], [p.values for p in parts])))


def _energy(array: Array) -> float:
    return float(np.square(array.ravel().astype(np.float64)).sum())


def _share(noise: float, signal: float) -> float:
    return noise / signal if signal else 0.0


def _output_share(reader: Reader, rows: Reals, parts: Sequence[_Parts]) -> float:
    """The energy of the output's error over that of the output, without its bias. rows: the reader's weights, whole."""
    return _share(_output_energy(reader, rows, [p.errors for p in parts]), _output_energy(reader, rows, [p.values for p in parts]))


def _whole_rows(reader: Reader) -> Reals:
    """[groups, rows, k]."""
    weights, group = reader.weights, groups_of(reader.call)
    unit = (float(np.abs(weights).max(initial=0.0)) or 1.0) / WEIGHT_PARTS
    return np.rint(weights.reshape(group, len(weights) // group, -1).astype(np.float64) / unit)


def _output_energy(reader: Reader, rows: Reals, inputs: Sequence[Array]) -> float:
    call, shape = reader.call, reader.weights.shape
    places = sampled(call, inputs, shape, POSITIONS)
    columns = np.concatenate([columns_of(call, array, shape, some) for array, some in zip(inputs, places, strict=True)], 1).astype(np.float64)
    return _energy(np.rint(np.matmul(rows, columns.transpose(0, 2, 1)) / DROPPED))


MOST_LOWERED = 64
"""A position that falls further falls without end, as where a layer of large weights has a result that shares a scale with its own operand."""


STEPS_OF_SCALE, COARSER = 8, 64
"""Steps to twice a scale, and how many are tried, up to 250 times."""
LEAST_SCALE = 2.0**-126
"""The least float32 with all of its bits."""


@dataclass(frozen=True)
class RangeChoice:
    """How scales are chosen. percentile: the share of values that is kept. measured: by tensor, the scale of least error at the outputs of layers."""

    method: Method = "error"
    percentile: float = 0.9999
    measured: Mapping[str, float] = field(default_factory=dict[str, float])

    def known(self, names: Sequence[str]) -> float | None:
        """The scale that was measured for tensors that share one; None where they did not share one then."""
        found = {self.measured.get(name) for name in names}
        return found.pop() if len(found) == 1 else None


def fused_calls(model: ir.Model, kinds: Kinds) -> list[Call]:
    """The tensors to quantise, in graph order."""
    return [read_call(node, kinds) for node in model.graph if is_candidate(node)]


def tensors_of(call: Call) -> tuple[str, ...]:
    """The tensors that are activations: not weights, not bias."""
    return (*call.data, call.output)


def scale_groups(calls: Sequence[Call], numerics: Numerics, states: Mapping[str, str] = NONE) -> dict[str, str]:
    """Tensor to the name of its group; tensors of one group share a scale. states: by input, the output that is this input in the next step, so that
    an integer goes round unchanged."""
    parents: dict[str, str] = {name: name for call in calls for name in tensors_of(call)}

    def root(name: str) -> str:
        while parents[name] != name:
            parents[name] = name = parents[parents[name]]
        return name

    for call in calls:
        if call.operation.copies or call.kind in numerics.one_scale:
            for name in call.inputs:
                parents[root(name)] = root(call.output)
    for name, output in states.items():
        if name in parents and output in parents:
            parents[root(name)] = root(output)
    return {name: root(name) for name in parents}


def choose_scales(
    calls: Sequence[Call],
    weights: Mapping[str, float],
    numerics: Numerics,
    table: Table,
    choice: RangeChoice,
    place: str = "",
    states: Mapping[str, str] = NONE,
) -> dict[str, float]:
    """Tensor to scale. weights: the scale of each call's weights, by call name. states: as in `scale_groups`.

    Raises UserError E0918 (a tensor was not calibrated).

    A call whose shifts no scales can give is passed over; it cannot be quantised then.
    """
    groups = scale_groups(calls, numerics, states)
    members = _members(groups)
    missing = next((name for name in groups if name not in table.tensors), None)
    if missing is not None:
        hint = nearest(missing, table.tensors)
        raise fail("E0918", f"the calibration table has no tensor '{missing}'", hint=hint, place=place)
    choose = choose_step if numerics.zero_points else choose_scale
    chosen = {
        group: choice.known(names)
        or choose([table.tensors[name].spread for name in names], numerics.activation, numerics.form, choice.method, choice.percentile)
        for group, names in members.items()
    }
    for call in calls:
        _coarsen(call, groups, chosen)
    if numerics.form == "power_of_two":
        positions = _settled(calls, groups, {group: position(scale) for group, scale in chosen.items()}, weights, numerics)
        chosen = {group: 2.0**-place for group, place in positions.items()}
    return {name: max(float(np.float32(chosen[group])), LEAST_SCALE) for name, group in groups.items()}


def scale_choices(calls: Sequence[Call], numerics: Numerics, table: Table, states: Mapping[str, str] = NONE) -> dict[str, Choice]:
    """Tensor to the scales that it may have, one object for those that share one: the scale that clips nothing, and finer ones."""
    zeros, found = choose_zeros(calls, numerics, table, states), dict[str, Choice]()
    choose = choose_step if numerics.zero_points else choose_scale
    for names in _members(scale_groups(calls, numerics, states)).values():
        first = choose([table.tensors[name].spread for name in names], numerics.activation, numerics.form, "max", 1.0)
        shares = (1.0, 0.5, 0.25) if numerics.form == "power_of_two" else tuple(1 - n / 16 for n in range(11))
        found |= dict.fromkeys(names, Choice([first * share for share in shares], zeros.get(names[0], 0)))
    return found


def choose_zeros(calls: Sequence[Call], numerics: Numerics, table: Table, states: Mapping[str, str] = NONE) -> dict[str, int]:
    """Tensor to the stored integer that stands for zero; empty where that is zero in all of them."""
    if not numerics.zero_points:
        return {}
    groups = scale_groups(calls, numerics, states)
    found = {group: choose_zero([table.tensors[name].spread for name in names], numerics.activation) for group, names in _members(groups).items()}
    return {name: found[group] for name, group in groups.items()}


def _coarsen(call: Call, groups: Mapping[str, str], chosen: dict[str, float]) -> None:
    """Makes the scales of a call's operands coarser until the machine's own arithmetic can compute it; leaves them where that does not help."""
    own, numbers = call.operation.arithmetic, call.known_numbers
    if own is None:
        return
    operands = dict(zip(call.operation.data, (groups[name] for name in call.data), strict=True))
    known = complete(call.operation, numbers)
    for steps in range(COARSER):
        scales = {name: chosen[group] * 2 ** (steps / STEPS_OF_SCALE) for name, group in operands.items()}
        if not unmet(own, {**known, **constants_of(own, scales, known)}):
            chosen |= {operands[name]: scale for name, scale in scales.items()}
            return


def _members(groups: Mapping[str, str]) -> dict[str, list[str]]:
    """The tensors of each group."""
    members: dict[str, list[str]] = {}
    for name, group in groups.items():
        members.setdefault(group, []).append(name)
    return members


def _settled(
    calls: Sequence[Call], groups: Mapping[str, str], first: Mapping[str, int], weights: Mapping[str, float], numerics: Numerics
) -> dict[str, int]:
    """Positions, from the first ones down, at which the shifts of all calls exist but of those that have none at any."""
    left = list(calls)
    while True:
        positions = dict(first)
        endless = _settle_all(left, groups, positions, weights, numerics)
        if endless is None:
            return positions
        left.remove(endless)


def _settle_all(
    calls: Sequence[Call], groups: Mapping[str, str], positions: dict[str, int], weights: Mapping[str, float], numerics: Numerics
) -> Call | None:
    """Lowers positions until all shifts exist; the first call for which they fall without end, None where there is none."""
    ends, changed = {group: place - MOST_LOWERED for group, place in positions.items()}, True
    while changed:
        changed = False
        for call in calls:
            if _settle(call, groups, positions, weights, numerics):
                changed = True
                if any(positions[groups[name]] < ends[groups[name]] for name in tensors_of(call)):
                    return call
    return None


def _settle(call: Call, groups: Mapping[str, str], positions: dict[str, int], weights: Mapping[str, float], numerics: Numerics) -> bool:
    """Lowers positions until the call's shifts exist; whether it lowered one. Positions only fall, so this ends."""
    inputs, output = [groups[name] for name in tensors_of(call)[:-1]], groups[call.output]
    lowest = numerics.shift.low
    match call.operation.form:
        case "weighted":
            return _lower(positions, output, positions[inputs[0]] + position(weights[call.name]) - lowest)
        case "computed":
            return _lower(positions, output, product_position(call, [positions[name] for name in inputs]) - lowest)
        case "average":
            fraction = average_fraction(numerics.average, *window_of(call))
            return _lower(positions, output, positions[inputs[0]] + fraction.shift - lowest)
        case "aligned":
            reach = min(positions[name] for name in inputs) + numerics.align.high
            moved = [_lower(positions, name, reach) for name in inputs]
            return _lower(positions, output, max(positions[name] for name in inputs) - lowest) or any(moved)
        case _:
            return False


def product_position(call: Call, given: Sequence[int]) -> int:
    """The position of a product of computed tensors. given: those of the tensors, each as often a factor as the meaning has it."""
    counts = call.operation.factors.counts
    return sum(counts.get(name, 0) * place for name, place in zip(call.operation.data, given, strict=True))


def _lower(positions: dict[str, int], group: str, limit: int) -> bool:
    if positions[group] <= limit:
        return False
    positions[group] = limit
    return True
