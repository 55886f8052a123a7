"""The tile loop as a list of steps in software-pipelined order, each with the slots that it uses.

Loads stand as early as their slot is free, in the order of need, a few steps ahead at most; so any machine, with queues of any
depth, loads the next tiles while it computes.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from toolchain.schedule.kernels.kernel import Dimension, Place, Step
from toolchain.schedule.kernels.pools import Slot
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.tiling.ring import Ring, Tiles
from toolchain.schedule.tiling.tiles import Tiling
from toolchain.spec.evaluate import constant

Tile = Mapping[str, tuple[int, int]]
"""dimension -> (first unit, units)"""


@dataclass(frozen=True)
class Instance:
    """A step of one tile. slots: where its tiles stand, by place."""

    step: Step
    tile: Tile
    slots: Mapping[str, Slot]

    def names(self, problem: Problem) -> dict[str, int]:
        """What its template may name of the tile: DIMENSION, DIMENSION_at, windows, PLACE_slot, PLACE_bank, and what places name."""
        names: dict[str, int] = {}
        for place, slot in self.slots.items():
            names |= {f"{place}_slot": slot.address, f"{place}_bank": slot.bank}
        for name, (first, size) in self.tile.items():
            names |= {name: size, f"{name}_at": first}
        for w in problem.kernel.windows:
            if w.of in self.tile:
                names |= problem.rows(w, *self.tile[w.of])
        scope = {**problem.numbers, **names}
        for place in (p for p in problem.kernel.places if p.name in self.slots):
            kept = problem.kept.get(place.name)
            names |= {f"{place.name}_{key}": kept.names[key] if kept else constant(e, scope) for key, e in place.names.items()}
        return names


@dataclass
class _Slots:
    """Slots of one place; the least recently used one is taken."""

    slots: tuple[Slot, ...]
    held: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])
    used: dict[int, int] = field(default_factory=dict[int, int])

    def use(self, key: tuple[int, ...], now: int) -> tuple[Slot, int | None]:
        """The slot and, where the tile was not there, the moment its slot was used last (-1: never)."""
        freed = None
        if key not in self.held:
            slot = min(range(len(self.slots)), key=lambda s: (self.used.get(s, -1), s))
            freed = self.used.get(slot, -1)
            self.held = {k: s for k, s in self.held.items() if s != slot}
            self.held[key] = slot
        slot = self.held[key]
        self.used[slot] = now
        return self.slots[slot], freed


def order_steps(problem: Problem, tiling: Tiling, rings: Mapping[str, Ring] | None = None) -> list[Instance]:
    """All step instances, in an order in which they could run one by one. rings: memories that are filled round and round, also by the operations
    before and after, with what is known when compiling."""
    slots = {name: _Slots(found) for name, found in [*tiling.places.items(), *((name, (kept.slot,)) for name, kept in problem.kept.items())]}
    places = {p.name: p for p in problem.kernel.places}
    tiles = {name: Tiles(ring) for name, ring in (rings or {}).items()}
    events: list[Instance] = []
    loads: list[tuple[int, Instance]] = []
    ahead = 4 * max(tiling.slots.values(), default=1)
    for step, tile in _work(problem, tiling):
        now, taken = len(events), dict[str, Slot]()
        for name in dict.fromkeys((step.place, *step.uses)):
            key, memory = _key(places[name], tile), places[name].memory
            if memory in tiles and name in problem.known:
                slot, freed = tiles[memory].use(name, key, tiling.room[name], tiling.slots[name], now)
            else:
                slot, freed = slots[name].use(key, now)
            taken[name] = slot
            load = problem.loads(name)
            if freed is not None and load is not None:
                early = max(freed + 1, now - ahead, loads[-1][0] if loads else 0)
                sources = {use: problem.kept[use].slot for use in load.uses if use in problem.kept}
                loads.append((early, Instance(load, {d: tile[d] for d in places[name].by}, {name: slot, **sources})))
        events.append(Instance(step, tile, taken))
    return list(_merged(events, loads))


def _merged(events: list[Instance], loads: list[tuple[int, Instance]]) -> Iterator[Instance]:
    at = 0
    for now, event in enumerate(events):
        while at < len(loads) and loads[at][0] <= now:
            yield loads[at][1]
            at += 1
        yield event


def _key(place: Place, tile: Tile) -> tuple[int, ...]:
    return tuple(tile[d][0] for d in place.by)


def _work(problem: Problem, tiling: Tiling) -> Iterator[tuple[Step, Tile]]:
    """Every step but the loads, tile by tile."""
    loops, inner = (
        [*(d.name for d in part if d.name not in tiling.order), *_chosen(tiling, part)] for part in (problem.kernel.loops, problem.kernel.reductions)
    )
    for outer in itertools.product(*(_ranges(problem, tiling, name) for name in loops)):
        reductions = list(itertools.product(*(_ranges(problem, tiling, name) for name in inner)))
        for number, part in enumerate(reductions):
            tile = dict(zip([*loops, *inner], [*outer, *part], strict=True))
            for step in problem.steps:
                first, last = number == 0, number == len(reductions) - 1
                if step.kind == "compute" or (first and step.kind == "start") or (last and step.kind in ("finish", "store")):
                    yield step, tile


def _chosen(tiling: Tiling, dimensions: Sequence[Dimension]) -> list[str]:
    """Those of the dimensions that the tiling orders, in its order."""
    names = {d.name for d in dimensions}
    return [name for name in tiling.order if name in names]


def _ranges(problem: Problem, tiling: Tiling, name: str) -> list[tuple[int, int]]:
    extent, size = problem.extents[name], tiling.sizes[name]
    return [(first, min(size, extent - first)) for first in range(0, extent, size)]
