"""A study: the machine, the axes along which it varies, what is measured and how points are chosen."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType

from toolchain.spec.errors import Span

SEARCHES: Mapping[str, str] = MappingProxyType(
    {
        "grid": "every point, or as many evenly spaced ones as the budget has",
        "random": "different points, drawn with the seed",
        "bayes": "Optuna's tree-structured Parzen estimator, in batches",
        "evolution": "Optuna's NSGA-II, a batch a generation",
    }
)
QUEUED = ("grid", "random")
"""Searches whose points are all known at the start."""
BUILD_AXES: Mapping[str, str] = MappingProxyType(
    {
        "machine": "whole machines: names, NAME:CONFIG or paths",
        "config": "configurations of the machine",
        "place": "pays, all or least: which regions are made",
        "streams": "how many of the machine's programs share the work of an operation",
        "images": "how many images a run takes",
        "batch": "how many images come at once, for which regions are cut into sub-graphs",
        "search": "the policy that proposes schedules",
        "effort": "how many schedules of a region are timed exactly",
        "without": "kernels that are left out, with + between them; none",
    }
)
"""Axes that are no parameters of the machine: variables of a build."""
VERIFY = ("all", "sample", "no")
"""All tensors by the whole ladder; the model's outputs on one sample, after the checks of its programs; not at all."""


@dataclass(frozen=True)
class Objective:
    """unit: behind its figures. more: whether a larger figure is better. doc: its meaning."""

    unit: str
    doc: str
    more: bool = False


OBJECTIVES: Mapping[str, Objective] = MappingProxyType(
    {
        "ms": Objective("ms", "time of the machine for an image of each model"),
        "total_ms": Objective("ms", "the same with the host's part, transfers and launches"),
        "cycles": Objective("", "cycles of the machine for an image of each model"),
        "bytes": Objective("B", "moved from and to DRAM for an image of each model"),
        "area": Objective("mm2", "of the chip, by the section costs of the machine's file"),
        "energy": Objective("uJ", "for an image of each model, by the section costs"),
        "power": Objective("mW", "energy over time of the machine"),
        "accuracy": Objective("%", "of the integers, of the model that is worst", more=True),
    }
)


@dataclass(frozen=True)
class Axis:
    """values: as a command line gives them, in the order of the study. span: its place in a file."""

    name: str
    values: tuple[str, ...]
    span: Span | None = field(default=None, compare=False)


Point = tuple[str, ...]
"""A value for each axis."""


@dataclass(frozen=True)
class Study:
    """machine: NAME, NAME:CONFIG or a path; the one that others are held against where machines are an axis. budget: the most points that are
    measured. verify: one of VERIFY, for each point.
    start: the machine as its file has it, which is measured first; None where it is no point of the study."""

    machine: str
    models: tuple[str, ...]
    axes: tuple[Axis, ...]
    objectives: tuple[str, ...] = ("ms",)
    search: str = "grid"
    budget: int = 200
    seed: int = 0
    verify: str = "all"
    start: Point | None = None
    span: Span | None = field(default=None, compare=False)

    @property
    def machines(self) -> tuple[str, ...]:
        """Every machine that is built."""
        return next((axis.values for axis in self.axes if axis.name == "machine"), (self.machine,))

    @property
    def size(self) -> int:
        """All points that there are."""
        return prod(len(axis.values) for axis in self.axes)

    @property
    def digest(self) -> str:
        """A hash of all that results depend on; another budget goes on with the same study."""
        axes = [[axis.name, *axis.values] for axis in self.axes]
        text = json.dumps([self.machine, self.models, axes, self.objectives, self.search, self.seed, self.verify])
        return hashlib.sha256(text.encode()).hexdigest()

    def point(self, number: int) -> Point:
        """The point of that number; the last axis varies fastest."""
        found: list[str] = []
        for axis in reversed(self.axes):
            number, place = divmod(number, len(axis.values))
            found.append(axis.values[place])
        return tuple(reversed(found))

    def number(self, point: Point) -> int:
        """The way back."""
        found = 0
        for axis, value in zip(self.axes, point, strict=True):
            found = found * len(axis.values) + axis.values.index(value)
        return found

    def queue(self) -> Iterator[Point]:
        """The points of a search that knows them at the start, `start` before all others."""
        count = min(self.budget, self.size)
        if self.search == "random":
            import random

            numbers = random.Random(self.seed).sample(range(self.size), count)
        else:
            numbers = [number * self.size // count for number in range(count)]
        points = [each for each in map(self.point, numbers) if each != self.start]
        yield from ([self.start, *points] if self.start else points)[:count]


def point_text(study: Study, point: Point) -> str:
    """`LOG_BLOCK=4 LOG_BUS=3`."""
    return " ".join(f"{axis.name}={value}" for axis, value in zip(study.axes, point, strict=True))
