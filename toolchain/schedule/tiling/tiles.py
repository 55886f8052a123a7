"""Enumerates tile sizes, loop orders and slots, keeps those that fit, and ranks them by the costs that the kernel declares for its steps."""

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from toolchain.schedule.kernels.constants import constant_length
from toolchain.schedule.kernels.kernel import Dimension, Place, Step
from toolchain.schedule.kernels.pools import Rooms, Slot, Taken, slots_of
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.tiling.step_cost import loading_cycles, overlapped, step_transfers, tile_faults, tile_frame
from toolchain.schedule.tiling.tile_table import StepCosts, grid_of, rooms_of, step_costs, tile_names, tile_table, trips_of
from toolchain.spec.arrays import Ints, Reals, rows_of
from toolchain.spec.errors import Diagnostic, UserError
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import Why, text_of

STEP = 2.0
"""Cycles that a step costs beside its work: tokens arrive a little after it."""
INSTRUCTION, SHARED = 8.0, 2.0
"""Cycles that an instruction costs beside its work: of tiles that are about as quick, those of fewer instructions are taken. SHARED: where streams
share the tiles, which many small ones do more evenly."""
HANDOVER = 1 / 256
"""The cost of a cycle for which the next operation waits: little, as it mostly has something else to do, but tiles get no larger than need be."""


@dataclass(frozen=True)
class Tiling:
    """sizes: units of each dimension in a tile. order: loops, outermost first; any left out run once. For each place in use: how many slots it has,
    where they are, and the room of one in elements of its memory, in one with pools of each bank of one.

    estimate: cycles by the closed form, 0 for a tiling that no search has ranked. busy: the part of it that each unit works. backward: loops that
    run from their last tile to the first.
    """

    sizes: Mapping[str, int]
    order: tuple[str, ...]
    places: Mapping[str, tuple[Slot, ...]]
    room: Mapping[str, int]
    estimate: float = 0.0
    busy: Mapping[str, float] = field(default_factory=dict[str, float])
    backward: tuple[str, ...] = ()

    @property
    def slots(self) -> dict[str, int]:
        """How many slots each place has."""
        return {name: len(found) for name, found in self.places.items()}


Planned = tuple[Problem, Tiling]
"""An operation for its kernel, and its tiles."""


def rank_tilings(problem: Problem, contexts: int, best: int, streams: int = 1, among: Mapping[str, Collection[int]] | None = None) -> list[Tiling]:
    """The `best` tilings by estimate, the first one lowest. contexts: slots that each place has at least, where it has as many tiles;
    fewer where nothing fits with so many. streams: how many share the tiles. among: by dimension, the sizes to look at; without, all.

    Raises UserError E1004 where not even the smallest tile fits.
    """
    table = tile_table(problem)
    sizes, names, rooms, chosen = table.among(among)
    free = Rooms(problem.pools, len(next(iter(sizes.values()))))
    taken = take_slots(problem, trips_of(problem, sizes), rooms, contexts, free)
    fits = free.fit
    taken = fill_slots(problem, trips_of(problem, sizes), rooms, contexts, free, taken)
    kept = np.flatnonzero(fits)
    if not len(kept) and contexts > 1:
        return rank_tilings(problem, contexts - 1, best, streams, among)
    if not len(kept):
        reason = crowded(problem)
        raise UserError(Diagnostic("E1004", f"'{problem.operation.name}': {text_of(reason)}", problem.kernel.span, reason=reason))
    sizes, names, rooms = (rows_of(part, kept) for part in (sizes, names, rooms))
    held = {name: [Taken(t.pool[kept], t.address[kept], t.count[kept]) for t in parts] for name, parts in taken.items()}
    known = table.costs(streams > 1).taken(kept if chosen is None else chosen[kept])
    return Candidates(problem, sizes, names, rooms, held, contexts, trips_of(problem, sizes), streams, known=known).best(best)


def unit_cycles(problem: Problem, tiling: Tiling) -> dict[str, float]:
    """Cycles by unit of a tiling that the search found, by the closed form; none for one of sizes that the search does not know."""
    if tiling.busy:
        return {**tiling.busy}
    one = as_candidate(problem, tiling)
    return {unit: float(cycles[0]) for unit, cycles in one.busy(tiling.order).items()} if one else {}


def as_candidate(problem: Problem, tiling: Tiling) -> "Candidates | None":
    """The tiling as the search knows it; None for one of sizes that it does not know."""
    table = tile_table(problem)
    sizes, names, rooms, chosen = table.among({name: (size,) for name, size in tiling.sizes.items()})
    if chosen is None or not len(chosen):
        return None
    none = np.zeros(1, np.int64)
    taken = {name: [Taken(none, none, none + len(tiling.places.get(name, ())))] for name in rooms}
    return Candidates(problem, sizes, names, rooms, taken, 1, trips_of(problem, sizes), known=table.costs(False).taken(chosen))


