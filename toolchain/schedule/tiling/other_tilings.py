"""Other tilings of an operation than the best by the estimate: more slots for tensors whose loads come late, and the next best sizes.

The estimate knows how long each unit works, not how long a load waits for a port that other loads keep; exact cycles of a program show that."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from toolchain.schedule.kernels.pools import place_slots
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.tiling.tile_table import TileSize
from toolchain.schedule.tiling.tiles import Tiling, as_candidate, rank_tilings

DEEPEST = 4
"""Slots of a place, at most, that are tried: they bound the list, and which of it is taken follows from cycles alone."""
DEALS, SIZES = 4, 3
"""How many other numbers of slots, and how many other sizes, are tried at most."""

Deal = tuple[int, ...]
"""How many slots each place has."""


def other_tilings(problem: Problem, best: Tiling, contexts: int, streams: int = 1) -> list[Tiling]:
    """best: by the estimate. contexts: slots of each place in other sizes, at least. streams: that share the tiles. Those with other slots come
    first."""
    ranked = rank_tilings(problem, contexts, SIZES + 1, streams)
    return [*_other_slots(problem, best), *(tiling for tiling in ranked if tiling.sizes != best.sizes)][: DEALS + SIZES]


def _other_slots(problem: Problem, best: Tiling) -> list[Tiling]:
    """The same tiles with other numbers of slots, those first that look furthest ahead: in turns with two slots of each result, and without."""
    ahead = _computes_per_fill(problem, best)
    if not ahead:
        return []
    names = list(best.room)

    def reach(deal: Deal) -> tuple[float, int, Deal]:
        """Steps that compute while the least patient load is under way, below zero; of equals more slots."""
        slots = dict(zip(names, deal, strict=True))
        return -min((slots[name] - 1) * computes for name, computes in ahead.items()), -sum(deal), deal

    deals = sorted(_deals(problem, best, names), key=reach)
    doubled = [deal for deal in deals if all(count > 1 for name, count in zip(names, deal, strict=True) if problem.loads(name) is None)]
    order = dict.fromkeys(deal for pair in itertools.zip_longest(doubled, deals) for deal in pair if deal)
    found = (_dealt(problem, best, dict(zip(names, deal, strict=True))) for deal in order)
    return list(itertools.islice((tiling for tiling in found if tiling is not None), DEALS))


def _computes_per_fill(problem: Problem, tiling: Tiling) -> dict[str, float]:
    """By place that is loaded again and again, how many steps compute with one tile of it."""
    one = as_candidate(problem, tiling)
    if one is None:
        return {}
    computes = max((float(one.times(step, tiling.order)[0]) for step, _ in one.costs if step.kind == "compute"), default=0.0)
    loads = {step.place: float(one.times(step, tiling.order)[0]) for step, _ in one.costs if step.kind == "load"}
    return {name: computes / fills for name, fills in loads.items() if fills > len(tiling.places.get(name, ()))}


def _deals(problem: Problem, best: Tiling, names: Sequence[str]) -> Iterator[Deal]:
    """Numbers of slots that differ from the best's, and of which none could be larger with room for all."""
    size = TileSize(problem, dict(best.sizes))
    most = [min(DEEPEST, size.count(name)) for name in names]
    fitting = {deal for deal in itertools.product(*(range(1, count + 1) for count in most)) if _room_for(problem, best, names, deal)}
    now = tuple(min(len(best.places[name]), count) for name, count in zip(names, most, strict=True))
    for deal in sorted(fitting - {now}):
        if not any((*deal[:k], deal[k] + 1, *deal[k + 1 :]) in fitting for k in range(len(deal))):
            yield deal


def _room_for(problem: Problem, best: Tiling, names: Sequence[str], deal: Deal) -> bool:
    """Whether each memory has as many elements as the slots take together."""
    taken: dict[str, int] = {}
    for name, count in zip(names, deal, strict=True):
        memory = problem.memories[name]
        taken[memory] = taken.get(memory, 0) + count * best.room[name]
    return all(room <= sum(pool.depth for pool in problem.pools[memory]) for memory, room in taken.items())


def _dealt(problem: Problem, best: Tiling, slots: Mapping[str, int]) -> Tiling | None:
    """The tiling with so many slots of each place; None where a pool has no room for one."""
    places, full = place_slots(problem.pools, {name: (problem.memories[name], best.room[name], count) for name, count in slots.items()})
    return None if full else replace(best, places=places)
