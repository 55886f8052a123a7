"""Cycles that a step keeps each unit, for many tiles at once: its instructions' timing classes over the values that the kernel writes into their
fields; and the tiles whose values those fields cannot hold."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.columns import Value
from toolchain.schedule.kernels.constants import constant_length
from toolchain.schedule.kernels.frame import Frame, enter
from toolchain.schedule.kernels.kernel import Issue, Items, Kernel, Loading, Step, Window
from toolchain.schedule.kernels.limits import Fault, Known, faults
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.kernels.sequence_file import formula_of, unsaid
from toolchain.spec.arrays import Ints, Reals, evaluate_arrays
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Expr
from toolchain.spec.fingerprint import MachineKey
from toolchain.spec.model import Machine
from toolchain.timing.class_cost import ClassCost, Fields, class_cost, ports_at_once

FRICTION = 1 / 16
"""The share of the other units' work that does not hide behind the busiest one."""


def step_cycles(problem: Problem, step: Step, names: Mapping[str, Ints], frame: Frame) -> dict[str, Ints]:
    """int64 [n] by unit. names, frame: of n full tiles (`tile_names`, `tile_frame`)."""
    if step.cycles is not None or isinstance(step.code, str):
        return {step.units[0]: evaluate_arrays(step.cycles, names)} if step.cycles is not None else {}
    found = items_cycles(_payer(problem, step), step.code, frame)
    return {unit: _column(value, frame.count) for unit, value in found.items()}


def step_transfers(problem: Problem, step: Step, frame: Frame) -> dict[str, Ints]:
    """int64 [n] by shared resource: the cycles that a step's transfers take of it."""
    if step.cycles is not None or isinstance(step.code, str):
        return {}
    return {name: _column(value, frame.count) for name, value in items_cycles(_payer(problem, step), step.code, frame, _issue_transfers).items()}


def _payer(problem: Problem, step: Step) -> Machine:
    """The machine as the step finds it: a load that all copies of a program take at once costs each a part."""
    shared = step.multicast and step.place in problem.known
    return ports_at_once(MachineKey(problem.machine)) if shared else problem.machine


