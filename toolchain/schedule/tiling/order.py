"""The tile loop as a list of steps in software-pipelined order, each with the slots that it uses.

Loads stand as early as their slot is free, in the order of need, a few steps ahead at most; so any machine, with queues of any
depth, loads the next tiles while it computes.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from toolchain.schedule.kernels.kernel import Dimension, Place, Step, working_units
from toolchain.schedule.kernels.pools import Slot
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.rows.row_group import Turn
from toolchain.schedule.rows.row_loop import RowLoad, ring_names, row_dimension, row_names, whole_tile
from toolchain.schedule.tiling.slots import Ring, Tiles
from toolchain.schedule.tiling.tiles import Planned, Tiling
from toolchain.spec.errors import fail
from toolchain.spec.evaluate import constant

Tile = Mapping[str, tuple[int, int]]
"""dimension -> (first unit, units)"""
Rooted = Mapping[tuple[int, str], tuple[int, str]]
"""(member, place) without slots of its own -> the place of another member in whose slots it stands"""


@dataclass(frozen=True)
class Instance:
    """A step of one tile. slots: where its tiles stand, by place. rows: those that a load into a ring brings, whole; None for any other step."""

    step: Step
    tile: Tile
    slots: Mapping[str, Slot]
    rows: range | None = None

    def names(self, problem: Problem) -> dict[str, int]:
        """Names that its template may use: DIMENSION, DIMENSION_at, windows, PLACE_slot, PLACE_bank, and the names of places."""
        names: dict[str, int] = {}
        for place, slot in self.slots.items():
            names |= {f"{place}_slot": slot.address, f"{place}_bank": slot.bank}
        if self.rows is not None:
            names |= row_names(problem, problem.kernel.place(self.step.place), self.rows)
        names |= names_of_tile(problem, self.tile, self.rows is None)
        places = [place for place in problem.kernel.places if place.name in self.slots]
        scope = {**problem.numbers, **names} if any(place.names and place.name not in problem.kept for place in places) else {}
        for place in places:
            kept = problem.kept.get(place.name)
            if kept and self.rows is not None:
                names |= {f"{place.name}_{key}": value for key, value in ring_names(problem, place, kept, self.rows).items()}
            else:
                names |= {f"{place.name}_{key}": kept.names[key] if kept else constant(e, scope) for key, e in place.names.items()}
        return names


def names_of_tile(problem: Problem, tile: Tile, windows: bool = True) -> dict[str, int]:
    """DIMENSION, DIMENSION_at and windows."""
    names: dict[str, int] = {}
    for name, (first, size) in tile.items():
        names |= {name: size, f"{name}_at": first}
    for w in problem.kernel.windows if windows else ():
        if w.of in tile:
            names |= problem.rows(w, *tile[w.of])
    return names


@dataclass
class _Slots:
    """Slots of one place; one that was never used is taken, in order, or the least recently used one.

    held: the slot of each tile that stands in one, in the order in which they came; tiles: the same by slot. used: when each slot was
    used last. uses: all uses, as a heap."""

    slots: tuple[Slot, ...]
    held: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])
    used: dict[int, int] = field(default_factory=dict[int, int])
    tiles: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    uses: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def use(self, key: tuple[int, ...], now: int, in_turn: bool = False) -> tuple[Slot, int | None]:
        """The slot and, where the tile was not there, the moment its slot was used last (-1: never). in_turn: that of the tile which came first."""
        freed = None
        if key not in self.held:
            slot = self._free(in_turn)
            freed = self.used.get(slot, -1)
            if slot in self.tiles:
                del self.held[self.tiles[slot]]
            self.held[key], self.tiles[slot] = slot, key
        slot = self.held[key]
        self.used[slot] = now
        heappush(self.uses, (now, slot))
        return self.slots[slot], freed

    def _free(self, in_turn: bool) -> int:
        if len(self.used) < len(self.slots):
            return len(self.used)
        if in_turn:
            return next(iter(self.held.values()))
        while self.used[self.uses[0][1]] != self.uses[0][0]:
            heappop(self.uses)
        return self.uses[0][1]


Placed = tuple[int, Instance]
"""The number of a member of a group, and a step of it."""


def order_steps(problem: Problem, tiling: Tiling, rings: Mapping[str, Ring] | None = None) -> list[Instance]:
    """All step instances of an operation that is a group of its own, in an order in which they could run one by one."""
    return [item for _, item in order_group([(problem, tiling)], None, rings or {})]


def order_group(members: Sequence[Planned], turns: Sequence[Turn] | None, rings: Mapping[str, Ring], loads: Sequence[RowLoad] = ()) -> list[Placed]:
    """All step instances, in an order in which they could run one by one. turns: the slabs of all members and loads (counted on), None for those
    of one member in turn.

    rings: memories that are filled round and round, also by the operations before and after, with values known when compiling.
    """
    slabs = [_slabs(problem, tiling, (row_dimension(problem) or "") if turns else "") for problem, tiling in members]
    order = _Order(members, {name: Tiles(ring, len(members) > 1) for name, ring in rings.items()})
    for turn in turns or [Turn(0, 0, {})]:
        if turn.member >= len(members):
            order.bring(turn, loads[turn.member - len(members)])
        for step, tile in slabs[turn.member][turn.slab] if turn.member < len(members) else ():
            if not (turn.again and step.kind == "store"):  # DRAM has the rows of a slab that is made again
                order.add(turn, step, tile)
        order.finished[turn.member, turn.slab] = len(order.events)
    return list(_merged(order.events, order.loads))


def order_dealt(
    problem: Problem, tiling: Tiling, shares: Sequence[tuple[int, int]], rings: Mapping[int, Mapping[str, Ring]]
) -> list[tuple[int, Placed]]:
    """All step instances of an operation whose tiles several streams share, each with its stream, in whose memories its tiles stand.

    shares: (stream, successive tiles), in the order of the loop. rings: of every stream. All sums of a tile are one stream's, so no tile waits for
    another one.
    """
    turns = [[tile] for tile in tiles_over(problem, problem.kernel.loops, tiling.sizes, tiling.order, tiling.backward)]
    return order_dealt_tiles([(problem, tiling)], turns, {}, shares, rings)


def order_tiles(members: Sequence[Planned], turns: Sequence[Sequence[Tile]], roots: Rooted, rings: Mapping[str, Ring]) -> list[Placed]:
    """All step instances of operations that share one loop of tiles. turns: by turn, the tile of each member, which is done before the next one's."""
    order = _Order(members, {name: Tiles(ring, True) for name, ring in rings.items()}, roots=roots)
    order.run(range(len(turns)), turns)
    return list(_merged(order.events, order.loads))


