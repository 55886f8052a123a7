"""A region cut into sub-graphs, each with a number of images and of cores of its own, so that a batch takes the least time.

Early operations have large tensors, and want a cluster's memory for few images; late ones have large weights, and want many images for each time that
they are loaded. After GraphTurbo (Zhao et al., OSDI 2023, sections 3 and 4.3), which finds the images of a run by trying; here estimates decide.
"""

import itertools
import json
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx_ir as ir

from toolchain.graph.regions import region_calls
from toolchain.passes.partition import divide_region
from toolchain.schedule.alike import form_of
from toolchain.schedule.batch_ways import (
    Batch,
    batch_cycles,
    batch_options,
    copies_for,
    crossing_cycles,
    cuts,
    launch_cycles,
    part_cycles,
    promising,
    runs_of_batch,
    several_cycles,
    stacked_cycles,
)
from toolchain.schedule.compile_region import team_cycles
from toolchain.schedule.copies import Copies
from toolchain.schedule.kernel_selection import CLOSE, REFUSED
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.planner import bound_problem
from toolchain.schedule.regions.region import Region, part_of_region
from toolchain.schedule.workers import Workers
from toolchain.spec.errors import UserError, fail
from toolchain.spec.files import read_limited
from toolchain.spec.model import Machine
from toolchain.spec.typed_json import from_json, to_json


@dataclass(frozen=True)
class Subgraph:
    """operations: of the region, by index. copies: how it shares the streams and the images of a run. cycles: of a batch, estimated."""

    operations: range
    copies: Copies
    cycles: float


Cut = tuple[Subgraph, ...]
"""In the order of the operations."""


@dataclass(frozen=True)
class Part:
    """A sub-graph as a file has it. region: the name of its own. copies, streams, images: as in Copies. results: the
    tensors that its operations make."""

    region: str
    copies: int
    streams: int
    results: tuple[str, ...]
    images: int = 1

    @property
    def ways(self) -> Copies:
        return Copies(self.copies, self.streams, self.images)


MOST_BYTES = 1 << 24
Parts = Mapping[str, tuple[Part, ...]]
"""The sub-graphs of each region, by its name before."""


@dataclass(frozen=True)
class Uniform:
    """One way to share streams and images for all operations. cycles: estimated, of a whole batch. launches: the host's cycles to start its runs."""

    copies: Copies
    cycles: float
    launches: float


@dataclass(frozen=True)
class Division:
    """subgraphs: in the order of the region's operations. tried: the ways that have room for all of them, most copies first."""

    subgraphs: tuple[Subgraph, ...]
    tried: tuple[Uniform, ...]

    @property
    def uniform(self) -> float:
        """The best that one way for all operations would do, estimated, in cycles of a whole batch with its launches."""
        return min(each.cycles + each.launches for each in self.tried)

    @property
    def cycles(self) -> float:
        """Estimated, of a whole batch, without launches and the tensors between sub-graphs."""
        return sum(each.cycles for each in self.subgraphs)


def divide(batch: Batch, region: Region) -> Division:
    """The cut that takes the least time for a batch, with the launches of its programs, and the tensors between sub-graphs through DRAM.

    Paths through the estimates of the whole region propose cuts; estimates of their sub-graphs by themselves rank them and move borders; the
    programs of the best cuts are timed where estimates cannot tell them apart. A way that has no room for an operation is no choice. Copies may have
    several images: as rows where operations compute row by row, else as many as one load of weights may serve, where a copy of each stream leaves
    images over.

    Raises UserError E1003, E1004 or E1008 where there is no way, and all of `compile_region`."""
    alone = _alone(batch, region)
    crossing = {cut: batch.images * crossing_cycles(batch.machine, elements) for cut, elements in cuts(region).items()}
    parts, found = promising(region, alone.values(), crossing), dict(alone)
    for copies, cycles in alone.items():
        found |= stacked_cycles(batch, region, copies, cycles, parts)
    most, least = max(alone, key=lambda copies: copies.times), [min(each) for each in zip(*alone.values(), strict=True)]
    for copies, cycles in several_cycles(batch, region, most, least).items():
        found[copies] = [min(both) for both in zip(cycles, found.get(copies, cycles), strict=True)]
    starts = {copies: launch_cycles(batch.machine, copies, batch.images) for copies in found}
    by_themselves = Parted(batch, region, found)
    tried = dict.fromkeys(map(by_themselves.priced, [least_path(found, starts, crossing), *_one_each(alone, starts, crossing)]))

    def estimate(cut: Cut) -> float:
        return sum(starts[part.copies] + part.cycles for part in cut)

    best = by_themselves.moved(min(tried, key=estimate), waists(crossing), estimate)
    apart = math.inf if _has_several(best) else CLOSE * estimate(best)
    close = [best, *(cut for cut in tried if cut != best and estimate(cut) <= apart)]
    best = by_themselves.quickest(close, starts) if len(close) > 1 else best
    return Division(best, tuple(Uniform(copies, sum(cycles), starts[copies]) for copies, cycles in found.items() if math.isfinite(sum(cycles))))


