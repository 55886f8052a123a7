"""The choice of banks: tensors and tiles that units need at the same time go into different pools.

Buffers that stay on chip go there one move after the other: the one that costs most goes where all cost least together, alone or in exchange for
another one. Then each operation's tiles do, in the room that is left.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from toolchain.schedule.kernels.pools import Pool, Slot
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.on_chip_allocation import Candidate, Residents, find_room
from toolchain.schedule.rivals import WHOLE, Owner, Rivals
from toolchain.schedule.tiling.tiles import Tiling

Costs = Mapping[str, Mapping[str, float]]
"""By buffer, those with which it should not share banks, and the cycles that this costs; every pair stands there twice."""
Slots = Mapping[str, Slot]
Planned = tuple[Problem, Tiling]


def apart(residents: Residents, costs: Costs) -> Residents:
    """The same buffers, in pools where they cost least: no single move and no exchange of two costs less."""
    board, slots = _Board(residents.candidates, residents.pools, costs), residents.slots
    while (moved := board.improved(slots)) is not None:
        slots = moved
    return Residents({name: slots[name] for name in residents.slots}, residents.candidates, residents.groups, residents.pools)


def tiles_apart(planned: Sequence[Planned], residents: Residents, rivals: Rivals) -> list[Planned]:
    """The operations with the slots of their tiles in stretches of their memories where they cost least."""
    banks = {(WHOLE, name): (slot.bank,) for name, slot in residents.slots.items()}
    banks |= {(index, name): _banks(slots) for index, (_, tiling) in enumerate(planned) for name, slots in tiling.places.items()}
    found = list(planned)
    for index, (problem, tiling) in enumerate(planned):
        if any((index, name) in rivals for name in tiling.places):
            found[index] = problem, _tiles_moved(index, problem, tiling, rivals, banks)
            banks |= {(index, name): _banks(slots) for name, slots in found[index][1].places.items()}
    return found


def clashes(planned: Sequence[Planned], residents: Residents, rivals: Rivals) -> float:
    """Cycles in which units need the same banks at the same time: about as much as other banks can save."""
    banks = {(WHOLE, name): [(residents.candidates[name].memory, slot.bank)] for name, slot in residents.slots.items()}
    for index, (problem, tiling) in enumerate(planned):
        banks |= {(index, name): [(problem.memories[name], slot.bank) for slot in slots] for name, slots in tiling.places.items()}
    pairs = {(min(one, other), max(one, other)): cycles for one, its in rivals.items() for other, cycles in its.items()}
    return sum(cycles * _shared(banks.get(one, ()), banks.get(other, ())) for (one, other), cycles in pairs.items())


def _shared(banks: Sequence[tuple[str, int]], others: Sequence[tuple[str, int]]) -> float:
    """The share of pairs that are the same bank."""
    return sum(map(others.count, banks)) / max(len(banks) * len(others), 1)


def _banks(slots: Iterable[Slot]) -> tuple[int, ...]:
    return tuple(slot.bank for slot in slots)


def _tiles_moved(index: int, problem: Problem, tiling: Tiling, rivals: Rivals, banks: Mapping[Owner, Sequence[int]]) -> Tiling:
    """The tiling with each slot where it costs least, those first that cost most."""
    where = {(name, k): _stretch(problem, name, slot) for name, slots in tiling.places.items() for k, slot in enumerate(slots)}

    def cost(name: str, bank: int) -> float:
        return sum(
            cycles * banks[other].count(bank) / len(banks[other]) for other, cycles in rivals.get((index, name), {}).items() if banks.get(other)
        )

    for name, k in sorted(where, key=lambda slot: -cost(slot[0], where[slot].bank)):
        for pool in sorted(problem.pools[problem.memories[name]], key=lambda pool: (cost(name, pool.bank), pool != where[name, k])):
            taken = sum(tiling.room[other] for (other, _), its in where.items() if its == pool and problem.memories[other] == problem.memories[name])
            if pool == where[name, k] or tiling.room[name] + taken <= pool.depth:
                where[name, k] = pool
                break
    return replace(tiling, places=_in_turn(problem, tiling, where))


def _stretch(problem: Problem, name: str, slot: Slot) -> Pool:
    pools = problem.pools[problem.memories[name]]
    return next(pool for pool in pools if pool.bank == slot.bank and pool.start <= slot.address < pool.start + max(pool.depth, 1))


def _in_turn(problem: Problem, tiling: Tiling, where: Mapping[tuple[str, int], Pool]) -> dict[str, tuple[Slot, ...]]:
    """The slots of all places, one after the other in their stretches."""
    taken, found = dict[tuple[str, Pool], int](), dict[tuple[str, int], Slot]()
    for (name, k), pool in where.items():
        stretch = problem.memories[name], pool
        found[name, k] = Slot(pool.bank, pool.start + taken.get(stretch, 0))
        taken[stretch] = taken.get(stretch, 0) + tiling.room[name]
    return {name: tuple(found[name, k] for k in range(len(slots))) for name, slots in tiling.places.items()}


@dataclass(frozen=True)
class _Board:
    candidates: Mapping[str, Candidate]
    pools: Mapping[str, Sequence[Pool]]
    costs: Costs

    def improved(self, slots: Slots) -> Slots | None:
        """The best move of the buffer that costs most, of those that have one; None where none has."""
        for name in sorted(slots, key=lambda name: (-self._cost((name,), slots), name)):
            if not self._cost((name,), slots):
                return None
            found = min(self._moves(name, slots), key=lambda move: move[0], default=(0.0, slots))
            if found[0] < 0:
                return found[1]
        return None

    def _moves(self, name: str, slots: Slots) -> Iterator[tuple[float, Slots]]:
        """Cycles gained, below zero, and the slots after each move."""
        for pool in self.pools[self.candidates[name].memory]:
            if pool.bank == slots[name].bank:
                continue
            if (alone := self._placed(slots, {name: [pool]})) is not None:
                yield self._cost((name,), alone) - self._cost((name,), slots), alone
                continue
            for other in self._in_the_way(name, pool, slots):
                elsewhere = [each for each in self.pools[self.candidates[other].memory] if each.bank != pool.bank]
                if (both := self._placed(slots, {name: [pool], other: elsewhere})) is not None:
                    yield self._cost((name, other), both) - self._cost((name, other), slots), both

    def _in_the_way(self, name: str, pool: Pool, slots: Slots) -> list[str]:
        own = self.candidates[name]
        return [
            other
            for other, slot in slots.items()
            if slot.bank == pool.bank and self.candidates[other].memory == own.memory and self.candidates[other].meets(own)
        ]

    def _cost(self, names: Sequence[str], slots: Slots) -> float:
        """Cycles that these buffers cost where they stand."""
        pairs = {(min(name, other), max(name, other)): cycles for name in names for other, cycles in self.costs.get(name, {}).items()}
        return sum(cycles for (one, other), cycles in pairs.items() if one in slots and other in slots and self._together(one, other, slots))

    def _together(self, one: str, other: str, slots: Slots) -> bool:
        return self.candidates[one].memory == self.candidates[other].memory and slots[one].bank == slots[other].bank

    def _placed(self, slots: Slots, moving: Mapping[str, Sequence[Pool]]) -> Slots | None:
        """The slots with some buffers in others of these pools, one after the other; None where one has no room."""
        found = {name: slot for name, slot in slots.items() if name not in moving}
        for name, pools in moving.items():
            tried = (self._room(name, pool, found, groups) for pool in pools for groups in (1, 0))
            slot = next((slot for slot in tried if slot is not None), None)
            if slot is None:
                return None
            found[name] = slot
        return found

    def _room(self, name: str, pool: Pool, slots: Slots, groups: int) -> Slot | None:
        """Room in a pool, with so many groups between this buffer and others there: that of a buffer that it may be made over, or else free."""
        own = self.candidates[name]
        near = [
            (other, slot)
            for other, slot in slots.items()
            if slot.bank == pool.bank and self.candidates[other].memory == own.memory and self.candidates[other].meets(own, groups)
        ]
        for over, slot in near:
            if self._over(name, over) and all(self._beside(name, slot, other, at) for other, at in near):
                return slot
        return find_room(own.size, [(slot, self.candidates[other].size) for other, slot in near], [pool])

    def _over(self, one: str, other: str) -> bool:
        return other in self.candidates[one].over or one in self.candidates[other].over

    def _beside(self, name: str, slot: Slot, other: str, at: Slot) -> bool:
        """Whether a buffer may stand in a slot beside another one: over it, or apart from it."""
        over = slot == at and self._over(name, other)
        return over or slot.address + self.candidates[name].size <= at.address or at.address + self.candidates[other].size <= slot.address