def order_dealt_tiles(
    members: Sequence[Planned],
    turns: Sequence[Sequence[Tile]],
    roots: Rooted,
    shares: Sequence[tuple[int, int]],
    rings: Mapping[int, Mapping[str, Ring]],
) -> list[tuple[int, Placed]]:
    """As `order_tiles`, where several streams share the turns, each in its own memories. shares: (stream, successive turns). rings: of every
    stream."""
    own: dict[int, list[int]] = {}
    first = 0
    for stream, count in shares:
        own.setdefault(stream, []).extend(range(first, first + count))
        first += count
    parts: list[list[tuple[int, Placed]]] = []
    for stream, numbers in sorted(own.items()):
        order = _Order(members, {name: Tiles(ring, len(members) > 1) for name, ring in rings[stream].items()}, roots=roots)
        order.run(numbers, turns)
        parts.append([(stream, item) for item in _merged(order.events, order.loads)])
    return [item for items in itertools.zip_longest(*parts) for item in items if item is not None]


class _Order:
    """The growing order. events: all steps but the loads. loads: with the moment before which each one runs."""

    def __init__(self, members: Sequence[Planned], tiles: Mapping[str, Tiles], roots: Rooted | None = None) -> None:
        self.members, self.tiles, self.roots = members, tiles, roots or {}
        self.shared = frozenset(self.roots.values())
        self.slots = [{name: _Slots(slots) for name, slots in _standing(problem, tiling)} for problem, tiling in members]
        self.ahead = 4 * max((count for _, tiling in members for count in tiling.slots.values()), default=1)
        self.events: list[Placed] = []
        self.loads: list[tuple[int, Placed]] = []
        self.finished: dict[tuple[int, int], int] = {}

    def add(self, turn: Turn, step: Step, tile: Tile) -> None:
        """A step, after the loads of tiles that it needs and that are not there. Raises UserError E1002 for a place without elements."""
        now, taken = len(self.events), dict[str, Slot]()
        for name in dict.fromkeys((step.place, *step.uses)):
            taken[name], freed = self._slot(turn, step, name, tile, now)
            load = self.members[turn.member][0].loads(name)
            if freed is not None and load is not None:
                self._load(turn, load, name, tile, taken[name], max(freed + 1, now - self.ahead))
        self.events.append((turn.member, Instance(step, tile, taken)))

    def run(self, numbers: Sequence[int], turns: Sequence[Sequence[Tile]]) -> None:
        """Turns of a group over tiles: each member's tile, one after the other. Late members work on the tiles of turns before: queues are in order,
        so loads of the next tiles would wait behind a store that waits for a late member."""
        delays = self._delays()
        for now in range(len(numbers) + max(delays)):
            for member, delay in enumerate(delays):
                if 0 <= now - delay < len(numbers):
                    self._work(numbers[now - delay], turns[numbers[now - delay]], member)

    def _work(self, number: int, tiles: Sequence[Tile], member: int) -> None:
        for step, tile in _tile_work(*self.members[member], tiles[member]):
            self.add(Turn(member, number, {}), step, tile)

    def _delays(self) -> list[int]:
        """By member, how many turns it is late. Where results stand beside the tiles that they are made of, each member is a turn later than the one
        before, as far as the slots between them reach: units that several members need work for all of them in every turn."""
        if all(problem.kernel.in_place for problem, _ in self.members if problem.kernel.passed):
            late = self._late()
            return [int(member >= late) for member in range(len(self.members))]
        found = [0]
        for member in range(1, len(self.members)):
            held = [(maker, place) for (reader, _), (maker, place) in self.roots.items() if maker < member <= reader]
            free = all(found[-1] - found[maker] + 1 < len(self.slots[maker][place].slots) for maker, place in held)
            found.append(found[-1] + free)
        return found

    def _late(self) -> int:
        """The first member from which on all leave alone the units of those before, and take no tile of theirs that has one slot only; else the
        number of members."""
        works = [working_units(problem.steps) for problem, _ in self.members]
        handed = [(maker, reader) for (reader, _), (maker, place) in self.roots.items() if len(self.slots[maker][place].slots) < 2]
        for late in range(1, len(works)):
            before, after = (set[str]().union(*part) for part in (works[:late], works[late:]))
            if before.isdisjoint(after) and not any(maker < late <= reader for maker, reader in handed):
                return late
        return len(works)

    def bring(self, turn: Turn, load: RowLoad) -> None:
        """A load of rows into a ring."""
        problem = self.members[load.member][0]
        place, step = problem.kernel.place(load.place), problem.filling(load.place)
        assert step is not None
        item = Instance(step, whole_tile(problem, place), {load.place: turn.slots[load.place]}, load.made(turn.slab))
        self.events.append((load.member, item))

    def _slot(self, turn: Turn, step: Step, name: str, tile: Tile, now: int) -> tuple[Slot, int | None]:
        problem, tiling = self.members[turn.member]
        member, place = turn.member, problem.kernel.place(name)
        if name in turn.slots:
            return turn.slots[name], None
        root = self.roots.get((member, name), (member, name))
        if root in self.shared:
            return self.slots[root[0]][root[1]].use((turn.slab,), now, in_turn=True)
        if place.memory in self.tiles and name in problem.known:
            return self.tiles[place.memory].use(f"{member} {name}", _key(place, tile), tiling.room[name], tiling.slots[name], now)
        if name not in self.slots[member]:
            what = f"step '{step.kind} {step.place}' of '{problem.operation.name}' names place '{name}', which has a size of 0 here"
            raise fail("E1002", what, step.span, "say with `when` where the step applies")
        return self.slots[member][name].use(_key(place, tile), now)

    def _load(self, turn: Turn, load: Step, name: str, tile: Tile, slot: Slot, early: int) -> None:
        """A load no earlier than `early`, nor than the slabs of other members that make its operands are done."""
        problem = self.members[turn.member][0]
        kept = problem.kept
        ready = (self.finished.get(slab, 0) for use in (name, *load.uses) for slab in turn.after.get(use, ()))
        early = max(early, self.loads[-1][0] if self.loads else 0, *ready)
        sources = {use: turn.slots.get(use, kept[use].slot) for use in load.uses if use in kept}
        item = Instance(load, {d: tile[d] for d in problem.kernel.place(name).by}, {name: slot, **sources})
        self.loads.append((early, (turn.member, item)))