def step_instructions(problem: Problem, step: Step, frame: Frame) -> Ints:
    """int64 [n]: how many a step is, none where no condition holds; one where text says it."""
    if isinstance(step.code, str):
        return np.ones(frame.count, np.int64)
    counts = items_cycles(problem.machine, step.code, frame, _one_each)
    return sum((_column(value, frame.count) for value in counts.values()), start=np.zeros(frame.count, np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class _Loads:
    """A machine's loading of constants, compared by identity: neither has a hash, and neither changes."""

    machine: Machine
    loading: Loading

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Loads) and self.machine is other.machine and self.loading is other.loading

    def __hash__(self) -> int:
        return hash((id(self.machine), id(self.loading)))


def loading_cycles(problem: Problem, loading: Loading, count: Ints) -> Ints:
    """int64 [n]: to bring `count` constants on chip. Kept: orders and groups ask for the same counts, nine times of ten."""
    return _loading_cycles(_Loads(problem.machine, loading), count.tobytes())


@lru_cache(maxsize=1024)
def _loading_cycles(loads: _Loads, counts: bytes) -> Ints:
    loading, count = loads.loading, np.frombuffer(counts, np.int64)
    if loading.cycles is not None:
        return evaluate_arrays(loading.cycles, {"count": count})
    frame = Frame(len(count), lambda _: 0, {"count": count})
    found = items_cycles(loads.machine, loading.code, frame) if not isinstance(loading.code, str) else {}
    return np.add.reduce([_column(value, len(count)) for value in found.values()])


def items_cycles(machine: Machine, items: Items, frame: Frame, costs: "Costs | None" = None) -> dict[str, Value]:
    """Cycles by unit, or the numbers that `costs` finds, of all instructions together, each as it takes alone: one number, or int64 for each row of
    the frame."""
    total: dict[str, Value] = {}
    for inside in enter(items, frame, once=True):
        body = inside.item.body
        found = (costs or _issue_cycles)(machine, body, inside.frame) if isinstance(body, Issue) else items_cycles(machine, body, inside.frame, costs)
        for unit, value in found.items():
            value = value * inside.rounds
            if inside.of is not None:
                value = np.bincount(inside.of, _column(value, inside.frame.count), frame.count).astype(np.int64)
            total[unit] = total[unit] + value if unit in total else value
    return total


Costs = Callable[[Machine, Issue, Frame], Mapping[str, Value]]
"""The costs of an instruction, by name."""


def _issue_cycles(machine: Machine, issue: Issue, frame: Frame) -> dict[str, Value]:
    """Cycles of the unit."""
    return {issue.unit: _issue_cost(machine, issue, frame).held}


def _one_each(_machine: Machine, issue: Issue, _frame: Frame) -> dict[str, Value]:
    """Instructions of each unit."""
    return {issue.unit: 1}


def _issue_transfers(machine: Machine, issue: Issue, frame: Frame) -> dict[str, Value]:
    """Cycles of each resource."""
    return _issue_cost(machine, issue, frame).work


def _issue_cost(machine: Machine, issue: Issue, frame: Frame) -> ClassCost:
    instruction, known = machine.instruction[issue.instruction], dict[str, Value]()

    def field(name: str) -> Value:
        if name not in known:  # bounds of several loops, and conditions, name it
            known[name] = frame.value(issue.fields[name]) if name in issue.fields else unsaid(instruction, name)
        return known[name]

    def latched(register: str, name: str) -> Value:
        return frame[f"{register}.{name}"]

    return class_cost(machine, instruction, Fields(frame.count, field, latched))


def _column(value: Value, count: int) -> Ints:
    return np.broadcast_to(np.asarray(value, np.int64), (count,))


def tile_frame(problem: Problem, names: Mapping[str, Ints]) -> Frame:
    """Full tiles as instructions name them, as if they stood at the start of everything: numbers that only an emitted tile has are zero."""
    some = next(iter(names.values()))
    own = {name: value for name, value in names.items() if name not in problem.numbers}
    frame = Frame(len(some), lambda name: _elsewhere(problem, name), dict(own))
    for place in problem.kernel.places:
        kept = problem.kept.get(place.name)
        for name, expr in place.names.items():
            if kept:
                frame.names[f"{place.name}_{name}"] = kept.names[name]
            else:
                frame.formulas[f"{place.name}_{name}"] = formula_of(expr), frame
    for item in problem.kernel.constants:
        frame.names[f"{item.name}.first"] = 0
        frame.names[f"{item.name}.stop"] = constant_length(item, names)
    frame.names |= own_channels(problem)
    return frame


def _elsewhere(problem: Problem, name: str) -> Value:
    return problem.numbers.get(name, 0)


def own_channels(problem: Problem) -> dict[str, int]:
    """TENSOR_channels, where each tensor fills its buffer."""
    return {name: constant(expr, problem.numbers) for name, expr in channel_extents(problem.machine, problem.kernel).items()}


def channel_extents(machine: Machine, kernel: Kernel) -> dict[str, Expr]:
    """TENSOR_channels over the operation's numbers and those that the kernel derives."""
    domains = {layout.name: layout.domain for layout in machine.layouts}
    return {f"{t.name}_channels": t.extents[domains[t.layout].index("c")] for t in kernel.tensors if "c" in domains[t.layout]}


def overlapped(busy: Sequence[Reals] | Sequence[float], ends: Reals | float, contexts: int = 2) -> Reals:
    """Cycles: those of the busiest unit, a part of the others' work, and the ends that no work hides; with one context everything in turn.

    busy: by unit.
    """
    together, longest = np.add.reduce(busy), np.maximum.reduce(busy)
    return together if contexts == 1 else longest + ends + (together - longest) * FRICTION


def fitting(problem: Problem, names: Mapping[str, Ints]) -> NDArray[np.bool_]:
    """bool [n]: whether the fields of all steps hold their values for a tile. names: of n full tiles (`tile_names`)."""
    legal = np.ones(len(next(iter(names.values()))), np.bool_)
    for fault in tile_faults(problem, names):
        legal[fault.rows] = False
    return legal & _records_fit(problem, names)


def _records_fit(problem: Problem, names: Mapping[str, Ints]) -> NDArray[np.bool_]:
    """bool [n]: whether the constants of each step fit into their memory at once."""
    fit = np.ones(len(next(iter(names.values()))), np.bool_)
    constants = {item.name: item for item in problem.kernel.constants}
    for step in problem.steps:
        if step.constants:
            records = np.add.reduce([constant_length(constants[name], names) for name in step.constants])
            fit &= records <= problem.machine.memory[constants[step.constants[0]].memory].elements
    return fit


def tile_faults(problem: Problem, names: Mapping[str, Ints]) -> Iterator[Fault]:
    """Fields that do not hold the values of a first tile. Only values that follow from sizes are looked at, not addresses: the assembler refuses the
    rest."""
    known = _known(problem, names)
    for step in problem.steps:
        if not isinstance(step.code, str):
            yield from faults(problem.machine, step.code, known, np.arange(known.frame.count))


def _known(problem: Problem, names: Mapping[str, Ints]) -> Known:
    some = next(iter(names.values()))
    own: dict[str, Ints | int] = {name: _plain(value) for name, value in names.items() if name not in problem.numbers}
    own |= {f"{d.name}_at": 0 for d in problem.kernel.tile} | own_channels(problem)
    for window in problem.kernel.windows:
        own |= _edges(problem, window)
    frame = Frame(len(some), lambda name: problem.numbers[name], dict(own))
    told = frozenset(problem.numbers) - {f"{p.name}_kept" for p in problem.kernel.places}  # by `state_problem`, of a tensor that is not kept
    found = Known(frame, frozenset(own) | frozenset(problem.numbers), told)
    for place in problem.kernel.places:
        kept = problem.kept.get(place.name)
        for name, expr in place.names.items():
            formula = formula_of(expr)
            if kept:
                frame.names[f"{place.name}_{name}"] = kept.names[name]
            elif found.knows(formula):
                frame.formulas[f"{place.name}_{name}"] = formula, frame
            else:
                continue
            found = replace(found, names=found.names | {f"{place.name}_{name}"})
    return found


def _plain(value: Ints) -> Ints | int:
    """One number where there is one tile: numbers are sooner evaluated than arrays."""
    return int(value[0]) if len(value) == 1 else value


def _edges(problem: Problem, window: Window) -> dict[str, int]:
    """The padding of the first and the last tile, the same for every tiling."""
    stride, reach, before, extent = (constant(e, problem.numbers) for e in (window.stride, window.reach, window.before, window.extent))
    after = (problem.extents[window.of] - 1) * stride - before + reach - extent
    return {f"{window.name}_before": max(before, 0), f"{window.name}_after": max(after, 0)}
