"""Room on chip: slots of a place go into pools of banks, every slot into one of them, for one candidate or for thousands at once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolchain.spec.arrays import Ints
from toolchain.spec.model import Machine, Memory


class Slot(NamedTuple):
    """A slot in a pool. bank: the first one of its pool. address: the same in each bank of the pool, in elements."""

    bank: int
    address: int


@dataclass(frozen=True)
class Pool:
    """Neighbouring banks that slots span, with room for `depth` elements in each from `start` on; a memory without pools is one."""

    bank: int
    depth: int
    start: int = 0


def pools_of(machine: Machine, pools: Mapping[str, int]) -> dict[str, tuple[Pool, ...]]:
    """By memory. pools: how many banks one pool has, for memories that have any."""
    found: dict[str, tuple[Pool, ...]] = {}
    for memory in machine.memories:
        size = pools.get(memory.name)
        starts = range(0, memory.banks, size) if size else ()
        found[memory.name] = tuple(Pool(b, min(memory.depths[b : b + size])) for b in starts if size) or (Pool(0, memory.elements),)
    return found


def wraps(memory: Memory, pool: Pool) -> bool:
    """Whether addresses go on at the beginning of the pool's banks."""
    return memory.kind == "ring" and memory.depths[pool.bank] == pool.depth


@dataclass(frozen=True)
class Taken:
    """Slots one after the other, for each candidate: in which pool, from which address, how many. int64 [n]."""

    pool: Ints
    address: Ints
    count: Ints


@dataclass
class Rooms:
    """The pools of a machine while places get their slots, in int64 [n] columns of n candidates that do not see each other."""

    pools: Mapping[str, tuple[Pool, ...]]
    count: int
    top: dict[str, Ints] = field(default_factory=dict[str, Ints])

    def __post_init__(self) -> None:
        self.top = {name: np.zeros((len(pools), self.count), np.int64) for name, pools in self.pools.items()}

    def free(self, memory: str) -> Ints:
        """int64 [pools, n]: the elements that each pool still has, fewer than none where they were taken all the same."""
        return np.array([[p.depth] for p in self.pools[memory]], np.int64) - self.top[memory]

    def take(self, memory: str, room: Ints, wanted: NDArray[np.bool_]) -> Taken:
        """A slot of `room` elements for who wants one, in the pool with the most room, of equals the first."""
        pool = np.argmax(self.free(memory), axis=0)
        columns = np.arange(self.count)
        address = self.top[memory][pool, columns]
        self.top[memory][pool, columns] += np.where(wanted, room, 0)
        return Taken(pool, address, wanted.astype(np.int64))

    def holds(self, memory: str, room: Ints) -> Ints:
        """How many more slots of `room` elements there is room for; for slots of nothing, more than anyone asks for."""
        each = np.maximum(self.free(memory), 0) // np.maximum(room, 1)
        return np.where(room > 0, each.sum(axis=0), np.iinfo(np.int64).max)

    def fill(self, memory: str, room: Ints, count: Ints) -> list[Taken]:
        """`count` slots of `room` elements that there is room for, pool after pool."""
        found: list[Taken] = []
        for number, free in enumerate(self.free(memory)):
            here = np.where(room > 0, np.minimum(count, np.maximum(free, 0) // np.maximum(room, 1)), count)
            found.append(Taken(np.full(self.count, number), self.top[memory][number].copy(), here))
            self.top[memory][number] += here * room
            count = count - here
        return found

    @property
    def fit(self) -> NDArray[np.bool_]:
        """Whether everything taken was there."""
        return np.logical_and.reduce([(self.free(name) >= 0).all(axis=0) for name in self.pools])


def slots_of(taken: list[Taken], index: int, room: int, pools: tuple[Pool, ...]) -> tuple[Slot, ...]:
    """The slots that candidate `index` has taken."""
    found: list[Slot] = []
    for part in taken:
        pool = pools[int(part.pool[index])]
        found += [Slot(pool.bank, pool.start + int(part.address[index]) + k * room) for k in range(int(part.count[index]))]
    return tuple(found)


def place_slots(pools: Mapping[str, tuple[Pool, ...]], wanted: Mapping[str, tuple[str, int, int]]) -> tuple[dict[str, tuple[Slot, ...]], str]:
    """The slots of each place, each in the pool with the most room, and the first place that finds no room, empty where all do.

    wanted: by place, its memory, the elements of a slot, and how many slots."""
    free, found = Rooms(pools, 1), dict[str, tuple[Slot, ...]]()
    for name, (memory, room, count) in wanted.items():
        if count * room > sum(pool.depth for pool in pools[memory]):
            return found, name
        taken = [free.take(memory, np.array([room]), np.ones(1, np.bool_)) for _ in range(count)]
        if not free.fit[0]:
            return found, name
        found[name] = slots_of(taken, 0, room, pools[memory])
    return found, ""


def beside(pools: Sequence[Pool], taken: Sequence[tuple[Slot, int]]) -> tuple[Pool, ...]:
    """The stretches of pools beside the taken room (slots and their sizes); where that is all of it, one without room: a memory is never without
    pools."""
    return tuple(part for pool in pools for part in _gaps(pool, taken)) or (replace(pools[0], depth=0),)


def _gaps(pool: Pool, taken: Sequence[tuple[Slot, int]]) -> Iterator[Pool]:
    at = pool.start
    for start, stop in sorted({(slot.address, slot.address + size) for slot, size in taken if slot.bank == pool.bank}):
        if start > at:
            yield Pool(pool.bank, start - at, at)
        at = max(at, stop)
    if at < pool.start + pool.depth:
        yield Pool(pool.bank, pool.start + pool.depth - at, at)