def _standing(problem: Problem, tiling: Tiling) -> Iterator[tuple[str, tuple[Slot, ...]]]:
    """Slots of tiles, and of tensors that stay on chip."""
    yield from tiling.places.items()
    yield from ((name, (kept.slot,)) for name, kept in problem.kept.items())


def _merged(events: list[Placed], loads: list[tuple[int, Placed]]) -> Iterator[Placed]:
    at = 0
    for now, event in enumerate(events):
        while at < len(loads) and loads[at][0] <= now:
            yield loads[at][1]
            at += 1
        yield event


def _key(place: Place, tile: Tile) -> tuple[int, ...]:
    return tuple(number for d in place.by for number in tile[d])  # first and size: ranges that overlap may begin together


def _slabs(problem: Problem, tiling: Tiling, outer: str) -> list[list[tuple[Step, Tile]]]:
    """Every step but the loads, tile by tile, for each turn of the outer loop."""
    found: dict[int, list[tuple[Step, Tile]]] = {}
    for step, tile in _work(problem, tiling):
        found.setdefault(tile[outer][0] if outer else 0, []).append((step, tile))
    return list(found.values())


def _work(problem: Problem, tiling: Tiling) -> Iterator[tuple[Step, Tile]]:
    """Every step but the loads, tile by tile."""
    for outer in tiles_over(problem, problem.kernel.loops, tiling.sizes, tiling.order, tiling.backward):
        yield from _tile_work(problem, tiling, outer)


