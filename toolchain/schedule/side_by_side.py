"""Operations of different units that hand a tensor over in DRAM run side by side, the second on the rows that the first has stored, if their tiles
do not stand in each other's way on chip."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from toolchain.schedule.kernels.pools import Pool, Slot, beside
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.dram_buffers import Storage
from toolchain.schedule.regions.region import Region
from toolchain.schedule.tile_choice import TileChoice
from toolchain.schedule.tiling.tiles import Tiling
from toolchain.spec.errors import UserError

WORTH = 0.9
"""The share of the time one after the other that the longer one may take when they share the memory."""

Planned = tuple[Problem, Tiling]


def run_side_by_side(region: Region, storage: Storage, planned: Sequence[Planned], choice: TileChoice) -> list[Planned]:
    """The operations, neighbours with room of their own where that is worth it."""
    found = list(planned)
    for index in range(1, len(found)):
        if _streams(region, storage, index, found[index - 1][0], found[index][0]):
            best = min(_shares(found[index - 1][0], found[index][0], choice), key=_longer, default=None)
            if best is not None and _longer(best) < WORTH * (found[index - 1][1].estimate + found[index][1].estimate):
                found[index - 1], found[index] = best
    return found


def _longer(pair: tuple[Planned, Planned]) -> float:
    return max(tiling.estimate for _, tiling in pair)


def _streams(region: Region, storage: Storage, index: int, first: Problem, second: Problem) -> bool:
    """Whether the second reads the first one's result from DRAM, and they share no unit: queues are in order, so an instruction of the second that
    waits in one would wait until the first is done."""
    made = storage.places[region.operations[index - 1].tensors["y"]][0]
    read = [name for name, tensor in region.operations[index].tensors.items() if second.loads(name) and storage.places[tensor][0] == made]
    return bool(read) and not _units(first) & _units(second)


def _units(problem: Problem) -> set[str]:
    """All but those that load values known when compiling: these are there before."""
    return {unit for step in problem.steps if step.kind != "load" or step.place not in problem.known for unit in step.units}


def _shares(first: Problem, second: Problem, choice: TileChoice) -> Iterator[tuple[Planned, Planned]]:
    """Both with tiles in parts of the memories that the second's operands go through: one stretch for it, for the first the rest."""
    for memory in sorted({memory for name, memory in second.memories.items() if second.loads(name) and name not in second.known}):
        made = [(kept.slot, kept.size) for name, kept in second.kept.items() if name == "y" and second.memories[name] == memory]
        for stretch in _stretches(second.pools[memory]):
            taken = [(Slot(stretch.bank, stretch.start), stretch.depth), *made]
            left = beside(first.pools[memory], taken)
            own = replace(first, pools={**first.pools, memory: left}), replace(second, pools={**second.pools, memory: (stretch,)})
            try:
                yield (own[0], choice.best(own[0])), (own[1], choice.best(own[1]))
            except UserError:
                continue


def _stretches(pools: Sequence[Pool]) -> Iterator[Pool]:
    """Whole ones and halves."""
    for pool in pools:
        yield pool
        half = pool.depth // 2
        yield Pool(pool.bank, half, pool.start)
        yield Pool(pool.bank, pool.depth - half, pool.start + half)
