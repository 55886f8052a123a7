"""The tile of an operation and its slots, as a schedule has them: at addresses, or as many as it says, in the stretches that it gives."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from toolchain.schedule.form.plan import Schedule, ScheduledOperation
from toolchain.schedule.kernels.pools import Pool, Slot, beside, place_slots
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.tiling.tile_table import TileSize, size_limits
from toolchain.spec.errors import Diagnostic, UserError, nearest
from toolchain.spec.yaml_nodes import Path

CONTEXTS = 2
"""Slots of a place that a schedule leaves out, where they fit: one is filled while the other is used."""


def check_tile(schedule: Schedule, path: Path, operation: ScheduledOperation, problem: Problem) -> TileSize:
    """The tile's size. Raises UserError E1405 for dimensions and sizes that the kernel does not have or allow."""
    faults = list(_faults(schedule, path, operation, problem))
    if faults:
        raise UserError(*faults)
    found = TileSize(problem, dict(operation.tile))
    if found.broken:
        text = f"kernel '{operation.kernel}' allows no such tile of '{operation.name}': {found.broken}"
        raise schedule.error("E1405", text, (*path, "tile"))
    return found


def _faults(schedule: Schedule, path: Path, operation: ScheduledOperation, problem: Problem) -> Iterator[Diagnostic]:
    known, given = [d.name for d in problem.kernel.tile], [cut.dimension for cut in operation.tile]
    for name in given:
        if name not in known:
            hint = nearest(name, known) or f"known: {', '.join(known)}"
            yield schedule.fault("E1405", f"kernel '{operation.kernel}' has no dimension '{name}'", (*path, "tile", name), hint)
    missing = [name for name in known if name not in given]
    if missing:
        extents = ", ".join(f"{name}: {problem.extents[name]}" for name in missing)
        yield schedule.fault("E1405", f"the tile of '{operation.name}' lacks {', '.join(missing)}", (*path, "tile"), f"the whole is {extents}")
    yield from (fault for cut in operation.tile if cut.dimension in known for fault in _size(schedule, path, problem, *cut))
    yield from _order(schedule, path, operation, problem)
    yield from _backward(schedule, path, operation, problem)


def _backward(schedule: Schedule, path: Path, operation: ScheduledOperation, problem: Problem) -> Iterator[Diagnostic]:
    """Loops that run from their last tile: not those of sums, whose order is part of the result, nor of groups, whose members count on the first."""
    loops = [d.name for d in problem.kernel.loops]
    for number, name in enumerate(operation.backward):
        if name not in loops:
            hint = nearest(name, loops) or f"known: {', '.join(loops)}"
            yield schedule.fault(
                "E1405", f"kernel '{operation.kernel}' has no loop '{name}' that could run backward", (*path, "backward", number), hint
            )
    shared = [group for group in schedule.groups if len(group.operations) > 1 or group.loads]
    if operation.backward and any(operation in group.operations for group in shared):
        text = f"'{operation.name}' shares the loop of its group, which begins with the first tile"
        yield schedule.fault("E1405", text, (*path, "backward"), "leave it out, or give the operation a group of its own")


def _size(schedule: Schedule, path: Path, problem: Problem, name: str, size: int) -> Iterator[Diagnostic]:
    (most, multiple), extent, where = size_limits(problem, name), problem.extents[name], (*path, "tile", name)
    if size > most:
        limit = f"the whole is {extent}" if most == extent else f"kernel '{problem.kernel.name}' allows {most}"
        yield schedule.fault("E1405", f"a tile of '{problem.operation.name}' cannot have {size} units of {name}: {limit}", where)
    elif size % multiple and size != extent:
        yield schedule.fault("E1405", f"{size} units of {name} are no multiple of {multiple}, and not all {extent}", where)


def _order(schedule: Schedule, path: Path, operation: ScheduledOperation, problem: Problem) -> Iterator[Diagnostic]:
    """Sums stay where they are: their loops are innermost."""
    reducing, seen = {d.name for d in problem.kernel.reductions}, ""
    for name, _ in operation.tile:
        if name in reducing:
            seen = name
        elif seen:
            yield schedule.fault("E1405", f"'{seen}' reduces, so its loop stands inside that of '{name}'", (*path, "tile", seen), "write it last")
            return


def narrowed(schedule: Schedule, path: Path, operation: ScheduledOperation, problem: Problem) -> Problem:
    """The problem with those stretches for its pools. Raises UserError E1406 for one that is not free."""
    pools = dict(problem.pools)
    memories = {p.memory: None for p in problem.kernel.places if p.name not in problem.known}
    for memory, stretches in operation.within.items():
        if memory not in memories:
            text, hint = f"'{operation.name}' has no tiles in '{memory}' that could keep to a part of it", nearest(memory, memories)
            raise schedule.error("E1406", text, (*path, "within", memory), hint or f"known: {', '.join(memories)}")
        for number, stretch in enumerate(stretches):
            if not any(_inside(stretch, pool) for pool in problem.pools[memory]):
                text = f"{stretch.start}..{stretch.start + stretch.depth - 1} of bank {stretch.bank} is not all free in '{memory}'"
                raise schedule.error("E1406", text, (*path, "within", memory, number))
        pools[memory] = stretches
    return replace(problem, pools=pools)


def _inside(part: Pool, whole: Pool) -> bool:
    return part.bank == whole.bank and whole.start <= part.start and part.start + part.depth <= whole.start + whole.depth