def _tile_work(problem: Problem, tiling: Tiling, outer: Tile) -> Iterator[tuple[Step, Tile]]:
    """Every step but the loads of one tile of the result."""
    reductions = tiles_over(problem, problem.kernel.reductions, tiling.sizes, tiling.order)
    for number, part in enumerate(reductions):
        tile = {**outer, **part}
        for step in problem.steps:
            first, last = number == 0, number == len(reductions) - 1
            if step.kind == "compute" or (first and step.kind == "start") or (last and step.kind in ("finish", "store")):
                yield step, tile


def tiles_over(
    problem: Problem, dimensions: Sequence[Dimension], sizes: Mapping[str, int], order: Sequence[str], backward: Collection[str] = ()
) -> list[Tile]:
    """The tiles of these dimensions, one after the other. order: loops, outermost first; those that it leaves out stand around them. backward: those
    that run from their last tile to the first."""
    names = loops_of(dimensions, order)
    ranges = [[(first, min(sizes[n], problem.extents[n] - first)) for first in range(0, problem.extents[n], sizes[n])] for n in names]
    ranges = [its[::-1] if name in backward else its for name, its in zip(names, ranges, strict=True)]
    return [dict(zip(names, parts, strict=True)) for parts in itertools.product(*ranges)]


def loops_of(dimensions: Sequence[Dimension], order: Sequence[str]) -> list[str]:
    """The names of these dimensions, outermost first; those that the order leaves out stand around it."""
    own = [d.name for d in dimensions]
    return [*(name for name in own if name not in order), *(name for name in order if name in own)]
