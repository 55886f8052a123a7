"""Tiles that the instructions of a kernel cannot say: a field holds only so much."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from toolchain.schedule.kernels.constants import constant_length
from toolchain.schedule.kernels.field_limits import Fault, Known, faults
from toolchain.schedule.kernels.frame import Frame
from toolchain.schedule.kernels.kernel import Window
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.kernels.sequence_file import formula_of
from toolchain.schedule.tiling.step_cost import own_channels
from toolchain.spec.arrays import Ints
from toolchain.spec.evaluate import constant


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
            fit &= records <= sum(problem.machine.memory[constants[step.constants[0]].memory].depths)
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