def _one_each(alone: Mapping[Copies, Sequence[float]], starts: Mapping[Copies, float], crossing: Mapping[int, float]) -> Iterator[Cut]:
    """The best cut in which copies have one image, and the best without the way that does most of its work. alone: cycles by way and operation."""
    best = least_path(alone, starts, crossing)
    yield best
    most = max(best, key=lambda part: part.cycles).copies
    if others := {copies: cycles for copies, cycles in alone.items() if copies != most}:
        yield least_path(others, starts, crossing)


def _has_several(cut: Cut) -> bool:
    return any(part.copies.images > 1 for part in cut)


Piece = tuple[range, Copies]
"""Operations of a region, by index, and how they share streams and images."""


def _run_cycles(facts: tuple[Batch, Region], piece: Piece) -> float:
    """Cycles of a run of a sub-graph's program; infinite where it cannot be."""
    (batch, region), (operations, copies) = facts, piece
    try:
        return team_cycles(batch.machine, batch.kernels, part_of_region(region, operations), batch.options.taking(copies))
    except UserError as error:
        if not error.only(REFUSED):
            raise
        return math.inf


def _way_cycles(facts: tuple[Batch, Region], copies: Copies) -> list[float]:
    return batch_cycles(*facts, copies)


@dataclass(frozen=True)
class Parted:
    """Estimates and programs of sub-graphs by themselves: each has all of the memories, and its inputs and results in DRAM.

    found: cycles by way and operation, of the region as a whole. known, timed: estimates and programs so far, of a batch."""

    batch: Batch
    region: Region
    found: Mapping[Copies, Sequence[float]]
    known: dict[Piece, float] = field(default_factory=dict[Piece, float])
    timed: dict[Piece, float] = field(default_factory=dict[Piece, float])

    def part(self, operations: range, copies: Copies) -> Subgraph:
        key = operations, copies
        if key not in self.known:
            whole = len(operations) == len(self.region.operations)
            self.known[key] = sum(self.found[copies] if whole else self._estimated(part_of_region(self.region, operations), copies))
        return Subgraph(*key, self.known[key])

    def _estimated(self, part: Region, copies: Copies) -> list[float]:
        return part_cycles(self.batch, part, copies)

    def program(self, part: Subgraph, run: Callable[[Piece], float]) -> float:
        """Cycles of a batch in a sub-graph's program, as estimates alone choose it; infinite where it cannot be after all. run: cycles of one run."""
        key = part.operations, part.copies
        if key not in self.timed:
            self.timed[key] = runs_of_batch(self.batch.machine, part.copies, self.batch.images) * run(key)
        return self.timed[key]

    def quickest(self, cuts: Sequence[Cut], starts: Mapping[Copies, float]) -> Cut:
        """The cut whose programs and launches take least, of equals the first. One is given up when its longest programs take as long as another."""
        longest = [sorted(cut, key=lambda part: -part.cycles) for cut in cuts]
        keys = list(dict.fromkeys((part.operations, part.copies) for parts in longest for part in parts))
        best, least = cuts[0], math.inf
        with self.batch.options.workers.ahead(_run_cycles, (self.batch, self.region), keys) as run:
            for cut, parts in zip(cuts, longest, strict=True):
                cycles = 0.0
                for part in parts:
                    cycles += starts[part.copies] + self.program(part, run)
                    if cycles >= least:
                        break
                else:
                    best, least = cut, cycles
        return best

    def priced(self, cut: Cut) -> Cut:
        return tuple(self.part(part.operations, part.copies) for part in cut)

    def moved(self, cut: Cut, places: Sequence[int], estimate: Callable[[Cut], float]) -> Cut:
        """The cut with its borders at neighbouring places, as long as that lowers the estimate. places: operations behind which one may be, in
        order."""
        best = min((cut, *self._neighbours(cut, places)), key=estimate)
        return cut if best == cut else self.moved(best, places, estimate)

    def _neighbours(self, cut: Cut, places: Sequence[int]) -> Iterator[Cut]:
        """One border further up or down."""
        for number, (one, other) in enumerate(itertools.pairwise(cut)):
            start, border, stop = one.operations.start, other.operations.start, other.operations.stop
            below, above = bisect_left(places, border - 1), bisect_right(places, border - 1)
            for place in (*places[max(below - 1, 0) : below], *places[above : above + 1]):
                if start <= place < stop - 1:
                    both = self.part(range(start, place + 1), one.copies), self.part(range(place + 1, stop), other.copies)
                    yield (*cut[:number], *both, *cut[number + 2 :])


def _alone(batch: Batch, region: Region) -> dict[Copies, list[float]]:
    """The cycles by operation of each way in which copies have one image. Raises UserError E1003, E1004 or E1008 where there is no way."""
    found, against = dict[Copies, list[float]](), UserError()
    ways = copies_for(batch.machine, batch.images)
    with batch.options.workers.ahead(_way_cycles, (batch, region), ways) as cycles:
        for copies in ways:
            try:
                found[copies] = cycles(copies)
            except UserError as error:
                if not error.only(REFUSED):
                    raise
                against = error
    if not found:
        raise against
    return found