def tile_fits(problem: Problem) -> bool:
    """Whether any tile fits with one slot of each place. The search for tiles asks for the same table later."""
    table = tile_table(problem)
    free = Rooms(problem.pools, len(next(iter(table.sizes.values()))))
    take_slots(problem, trips_of(problem, table.sizes), table.rooms, 1, free)
    return bool(free.fit.any())


def crowded(problem: Problem) -> Reason:
    """The limit that even the smallest tile breaks: a field of an instruction, or a memory, where one place takes more than there is."""
    smallest = {name: sizes[:1] for name, sizes in grid_of(problem, 1).items()}
    names = tile_names(problem, smallest)
    fault = next(tile_faults(problem, names), None)
    if fault is not None:
        return Why.TILE_FIELD([fault.reason])
    rooms = {name: int(room[0]) for name, room in rooms_of(problem, names).items()}
    depths = {memory: max(pool.depth for pool in pools) for memory, pools in problem.pools.items()}
    place = max(problem.kernel.places, key=lambda place: rooms[place.name] / max(depths[place.memory], 1))
    depth = depths[place.memory]
    if rooms[place.name] <= depth:
        return Why.NO_TILE()
    crowd = Why.TILE_ROOM(place=place.name, elements=rooms[place.name], memory=place.memory, depth=depth)
    if place.name in problem.known and not problem.kernel.reductions:
        return Why.UNCUT_ROOM([crowd], kernel=problem.kernel.name)
    return Why.BANK_ROOM([crowd]) if place.memory in problem.kernel.pools else crowd


def _distinct(trips: Mapping[str, Reals], place: Place) -> Ints:
    """How many different tiles a place ever holds."""
    count = np.ones(len(next(iter(trips.values()))), np.int64)
    for name in place.by:
        count = count * np.ceil(trips[name]).astype(np.int64)
    return count


def take_slots(problem: Problem, trips: Mapping[str, Reals], rooms: Mapping[str, Ints], contexts: int, free: Rooms) -> dict[str, list[Taken]]:
    """Slots of each place, `contexts` where it has as many tiles. trips: by dimension, how many tiles there are."""
    taken: dict[str, list[Taken]] = {}
    for place in problem.kernel.places:
        distinct = _distinct(trips, place)
        taken[place.name] = [free.take(place.memory, rooms[place.name], distinct > k) for k in range(contexts)]
    return taken


def fill_slots(
    problem: Problem, trips: Mapping[str, Reals], rooms: Mapping[str, Ints], contexts: int, free: Rooms, taken: dict[str, list[Taken]]
) -> dict[str, list[Taken]]:
    """The slots, and where room is left, as many as there are tiles. Where tensors are handed over on chip, a tensor known when compiling has as many
    as there is room for: it can be loaded long before it is needed."""
    taken = dict(taken)
    for place in problem.kernel.places if contexts > 1 else ():
        more = np.maximum(_distinct(trips, place) - contexts, 0)
        held = free.holds(place.memory, rooms[place.name])
        some = np.maximum(held - 1, 0) if problem.chained and place.name in problem.known else 0
        grown = np.where(more <= held, more, some) * (problem.loads(place.name) is not None)
        if problem.slab and place.name not in problem.known:
            continue  # the other members of the group need the room
        taken[place.name] = [*taken[place.name], *free.fill(place.memory, rooms[place.name], grown)]
    return taken


def busiest(ports: Mapping[str, Reals], count: int) -> Reals:
    """[count]: of the port that is kept longest; 0 where there is none."""
    return np.maximum.reduce([np.zeros(count), *ports.values()])