@dataclass(frozen=True)
class SlotReader:
    """path: of the operation in the file. size: of its tile, with the pools that are left for it. rings: memories that are filled round and round."""

    schedule: Schedule
    path: Path
    operation: ScheduledOperation
    size: TileSize
    rings: Collection[str]

    @property
    def problem(self) -> Problem:
        return self.size.problem

    def read(self) -> dict[str, tuple[Slot, ...]]:
        """The slots of each place. Raises UserError E1406 for slots that cannot be, or find no room."""
        rooms = self.size.rooms
        faults = [*self._unknown(rooms), *(fault for name in self._fixed(rooms) for fault in self._outside(name, rooms[name]))]
        faults = faults or [*self._overlaps(rooms)]
        if faults:
            raise UserError(*faults)
        found = {name: self._slots(name) for name in self._fixed(rooms)}
        found |= self._placed(rooms, found)
        return {name: found[name] for name in rooms}

    def _fixed(self, rooms: Mapping[str, int]) -> list[str]:
        """Places whose slots have addresses."""
        return [name for name in rooms if not isinstance(self.operation.slots.get(name, 0), int)]

    def _slots(self, name: str) -> tuple[Slot, ...]:
        found = self.operation.slots[name]
        assert not isinstance(found, int)
        return found

    def _fault(self, message: str, hint: str, *place: str | int) -> Diagnostic:
        return self.schedule.fault("E1406", message, (*self.path, "slots", *place), hint)

    def _unknown(self, rooms: Mapping[str, int]) -> Iterator[Diagnostic]:
        for name in self.operation.slots:
            if name in self.problem.kept:
                yield self._fault(f"'{name}' of '{self.operation.name}' stays on chip as a whole, so it has no slots", "take them out", name)
            elif name not in rooms:
                hint = nearest(name, rooms) or f"known: {', '.join(rooms)}"
                yield self._fault(f"'{self.operation.name}' has no slots of '{name}'", hint, name)

    def _outside(self, name: str, room: int) -> Iterator[Diagnostic]:
        """Slots that do not stand inside one of the stretches that are left for tiles."""
        memory = self.problem.memories[name]
        if memory in self.rings and name in self.problem.known:
            text = f"'{memory}' is filled round and round by all operations, so slots of '{name}' have no addresses"
            yield self._fault(text, f"write {name}: {len(self._slots(name))}", name)
            return
        for number, (bank, address) in enumerate(self._slots(name)):
            pools = [p for p in self.problem.pools[memory] if p.bank == bank]
            if not any(p.start <= address and address + room <= p.start + p.depth for p in pools):
                text = f"the slot [{bank}, {address}] of '{name}' takes {room} elements of '{memory}', which are not all free there"
                yield self._fault(text, _free(self.problem.pools[memory]), name, number)
                return

    def _overlaps(self, rooms: Mapping[str, int]) -> Iterator[Diagnostic]:
        """Slots of one operation that share elements."""
        parts = sorted((self.problem.memories[name], slot, name, k) for name in self._fixed(rooms) for k, slot in enumerate(self._slots(name)))
        for (memory, slot, name, _), (other_memory, other, other_name, number) in pairwise(parts):
            if (memory, slot.bank) == (other_memory, other.bank) and other.address < slot.address + rooms[name]:
                text = f"the slots {[*slot]} of '{name}' and {[*other]} of '{other_name}' overlap: one of '{name}' takes {rooms[name]} elements"
                yield self._fault(text, "write how many slots there are, and they are placed", other_name, number)
                return

    def _placed(self, rooms: Mapping[str, int], fixed: Mapping[str, Sequence[Slot]]) -> dict[str, tuple[Slot, ...]]:
        """Slots of the other places, each in the pool with the most room."""
        given: dict[str, int] = {}
        for name in rooms:
            count = self.operation.slots.get(name, 0)
            given |= {name: count} if isinstance(count, int) else {}
        found, full = self._place(rooms, fixed, self._counts(given, CONTEXTS))
        if full:
            found, full = self._place(rooms, fixed, self._counts(given, 1))
        if full:
            count, memory = max(given[full], 1), self.problem.memories[full]
            text = f"there is no room for {_slots(count)} of '{full}' in '{memory}', each of {rooms[full]} elements"
            raise UserError(self._fault(text, f"a smaller tile takes less; {_free(self.problem.pools[memory])}", full))
        return found

    def _counts(self, given: Mapping[str, int], contexts: int) -> dict[str, int]:
        """How many slots there are: 0 stands for a number that the schedule leaves out."""
        return {name: count or min(contexts, self.size.count(name)) for name, count in given.items()}

    def _place(
        self, rooms: Mapping[str, int], fixed: Mapping[str, Sequence[Slot]], wanted: Mapping[str, int]
    ) -> tuple[dict[str, tuple[Slot, ...]], str]:
        """The slots, and the place that finds no room."""
        pools = {memory: tuple(self._gaps(memory, rooms, fixed)) for memory in {self.problem.memories[name]: None for name in wanted}}
        return place_slots(pools, {name: (self.problem.memories[name], rooms[name], count) for name, count in wanted.items()})

    def _gaps(self, memory: str, rooms: Mapping[str, int], fixed: Mapping[str, Sequence[Slot]]) -> tuple[Pool, ...]:
        taken = [(slot, rooms[name]) for name, slots in fixed.items() if self.problem.memories[name] == memory for slot in slots]
        return beside(self.problem.pools[memory], taken)


def _slots(count: int) -> str:
    return "a slot" if count == 1 else f"{count} slots"


def _free(pools: Sequence[Pool]) -> str:
    """In words, the room that is left for tiles."""
    stretches = ", ".join(f"{p.start}..{p.start + p.depth - 1} of bank {p.bank}" for p in pools if p.depth)
    return f"free are {stretches}" if stretches else "nothing is free"
