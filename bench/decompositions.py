"""The ways to share a batch among cores, each with its estimated time, as GraphTurbo's table 1 has them."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from toolchain.schedule.batch_cut import Division, Uniform
from toolchain.schedule.batch_ways import runs_of_batch
from toolchain.schedule.copies import Copies
from toolchain.schedule.form.shares import teams
from toolchain.spec.model import Machine
from toolchain.spec.model.structure import neighbours

HEAD = ("decomposition", "iterations", "images a cluster", "cores each", "estimated cycles", "with launches", "images/s", "ms")
MIXED = "by operation"
"""How tables call the cut in which each operation has images and cores of its own."""


def decomposition_rows(machine: Machine, found: Sequence[Division], batch: int) -> Iterator[tuple[str, ...]]:
    """found: of a network's regions, which run one after the other. A row for each pair that has room in all of them, then one for the cut.

    Images a second and milliseconds are of the whole batch, without the host's launches.
    """
    pairs = [{each.copies: each for each in division.tried} for division in found]
    for copies in (copies for copies in pairs[0] if all(copies in own for own in pairs)):
        mine = [own[copies] for own in pairs]
        name = f"{runs_of_batch(machine, copies, batch)} x {copies.together} x {copies.streams}"
        yield name, *_way(machine, [copies], batch), *_times(machine, batch, mine, sum(each.cycles for each in mine))
    used = list(dict.fromkeys(each.copies for division in found for each in division.subgraphs))
    starts = {each.copies: each.launches for division in found for each in division.tried}
    launches = [Uniform(each.copies, each.cycles, starts[each.copies]) for division in found for each in division.subgraphs]
    yield MIXED, *_way(machine, used, batch), *_times(machine, batch, launches, sum(division.cycles for division in found))


def _way(machine: Machine, used: Sequence[Copies], batch: int) -> tuple[str, str, str]:
    """Iterations, images a cluster (a part of one, where several clusters share it) and cores each; several where a cut has several."""
    runs = dict.fromkeys(runs_of_batch(machine, copies, batch) for copies in used)
    size = neighbours(machine.levels)
    near = dict.fromkeys(Fraction(min(size, copies.streams) * len(teams(machine, copies)[0]) * copies.images, copies.streams) for copies in used)
    cores = dict.fromkeys(copies.streams for copies in used)
    return ", ".join(map(str, runs)), ", ".join(map(str, near)), ", ".join(map(str, cores))


def _times(machine: Machine, batch: int, parts: Sequence[Uniform], cycles: float) -> tuple[str, str, str, str]:
    """cycles: of the whole batch. parts: whose launches count beside them."""
    seconds = cycles / (machine.timing.clock_khz * 1e3)
    launched = cycles + sum(each.launches for each in parts)
    return f"{cycles:,.0f}", f"{launched:,.0f}", f"{batch / seconds:,.0f}" if seconds else "-", f"{seconds * 1e3:.2f}"