@dataclass(frozen=True)
class Candidates:
    """Legal tiles, as arrays. names: `tile_names`. rooms, taken: of one slot and of all slots. trips: by dimension, how many tiles there are.

    streams: how many share the tiles. whole: the same for all tiles, where `trips` are those of one stream. known: costs of steps, where a table has
    them.
    """

    problem: Problem
    sizes: Mapping[str, Ints]
    names: Mapping[str, Ints]
    rooms: Mapping[str, Ints]
    taken: Mapping[str, list[Taken]]
    contexts: int
    trips: Mapping[str, Reals]
    streams: int = 1
    whole: "Candidates | None" = None
    known: StepCosts | None = None

    @cached_property
    def slots(self) -> dict[str, Ints]:
        """How many slots each place has."""
        return {name: np.add.reduce([part.count for part in parts]) for name, parts in self.taken.items()}

    def best(self, count: int) -> list[Tiling]:
        found: list[tuple[float, int, int, tuple[str, ...]]] = []
        for rank, order in enumerate(self._orders()):
            estimate = self.estimate(order) if self.streams == 1 else self.shared(order)
            found += [
                (float(estimate[index]), rank * self.problem.followed, int(index), order) for index in np.argsort(estimate, kind="stable")[:count]
            ]
        taken: dict[tuple[int, float], Tiling] = {}
        for value, _, index, order in sorted(found):
            if len(taken) == count:
                break
            if (index, value) not in taken:
                taken[index, value] = self.tiling(index, order, value)
        return list(taken.values())

    def _orders(self) -> Iterator[tuple[str, ...]]:
        """Loop orders; loops that reduce are innermost, so that a sum stays where it is. Where operations follow, the rows come first: the
        next one starts on those that are complete."""
        rows = {w.of for w in self.problem.kernel.windows}
        names = [d.name for d in self.problem.kernel.loops if self.problem.extents[d.name] > 1]
        if self.problem.slab:
            first = self.problem.slab[0]
            return ((first, *rest) for rest in itertools.permutations(name for name in names if name != first))
        return itertools.permutations(sorted(names, key=lambda name: name not in rows) if self.problem.followed else names)

    def shared(self, order: tuple[str, ...]) -> Reals:
        """Cycles where streams share the tiles: of the one with the most, but no fewer than all of them keep a port that they share."""
        one, streams = self.parted(order)
        return np.maximum(one.estimate(order), busiest(one.on_ports(order, streams), len(streams)))

    def parted(self, order: tuple[str, ...]) -> "tuple[Candidates, Reals]":
        """The work of the stream that has the most of it, and how many work at once. Streams take parts of the outer loops first."""
        left = np.full(len(next(iter(self.sizes.values()))), float(self.streams))
        own = dict(self.trips)
        for name in order:
            tiles = np.ceil(self.trips[name])
            part = np.minimum(left, tiles)
            own[name], left = np.minimum(self.trips[name], np.ceil(tiles / part)), left / part
        return replace(self, trips=own, streams=1, whole=self), self.streams / left

    def on_ports(self, order: tuple[str, ...], streams: Reals) -> dict[str, Reals]:
        """By port that several streams share, the cycles that so many of them, each with this work, keep it."""
        machine, found = self.problem.machine, dict[str, Reals]()
        steps = [(self.times(step, order), moved) for step, moved in (self.whole or self).transfers]
        for resource in (r for r in machine.timing.resources if machine.instances(r.scope) < machine.streams):
            sharing = np.minimum(streams, machine.streams // machine.instances(resource.scope))
            one = (times * moved[resource.name] for times, moved in steps if resource.name in moved)
            found[resource.name] = sharing * sum(one, start=np.zeros(len(streams)))
        return found

    @cached_property
    def transfers(self) -> list[tuple[Step, dict[str, Ints]]]:
        """Every step that there is, with the cycles that one run of it takes of each resource."""
        frame = tile_frame(self.problem, self.names)
        return [(step, step_transfers(self.problem, step, frame)) for step, _ in self.costs]

    @cached_property
    def cycles(self) -> list[dict[str, Reals]]:
        """By step of the problem, then by unit: `StepCosts.cycles`."""
        return self.whole.cycles if self.whole else self._known.cycles

    @cached_property
    def instructions(self) -> list[Ints]:
        """By step that there is, how many one run of it is."""
        counts = zip(self.problem.steps, self._known.instructions, strict=True)
        return [count for step, count in counts if self._is_there(step)]

    @cached_property
    def _known(self) -> StepCosts:
        return self.known or step_costs(self.problem, self.sizes, self.names, self.trips, self.streams > 1)

    def _is_there(self, step: Step) -> bool:
        return step.kind != "load" or bool(self.rooms[step.place].any())

    def _exposed(self, step: Step) -> Reals | float:
        """How much of a first load or last store nothing else hides. Values known when compiling are loaded while the operation before still
        runs, the less surely the more of the memory they take. A result that later operations read is handed over when all tiles of the same rows
        are complete."""
        if step.kind == "load" and self.problem.chained and step.place in self.problem.known:
            pools = self.problem.pools[self.problem.memories[step.place]]
            return self.slots[step.place] * self.rooms[step.place] / sum(pool.depth for pool in pools)
        if step.kind == "compute" and (step.place in self.problem.kept or self.problem.followed):
            rows = [window.of for window in self.problem.kernel.windows][:1]
            trips = (self.trips[d.name] for d in self.problem.kernel.loops if d.name not in rows)
            return math.prod(trips, start=np.ones(len(self.rooms[step.place]))) * HANDOVER
        return float(step.kind in ("load", "store"))

    def tiling(self, index: int, order: tuple[str, ...], value: float) -> Tiling:
        """One of them. value: its estimate."""
        used = {name: int(room[index]) for name, room in self.rooms.items() if room[index]}
        places = {name: slots_of(self.taken[name], index, room, self.problem.pools[self.problem.memories[name]]) for name, room in used.items()}
        sizes = {name: int(size[index]) for name, size in self.sizes.items()}
        busy = {unit: float(cycles[index]) for unit, cycles in self.busy(order).items()} if self.problem.slab else {}
        return Tiling(sizes, order, places, used, value, busy)

    def _fills(self, place: Place, order: tuple[str, ...]) -> Reals:
        """How often a place is filled: once for each tile where all stay, else again whenever a loop around its own comes back."""
        loops = [*order, *(d.name for d in self.problem.kernel.reductions)]
        count = np.ones(len(self.rooms[place.name]))
        again = np.ones_like(count)
        for name in reversed(loops):
            trips = self.trips[name]
            again = np.where((again > 1) | ((name in place.by) & (trips > 1)), again * trips, again)
            count = count * trips if name in place.by else count
        return np.where(self._resident[place.name], count, again)

    @cached_property
    def _resident(self) -> dict[str, NDArray[np.bool_]]:
        """By place, whether it has a slot for each of its tiles."""
        return {place.name: self.slots[place.name] >= _distinct(self.trips, place) for place in self.problem.kernel.places}

    def times(self, step: Step, order: tuple[str, ...]) -> Reals:
        """How often a step runs, in full tiles."""
        if step.kind == "load":
            return self._fills(self.problem.kernel.place(step.place), order)
        return self._computed if step.kind == "compute" else self._stored

    @cached_property
    def _computed(self) -> Reals:
        return self._tiles(self.problem.kernel.tile)

    @cached_property
    def _stored(self) -> Reals:
        return self._tiles(self.problem.kernel.loops)

    def _tiles(self, dims: Iterable[Dimension]) -> Reals:
        """How many full tiles of these dimensions there are."""
        times = np.ones(len(next(iter(self.sizes.values()))))
        for d in dims:
            times = times * np.rint(self.trips[d.name] * self.sizes[d.name]) / self.sizes[d.name]  # whole units: equal work is equal
        return times

    def _records(self, step: Step, times: Reals) -> Reals:
        """How many records a step's constants are, once for each combination of slots."""
        total = np.zeros_like(times)
        for item in self.problem.kernel.constants:
            if item.name in step.constants:
                total = total + constant_length(item, self.names)
        return total * np.minimum(times, math.prod((self.slots[name] for name in (step.place, *step.uses)), start=np.ones(len(times))))

    @cached_property
    def costs(self) -> list[tuple[Step, dict[str, Reals]]]:
        """Every step that there is, with its cycles by unit."""
        steps = zip(self.problem.steps, self.cycles, strict=True)
        return [(step, costs) for step, costs in steps if self._is_there(step)]

    def busy(self, order: tuple[str, ...]) -> dict[str, Reals]:
        """Cycles by unit."""
        return self._worked([self.times(step, order) for step, _ in self.costs])

    def _worked(self, runs: Sequence[Reals]) -> dict[str, Reals]:
        """Cycles by unit. runs: how often each step that there is runs."""
        busy: dict[str, Reals] = {}
        zero, loading = np.zeros(len(next(iter(self.sizes.values())))), self.problem.kernel.loading
        records = zero
        for (step, costs), times in zip(self.costs, runs, strict=True):
            for unit, cycles in costs.items():
                busy[unit] = busy.get(unit, zero) + cycles * times
            records = records + self._records(step, times) if step.constants else records
        if loading and records.any():
            busy[loading.unit] = busy.get(loading.unit, zero) + loading_cycles(self.problem, loading, np.ceil(records).astype(np.int64))
        return busy

    @cached_property
    def _beside(self) -> list[tuple[Reals, Reals]]:
        """By step that there is: cycles that no other work hides, and those that each run costs beside its work."""
        steps, instruction = zip(self.costs, self.instructions, strict=True), SHARED if self.whole else INSTRUCTION
        return [
            (np.asarray(sum(costs.values()) * self._exposed(step), np.float64), STEP + instruction * count.astype(np.float64))
            for (step, costs), count in steps
        ]

    def estimate(self, order: tuple[str, ...]) -> Reals:
        """Cycles: the busiest unit, the first loads and the last store around it, and the cycles that small steps and busy other units cost by
        getting in each other's way; with one slot everything in turn."""
        runs = [self.times(step, order) for step, _ in self.costs]
        ends = np.zeros(len(next(iter(self.sizes.values()))))
        for (alone, each), times in zip(self._beside, runs, strict=True):
            ends = ends + alone + times * each
        return overlapped(list(self._worked(runs).values()), ends, self.contexts)
