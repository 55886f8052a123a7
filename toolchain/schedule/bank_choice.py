"""The choice of banks: rivals, the tensors and tiles that different units need on chip at the same time, go into different pools.

Buffers that stay on chip go there one move after the other: the one that costs most goes where all cost least together, alone or in exchange for
another one. Then each operation's tiles do, in the room that is left.

Where the ports of banks are limited, units wait for each other if both stand in the same banks. So rivals go into different pools.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from toolchain.isa.program import NONE, Origins
from toolchain.schedule.form.plan import Plan
from toolchain.schedule.kernels.kernel import working_units
from toolchain.schedule.kernels.pools import Pool, Slot
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.on_chip_allocation import Candidate, Residents, find_room
from toolchain.schedule.stray_accesses import slot_spans
from toolchain.schedule.tiling.tiles import Planned, Tiling
from toolchain.spec.model import Machine
from toolchain.timing.simulate import Timeline

BESIDE = 0.3
"""The share of the shorter one's cycles in which an operation and its neighbour on other units count as working at once, where waits hide it."""
WHOLE = -1
Owner = tuple[int, str]
"""WHOLE and a buffer that stays on chip, or an operation and a place of its tiles."""
Rivals = Mapping[Owner, Mapping[Owner, float]]
"""Each with its rivals, and the cycles in which one unit needs one while another unit needs the other. Every pair stands there twice."""
Uses = Mapping[int, frozenset[tuple[Owner, bool]]]
"""By instruction, the owners of the room that it reads and of the room that it writes (True)."""

Costs = Mapping[str, Mapping[str, float]]
"""By buffer, those with which it should not share banks, and the cycles that this costs; every pair stands there twice."""
Slots = Mapping[str, Slot]


def has_ports(machine: Machine) -> bool:
    """Whether units may have to wait for the ports of some bank."""
    return any(memory.ports for memory in machine.memories)


def find_rivals(plan: Plan, origins: Origins, timeline: Timeline) -> Rivals:
    """Rivals in memories with limited ports. origins: operations by their place in the plan."""
    uses, found = _uses(plan, origins, timeline), dict[Owner, dict[Owner, float]]()
    for first, second, cycles in _overlaps(timeline, uses):
        for one, other in sorted({(a, b) for a, wrote in uses[first] for b, writes in uses[second] if wrote == writes and a != b}):
            for a, b in ((one, other), (other, one)):
                own = found.setdefault(a, {})
                own[b] = own.get(b, 0.0) + cycles
    return found


def neighbour_rivals(plan: Plan) -> Rivals:
    """Buffers on chip that neighbouring operations of different units read, or write. In a program that was timed such neighbours may wait for each
    other's banks instead of working at once, so that their rivalry does not show."""
    found = dict[Owner, dict[Owner, float]]()
    for (first, one), (second, other) in itertools.pairwise(enumerate(plan.problems)):
        if working_units(one.steps) & working_units(other.steps):
            continue
        cycles = BESIDE * min(plan.tilings[first].estimate, plan.tilings[second].estimate)
        pairs = itertools.product(_buffers(plan, first), _buffers(plan, second))
        for a, b in sorted({(a, b) for (a, wrote), (b, writes) in pairs if wrote == writes and a != b}):
            for whose, of in ((a, b), (b, a)):
                own = found.setdefault(whose, {})
                own[of] = own.get(of, 0.0) + cycles
    return found


def joined(one: Rivals, other: Rivals) -> Rivals:
    """All rivals, those of both with the larger number of cycles."""
    found = {owner: dict(rivals) for owner, rivals in one.items()}
    for owner, rivals in other.items():
        own = found.setdefault(owner, {})
        own |= {rival: max(own.get(rival, 0.0), cycles) for rival, cycles in rivals.items()}
    return found


