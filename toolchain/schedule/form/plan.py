"""A region's program before its instructions are written, and the schedule that gives the same plan again."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from toolchain.schedule.form.schedule import ChipBuffer, Cut, Group, GroupLoad, Schedule, ScheduledOperation, Share, Slots
from toolchain.schedule.fusion.tile_group import TileGroup
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.options import ONE, Copies
from toolchain.schedule.placement.dram_buffers import Storage
from toolchain.schedule.placement.on_chip_allocation import Residents
from toolchain.schedule.placement.shared_memory import SharedSlot, SharedSlots
from toolchain.schedule.regions.fetches import is_fetch
from toolchain.schedule.regions.region import Region
from toolchain.schedule.rows.row_group import RowGroup
from toolchain.schedule.tiling.slots import find_rings
from toolchain.schedule.tiling.tiles import Tiling
from toolchain.spec.fingerprint import fingerprint
from toolchain.spec.model import Machine


@dataclass(frozen=True)
class Plan:
    """region: its operations in the order in which they run. order: the index that each of them has in the region as it was given.

    problems, tilings: of each operation, with the tensors that stay on chip. dram: the buffers that are needed in DRAM. groups: of several operations
    each, by number. shares: the streams of each group, by number; one that is left out runs on the first. shared: buffers in memories that streams
    share. barriers: one wait may take the tokens of several streams. multicast: neighbouring streams that load the same do it at once. copies: of all
    of it, side by side.
    """

    region: Region
    order: tuple[int, ...]
    problems: Sequence[Problem]
    tilings: Sequence[Tiling]
    residents: Residents
    dram: Storage
    groups: Mapping[int, RowGroup | TileGroup] = field(default_factory=dict[int, RowGroup | TileGroup])
    shares: Mapping[int, tuple[Share, ...]] = field(default_factory=dict[int, tuple[Share, ...]])
    shared: SharedSlots = field(default_factory=dict[str, SharedSlot])
    barriers: bool = False
    multicast: bool = False
    copies: Copies = ONE

    def part(self, operations: range) -> "Plan":
        """These operations, whole groups of them, with every tensor where it is: operations that are not there make their operands."""
        own = slice(operations.start, operations.stop)
        region = replace(self.region, operations=self.region.operations[own])
        residents = replace(self.residents, groups=self.residents.groups[own])
        return replace(
            self, region=region, order=self.order[own], problems=self.problems[own], tilings=self.tilings[own], residents=residents
        )  # fmt: skip

    def runs(self) -> Iterator[tuple[range, RowGroup | TileGroup | None]]:
        """The operations of every group, in order; None for an operation alone."""
        for number, members in itertools.groupby(range(len(self.problems)), key=self.residents.groups.__getitem__):
            first, *more = members
            yield range(first, first + 1 + len(more)), self.groups.get(number)

    @cached_property
    def numbers(self) -> Sequence[int]:
        """The index of each operation where fetches are counted in the order in which they run."""
        counter = itertools.count()
        return [next(counter) if is_fetch(bound) else index for bound, index in zip(self.region.operations, self.order, strict=True)]

    @property
    def peak(self) -> dict[str, int]:
        """By memory, elements of each bank that slots and buffers reach, at most."""
        found: dict[str, int] = {}
        for problem, tiling in zip(self.problems, self.tilings, strict=True):
            for name, slots in tiling.places.items():
                found[problem.memories[name]] = max(found.get(problem.memories[name], 0), *(slot.address + tiling.room[name] for slot in slots))
        for name, candidate in self.residents.candidates.items():
            ring = self.residents.rings.get(name)
            top = ring.depth if ring and not ring.lines else self.residents.slots[name].address + self.residents.size(name)
            found[candidate.memory] = max(found.get(candidate.memory, 0), top)
        for shared in self.shared.values():
            found[shared.memory] = max(found.get(shared.memory, 0), shared.slot.address + shared.size)
        return found


def make_schedule(machine: Machine, plan: Plan) -> Schedule:
    """The schedule of a plan whose slots stand where they will be."""
    rings = frozenset(find_rings(plan.problems))
    groups = tuple(
        replace(_group(plan, members, group, rings), streams=plan.shares.get(number, ())) for number, (members, group) in enumerate(plan.runs())
    )
    head = plan.region.name, machine.name, machine.config, fingerprint(machine)
    return Schedule(*head, tuple(_buffers(plan)), groups, barriers=plan.barriers, multicast=plan.multicast, copies=plan.copies)


def _group(plan: Plan, members: range, group: RowGroup | TileGroup | None, rings: frozenset[str]) -> Group:
    operations = tuple(_operation(plan, index, rings) for index in members)
    if group is None:
        return Group(operations)
    if isinstance(group, TileGroup):
        return Group(operations, tiles=True)
    return Group(operations, group.ahead, tuple(GroupLoad(_buffer(plan, load.tensor, load.ring), load.size) for load in group.loads))


def _buffers(plan: Plan) -> Iterator[ChipBuffer]:
    yield from (_buffer(plan, name, name) for name, candidate in plan.residents.candidates.items() if candidate.writes)
    yield from (ChipBuffer(name, shared.memory, shared.slot, stored=False) for name, shared in plan.shared.items())


def _buffer(plan: Plan, tensor: str, name: str) -> ChipBuffer:
    """A tensor as it stands on chip. name: of its buffer there."""
    candidate, ring = plan.residents.candidates[name], plan.residents.rings.get(name)
    return ChipBuffer(tensor, candidate.memory, plan.residents.slots[name], candidate.stored, *((ring.pitch, ring.lines) if ring else (0, 0)))


def _operation(plan: Plan, index: int, rings: frozenset[str]) -> ScheduledOperation:
    problem, tiling, left = plan.problems[index], plan.tilings[index], plan.residents.left(index)
    slots = _slots(problem, tiling, rings)
    counted = {problem.memories[name] for name, found in slots.items() if isinstance(found, int)}
    within = {memory: pools for memory, pools in problem.pools.items() if memory in counted and pools != left[memory]}
    bound = plan.region.operations[index]
    fetched = bound.tensors["x"] if is_fetch(bound) else ""
    return ScheduledOperation(plan.numbers[index], problem.operation.name, problem.kernel.name, tile_cuts(problem, tiling), slots, within, fetched)


def tile_cuts(problem: Problem, tiling: Tiling) -> tuple[Cut, ...]:
    """The tile as a schedule has it. Loops that a search left out run once, wherever they stand."""
    left = [d.name for d in problem.kernel.tile if d.name not in tiling.order]
    reducing = {d.name for d in problem.kernel.reductions}
    names = [*(name for name in left if name not in reducing), *tiling.order, *(name for name in left if name in reducing)]
    return tuple(Cut(name, tiling.sizes[name]) for name in names)


def _slots(problem: Problem, tiling: Tiling, rings: frozenset[str]) -> dict[str, Slots]:
    """A memory that is filled round and round has no fixed places."""
    return {
        name: len(slots) if problem.memories[name] in rings and name in problem.known else slots
        for name, slots in tiling.places.items()
        if name not in problem.kernel.handed
    }  # fmt: skip
