"""One scale for every tensor of a fused network: seen ranges, tensors forced together, limits of the machine's shifts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from toolchain.graph.integers.calls import Call, is_candidate, read_call, window_of
from toolchain.graph.integers.endings import average_fraction
from toolchain.graph.quantisation.output_ranges import Choice
from toolchain.graph.quantisation.ranges import Method, choose_scale, choose_step, choose_zero, position
from toolchain.graph.quantisation.table import Table
from toolchain.graph.states import NONE
from toolchain.operations.library import Kinds
from toolchain.operations.numbers import complete
from toolchain.operations.whole import constants_of, unmet
from toolchain.spec.errors import fail, nearest
from toolchain.spec.model.quantisation import Numerics

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


def groups_of(calls: Sequence[Call], numerics: Numerics, states: Mapping[str, str] = NONE) -> dict[str, str]:
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
    """Tensor to scale. weights: the scale of each call's weights, by call name. states: as in `groups_of`.

    Raises UserError E0918 (a tensor was not calibrated).

    A call whose shifts no scales can give is passed over; it cannot be quantised then.
    """
    groups = groups_of(calls, numerics, states)
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
    for names in _members(groups_of(calls, numerics, states)).values():
        first = choose([table.tensors[name].spread for name in names], numerics.activation, numerics.form, "max", 1.0)
        shares = (1.0, 0.5, 0.25) if numerics.form == "power_of_two" else tuple(1 - n / 16 for n in range(11))
        found |= dict.fromkeys(names, Choice([first * share for share in shares], zeros.get(names[0], 0)))
    return found


def choose_zeros(calls: Sequence[Call], numerics: Numerics, table: Table, states: Mapping[str, str] = NONE) -> dict[str, int]:
    """Tensor to the stored integer that stands for zero; empty where that is zero in all of them."""
    if not numerics.zero_points:
        return {}
    groups = groups_of(calls, numerics, states)
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