def _buffers(plan: Plan, index: int) -> list[tuple[Owner, bool]]:
    """The buffers on chip that an operation reads, and the one that it writes (True)."""
    tensors = plan.region.operations[index].tensors
    return [((WHOLE, plan.dram.places[tensors[name]][0]), name == "y") for name in plan.problems[index].kept if name in tensors]


def among_buffers(rivals: Rivals) -> dict[str, dict[str, float]]:
    """The rivals among buffers that stay on chip, by name."""
    return {
        name: {other: cycles for (whose, other), cycles in found.items() if whose == WHOLE}
        for (number, name), found in rivals.items()
        if number == WHOLE
    }


def _uses(plan: Plan, origins: Origins, timeline: Timeline) -> Uses:
    machine, runs = timeline.program.machine, timeline.footprints.runs
    found: dict[int, set[tuple[Owner, bool]]] = {}
    for number, memory in enumerate(machine.memories):
        chosen = runs.take((runs.memory == number) & bool(memory.ports))
        operation = origins.operation[chosen.instruction]
        for index, write in itertools.product(np.unique(operation[operation != NONE]).tolist(), (False, True)):
            mine, stands = chosen.take((operation == index) & (chosen.write == write)), _stands(machine, plan, index, memory.name, write)
            place = np.searchsorted(np.array([start for start, *_ in stands], np.int64), mine.start, "right") - 1
            stops = np.array([stop for _, _, stop, _ in stands], np.int64)
            inside = (place >= 0) & (mine.start < np.append(stops, 0)[place])
            pairs = mine.instruction[inside] * len(stands) + place[inside]
            numbers: list[int] = pairs[np.diff(pairs, prepend=-1) != 0].tolist()  # neighbouring runs mostly stand in the same place
            for instruction, at in (divmod(number, len(stands)) for number in numbers):
                found.setdefault(instruction, set()).add((stands[at][3], write))
    return {instruction: frozenset(own) for instruction, own in found.items()}


def _stands(machine: Machine, plan: Plan, index: int, memory: str, write: bool) -> list[tuple[int, bool, int, Owner]]:
    """(start, whether it is the one that is meant, stop), in granules of the first instance, of everything that an operation has in a memory. Where a
    buffer is made over another, the one that is meant comes last: the one that is written, or else the other."""
    made = {name for name, candidate in plan.residents.candidates.items() if any(use.operation == index for use in candidate.writes)}
    problem, tiling, tensors = plan.problems[index], plan.tilings[index], plan.region.operations[index].tensors
    found = [(name, kept.slot, kept.size, (WHOLE, plan.dram.places[tensors[name]][0])) for name, kept in problem.kept.items()]
    found += [(name, slot, tiling.room[name], (index, name)) for name, slots in tiling.places.items() if name not in problem.kept for slot in slots]
    banks = range(problem.kernel.pools.get(memory, 1))
    return sorted(
        (start, (owner[1] in made) == write, stop, owner)
        for name, slot, room, owner in found
        if problem.memories[name] == memory
        for bank in banks
        for start, stop in slot_spans(machine.memory[memory], Slot(slot.bank + bank, slot.address), room)
    )


def _overlaps(timeline: Timeline, uses: Uses) -> Iterator[tuple[int, int, float]]:
    """Instructions of different units that work at the same time, and for how many cycles."""
    units: dict[int, list[int]] = {}
    start, end = (column.tolist() for column in (timeline.result.start + timeline.costs.setup, timeline.result.end))
    for instruction in sorted(uses, key=lambda index: start[index]):
        units.setdefault(int(timeline.program.queue[instruction]), []).append(instruction)
    queues = list(units.values())
    for number, own in enumerate(queues):
        for others in queues[:number]:
            at = 0
            for one in own:
                while at < len(others) and end[others[at]] <= start[one]:
                    at += 1
                for other in map(others.__getitem__, range(at, len(others))):
                    if start[other] >= end[one]:
                        break
                    yield one, other, min(end[one], end[other]) - max(start[one], start[other])


