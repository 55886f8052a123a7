"""Origins of a program's instructions: operation, step and instance, by number."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.program import Ints

NONE = -1


class StepName(NamedTuple):
    """kind: load, start, compute, finish or store; `constants` for loads of records. place: of the kernel, empty for constants."""

    kind: str
    place: str


@dataclass(frozen=True)
class Origins:
    """steps: the names that occur. operation: index in the region. step: index in `steps`. instance: which of its operation's steps, in the order
    in which they run, counted from 0; all int64 [n], NONE where there is none: tokens are passed on, a program begins or ends."""

    steps: tuple[StepName, ...]
    operation: Ints
    step: Ints
    instance: Ints

    def taken(self, source: Ints) -> "Origins":
        """Origins of instructions made from these, by their indices; NONE for one that was made from none."""
        return Origins(self.steps, *(np.append(column, NONE)[source] for column in (self.operation, self.step, self.instance)))

    def renumbered(self, order: Sequence[int]) -> "Origins":
        """These origins with other indices for operations, by the present ones."""
        return replace(self, operation=np.array([*order, NONE], np.int64)[self.operation])

    def only(self, mine: NDArray[np.bool_]) -> "Origins":
        """These origins for some of the instructions, NONE for the others. mine: bool [n]."""
        return replace(self, **{name: np.where(mine, getattr(self, name), NONE) for name in ("operation", "step", "instance")})

    def does(self, *kinds: str) -> NDArray[np.bool_]:
        """bool [n]: whether an instruction belongs to a step of one of these kinds."""
        wanted = [number for number, name in enumerate(self.steps) if name.kind in kinds]
        return np.isin(self.step, wanted)


def join_origins(parts: Sequence[Origins]) -> Origins:
    """The origins of instructions that follow one another."""
    steps = tuple(dict.fromkeys(name for part in parts for name in part.steps))
    numbers = [np.array([*(steps.index(name) for name in part.steps), NONE], np.int64) for part in parts]
    step = np.concatenate([own[part.step] for own, part in zip(numbers, parts, strict=True)])
    return Origins(steps, np.concatenate([part.operation for part in parts]), step, np.concatenate([part.instance for part in parts]))


class Run(NamedTuple):
    """length: how many neighbouring instructions of one step there are."""

    length: int
    operation: int
    step: StepName | None
    instance: int


def origins_of(runs: Sequence[Run]) -> Origins:
    """One entry for each instruction of all runs."""
    steps = {run.step: None for run in runs if run.step is not None}
    number = {step: index for index, step in enumerate(steps)}
    rows = np.array([(r.operation, number[r.step] if r.step else NONE, r.instance) for r in runs], np.int64).reshape(-1, 3)
    operation, step, instance = np.repeat(rows, [run.length for run in runs], axis=0).T
    return Origins(tuple(steps), operation, step, instance)


def runs_of(origins: Origins) -> list[Run]:
    """Runs that `origins_of` makes the same of."""
    rows = np.stack([origins.operation, origins.step, origins.instance], axis=1)
    first = np.flatnonzero(np.append(True, (rows[1:] != rows[:-1]).any(axis=1))[: len(rows)])
    counts = np.diff(np.append(first, len(rows))).tolist()
    names = [*origins.steps, None]
    return [Run(count, operation, names[step], instance) for count, (operation, step, instance) in zip(counts, rows[first].tolist(), strict=True)]