def divisions(regions: Iterable[tuple[Machine, Mapping[str, Kernel], Region]], images: int, workers: Workers | None = None) -> Iterator[Division]:
    """The division of each region for a batch of so many images, one by one, as they are asked for; those that are alike are divided once. Raises as
    `divide`."""
    known: dict[Hashable, Division] = {}
    for machine, kernels, region in regions:
        form = likeness(machine, kernels, region)
        if form not in known:
            known[form] = divide(Batch(machine, kernels, images, batch_options(workers)), region)
        yield known[form]


def likeness(machine: Machine, kernels: Mapping[str, Kernel], region: Region) -> Hashable:
    """Equal for regions that differ in names, constants and multipliers alone, as layers of a transformer do, and whose kernels take the same steps:
    `divide` cuts them in the same way."""
    problems = (bound_problem(machine, kernels, region, bound) for bound in region.operations)
    steps = tuple(tuple((step.span.line, step.span.column) for step in problem.steps) for problem in problems)
    return machine.name, form_of(region), steps


def waists(crossing: Mapping[int, float]) -> list[int]:
    """The operations behind which least would go through DRAM, as between blocks of a network. crossing: by operation."""
    return _narrow({place: crossing[place] for place in _narrow(crossing)})  # between the operations of a block every other place is narrow


def _narrow(crossing: Mapping[int, float]) -> list[int]:
    """Where no neighbouring place is less."""
    places = sorted(crossing)
    beside = {place: (*places[max(at - 1, 0) : at], *places[at + 1 : at + 2]) for at, place in enumerate(places)}
    return [place for place in places if all(crossing[place] <= crossing[other] for other in beside[place])]


Course = tuple[float, tuple[tuple[int, Copies], ...]]
"""A path of operations: its cost so far, and the first operation of each sub-graph with its copies."""


def least_path(found: Mapping[Copies, Sequence[float]], starts: Mapping[Copies, float], crossing: Mapping[int, float]) -> tuple[Subgraph, ...]:
    """The path of least cost through the operations, where a change of images and cores costs the crossing tensors and the launches. crossing: by
    the operation behind which there may be a change."""
    count = len(next(iter(found.values())))
    paths: dict[Copies, Course] = {copies: (starts[copies] + cycles[0], ((0, copies),)) for copies, cycles in found.items()}
    for index in range(1, count):
        cost, steps = min(paths.values(), key=_cost)
        changed = cost + crossing.get(index - 1, math.inf)
        ways: dict[Copies, list[Course]] = {c: [paths[c], (changed + starts[c], (*steps, (index, c)))] for c in found}
        best = {copies: min(both, key=_cost) for copies, both in ways.items()}  # the first of equals: no change
        paths = {copies: (best[copies][0] + cycles[index], best[copies][1]) for copies, cycles in found.items()}
    _, steps = min(paths.values(), key=_cost)
    bounds = itertools.pairwise([*(first for first, _ in steps), count])
    return tuple(
        Subgraph(range(first, stop), copies, sum(found[copies][first:stop])) for (_, copies), (first, stop) in zip(steps, bounds, strict=True)
    )


def _cost(path: Course) -> float:
    return path[0]


def parts_of(region: Region, division: Division) -> tuple[Part, ...]:
    """A region of one sub-graph keeps its name."""
    several, found = len(division.subgraphs) > 1, list[Part]()
    for number, each in enumerate(division.subgraphs):
        results = tuple(region.operations[index].tensors["y"] for index in each.operations)
        name = f"{region.name}_{number + 1}" if several else region.name
        found.append(Part(name, each.copies.times, each.copies.streams, results, each.copies.images))
    return tuple(found)


def with_copies_of(parts: Parts, copies: Mapping[str, int]) -> Parts:
    """The parts with other numbers of copies. copies: by the region of a part."""
    return {name: tuple(replace(each, copies=copies.get(each.region, each.copies)) for each in own) for name, own in parts.items()}


def write_parts(parts: Parts) -> str:
    """JSON, ending in a line feed."""
    return json.dumps({name: to_json(each) for name, each in parts.items()}, indent=1) + "\n"


def read_parts(text: str) -> Parts:
    """Raises ValueError for a text that `write_parts` did not write."""
    return from_json(Mapping[str, tuple[Part, ...]], json.loads(text))


def load_parts(path: Path | None) -> Parts:
    """None without a file. Raises UserError E0001 for one that is not there, E1206 for one that is not as a build wrote it."""
    if path is None:
        return {}
    text = read_limited(path, MOST_BYTES, "the sub-graphs").decode(errors="replace")
    try:
        return read_parts(text)
    except ValueError:
        raise fail("E1206", "this is not as the task wrote it", hint="delete the file, and build again", place=str(path)) from None


def divided(model: ir.Model, parts: Parts) -> ir.Model:
    """A partitioned model with a region for each sub-graph; it changes in place."""
    for call in region_calls(model):
        own = parts.get(call.op_type, ())
        if len(own) > 1:
            divide_region(model, call, {part.region: frozenset(part.results) for part in own})
    return model
