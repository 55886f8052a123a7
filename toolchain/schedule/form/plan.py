"""Everything that is chosen between a region's graph and its assembly, as a schedule's file says it; and the plan that it becomes: the program
before its instructions are written."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from toolchain.schedule.copies import ONE, Copies
from toolchain.schedule.kernels.pools import Pool, Slot
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.dram_buffers import Storage
from toolchain.schedule.placement.on_chip_allocation import Residents
from toolchain.schedule.placement.shared_memory import Fetch, SharedSlot, SharedSlots, is_fetch
from toolchain.schedule.regions.region import Region
from toolchain.schedule.rows.row_group import RowGroup
from toolchain.schedule.tiling.near_weights import near_rooms
from toolchain.schedule.tiling.slots import find_rings
from toolchain.schedule.tiling.tile_group import TileGroup
from toolchain.schedule.tiling.tiles import Tiling
from toolchain.spec.errors import Diagnostic, Span, UserError
from toolchain.spec.fingerprint import fingerprint
from toolchain.spec.model import Machine
from toolchain.spec.yaml_nodes import Node, Path

VERSION = 1
Slots = int | tuple[Slot, ...]
"""The slots of a place, or only their number."""


class Cut(NamedTuple):
    """size: units of the dimension in a tile."""

    dimension: str
    size: int


class Share(NamedTuple):
    """A stream that runs so many successive tiles."""

    stream: int
    tiles: int


@dataclass(frozen=True)
class ChipBuffer:
    """A tensor that stays on chip from the operation that makes it to the last one that reads it. stored: it is stored to DRAM as well.

    pitch: elements from one line of rows to the next where it is a ring of rows; 0 for a tensor that is there whole. lines: how many there are before
    it begins again; 0 where it goes round all of its banks. overlap: how many of them end one round and begin the next. late:
    in which of them the tensor begins.
    """

    tensor: str
    memory: str
    slot: Slot
    stored: bool
    pitch: int = 0
    lines: int = 0
    overlap: int = 0
    late: int = 0

    @property
    def rounds(self) -> tuple[int, int, int]:
        """lines, overlap and late."""
        return self.lines, self.overlap, self.late


@dataclass(frozen=True)
class GroupLoad:
    """A tensor that a group loads from DRAM into a ring of its own, `rows` rows at a time and each once."""

    buffer: ChipBuffer
    rows: int


@dataclass(frozen=True)
class ScheduledOperation:
    """operation: index in the region. name: its name, for the reader. tile: of every dimension, the outermost loop first.

    slots: by place; a place that is left out gets two slots where they fit, else one. within: by memory, the stretches that its slots keep to.
    fetches: the input that it copies to a memory on chip; empty for an operation of the region as it was given. Fetches have the first indices.
    near: by tensor, the room in which its tiles wait, as first element and size. backward: loops that run from their last tile to the first.
    """

    operation: int
    name: str
    kernel: str
    tile: tuple[Cut, ...]
    slots: Mapping[str, Slots]
    within: Mapping[str, tuple[Pool, ...]]
    fetches: str = ""
    near: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    backward: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    """Operations that run over one loop. tiles: it is the last one's loop over tiles, each passing through all of them; else over rows. ahead:
    slabs of rows of a reader for which the operations that it reads from work in advance. loads: tensors that all of them read in one ring.
    streams: which run the tiles, in the loop's order; none: the first stream runs all."""

    operations: tuple[ScheduledOperation, ...]
    ahead: int = 0
    loads: tuple[GroupLoad, ...] = ()
    tiles: bool = False
    streams: tuple[Share, ...] = ()


@dataclass(frozen=True)
class Schedule:
    """buffers: those that operations make. groups: in the order in which they run. fingerprint: of the machine's architecture. root: the file that it
    was read from. barriers: one wait may take the tokens of several streams. multicast: neighbouring streams that load the same do it at once.
    copies: all streams here are those of the first of them."""

    region: str
    machine: str
    config: str
    fingerprint: str
    buffers: tuple[ChipBuffer, ...]
    groups: tuple[Group, ...]
    root: Node | None = field(default=None, compare=False, repr=False)
    barriers: bool = False
    multicast: bool = False
    copies: Copies = ONE

    def span(self, path: Path) -> Span | None:
        """The place of this entry in the file, or of the nearest one above it; None without a file."""
        return self.root.at(path).where() if self.root else None

    def error(self, code: str, message: str, path: Path, hint: str = "") -> UserError:
        """A UserError about a part of the file."""
        return UserError(self.fault(code, message, path, hint))

    def fault(self, code: str, message: str, path: Path, hint: str = "") -> Diagnostic:
        """A finding about a part of the file, one of several."""
        return Diagnostic(code, message, self.span(path), hint)

    @property
    def members(self) -> tuple[range, ...]:
        """The operations of each group, in the order in which they stand here."""
        stops = tuple(accumulate(len(group.operations) for group in self.groups))
        return tuple(range(stop - len(group.operations), stop) for stop, group in zip(stops, self.groups, strict=True))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The number of each operation's group, in the order in which operations stand here."""
        return tuple(number for number, group in enumerate(self.groups) for _ in group.operations)

    @cached_property
    def fetches(self) -> tuple[Fetch, ...]:
        """The inputs that are fetched, in the order of their indices."""
        found = {operation.operation: Fetch(operation.fetches, operation.kernel) for _, operation in self.entries() if operation.fetches}
        return tuple(found[index] for index in sorted(found))

    def entries(self) -> Iterator[tuple[Path, ScheduledOperation]]:
        """Every operation in the order in which it runs, and where the file has it."""
        for number, group in enumerate(self.groups):
            for index, operation in enumerate(group.operations):
                yield ("groups", number, "operations", index), operation


@dataclass(frozen=True)
class Plan:
    """region: its operations in the order in which they run. order: the index that each of them has in the region as it was given.

    problems, tilings: of each operation, with the tensors that stay on chip. dram: the buffers that are needed in DRAM. groups: of several operations
    each, by number. shares: the streams of each group, by number; one that is left out runs on the first. shared: buffers in memories that streams
    share. barriers: one wait may take the tokens of several streams. multicast: neighbouring streams that load the same do it at once. copies: of all
    of it, side by side; those of a search have the room for weights that wait, and no more.
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
    form = (ring.pitch, ring.lines, ring.overlap, ring.late) if ring else ()
    return ChipBuffer(tensor, candidate.memory, plan.residents.slots[name], candidate.stored, *form)


def _operation(plan: Plan, index: int, rings: frozenset[str]) -> ScheduledOperation:
    problem, tiling, left = plan.problems[index], plan.tilings[index], plan.residents.left(index)
    slots = _slots(problem, tiling, rings)
    counted = {problem.memories[name] for name, found in slots.items() if isinstance(found, int)}
    within = {memory: pools for memory, pools in problem.pools.items() if memory in counted and pools != left[memory]}
    bound = plan.region.operations[index]
    fetched = bound.tensors["x"] if is_fetch(bound) else ""
    own = plan.numbers[index], problem.operation.name, problem.kernel.name, tile_cuts(problem, tiling), slots, within, fetched
    return ScheduledOperation(*own, near_rooms(problem), tiling.backward)


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