def apart(residents: Residents, costs: Costs) -> Residents:
    """The same buffers, in pools where they cost least: no single move and no exchange of two costs less, nor one that makes others make room and
    what such moves improve after it."""
    board = _Board(residents.candidates, residents.pools, costs)
    slots = board.settled(residents.slots)
    while (moved := board.cleared(slots)) is not None:
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
    counts = Counter(others)
    return sum(counts[bank] for bank in banks) / max(len(banks) * len(others), 1)


def _banks(slots: Iterable[Slot]) -> tuple[int, ...]:
    return tuple(slot.bank for slot in slots)


def _tiles_moved(index: int, problem: Problem, tiling: Tiling, rivals: Rivals, banks: Mapping[Owner, Sequence[int]]) -> Tiling:
    """The tiling with each slot where it costs least, those first that cost most."""
    where = {(name, k): _stretch(problem, name, slot) for name, slots in tiling.places.items() for k, slot in enumerate(slots)}
    taken = Counter[tuple[str, Pool]]()
    for (name, _), pool in where.items():
        taken[problem.memories[name], pool] += tiling.room[name]

    @cache
    def cost(name: str, bank: int) -> float:
        return sum(
            cycles * banks[other].count(bank) / len(banks[other]) for other, cycles in rivals.get((index, name), {}).items() if banks.get(other)
        )

    for name, k in sorted(where, key=lambda slot: -cost(slot[0], where[slot].bank)):
        for pool in sorted(problem.pools[problem.memories[name]], key=lambda pool: (cost(name, pool.bank), pool != where[name, k])):
            memory, room = problem.memories[name], tiling.room[name]
            if pool == where[name, k] or room + taken[memory, pool] <= pool.depth:
                taken[memory, where[name, k]] -= room
                taken[memory, pool] += room
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

    def settled(self, slots: Slots) -> Slots:
        """After all moves that cost less."""
        while (moved := self.improved(slots)) is not None:
            slots = moved
        return slots

    def cleared(self, slots: Slots) -> Slots | None:
        """The best way to put the buffer that costs most where others make room for it, of those that have one; None where none costs less."""
        for name in self._costly(slots):
            pools = [pool for pool in self.pools[self.candidates[name].memory] if pool.bank != slots[name].bank]
            ways = [self.settled(way) for pool in pools if (way := self._with_room(name, pool, slots)) is not None]
            best = min(ways, key=lambda way: self._cost(tuple(way), way), default=slots)
            if self._cost(tuple(best), best) < self._cost(tuple(slots), slots):
                return best
        return None

    def _with_room(self, name: str, pool: Pool, slots: Slots) -> Slots | None:
        """The slots with a buffer in a pool, and the smallest of those in its way elsewhere; None where one of them has no room."""
        found = {other: slot for other, slot in slots.items() if other != name}
        away, room = list[str](), self._room(name, pool, found, 0)
        for other in sorted(self._in_the_way(name, pool, slots), key=lambda other: (self.candidates[other].size, other)):
            if room is None:
                del found[other]
                away.append(other)
                room = self._room(name, pool, found, 0)
        if room is None:
            return None
        pools = self.pools[self.candidates[name].memory]
        elsewhere = [*(each for each in pools if each.bank != pool.bank), pool]
        return self._placed({**found, name: room}, dict.fromkeys(reversed(away), elsewhere))

    def improved(self, slots: Slots) -> Slots | None:
        """The best move of the buffer that costs most, of those that have one; None where none has."""
        for name in self._costly(slots):
            found = min(self._moves(name, slots), key=lambda move: move[0], default=(0.0, slots))
            if found[0] < 0:
                return found[1]
        return None

    def _costly(self, slots: Slots) -> list[str]:
        """The buffers that cost anything, those first that cost most."""
        costs = {name: cost for name in slots if (cost := self._cost((name,), slots))}
        return sorted(costs, key=lambda name: (-costs[name], name))

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
