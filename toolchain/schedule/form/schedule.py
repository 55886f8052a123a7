"""Everything that is chosen between a region's graph and its assembly, as the file says it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from toolchain.schedule.kernels.pools import Pool, Slot
from toolchain.schedule.options import ONE, Copies
from toolchain.schedule.regions.fetches import Fetch
from toolchain.spec.errors import Diagnostic, Span, UserError
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
    it begins again; 0 where it goes round all of its banks.
    """

    tensor: str
    memory: str
    slot: Slot
    stored: bool
    pitch: int = 0
    lines: int = 0


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
    """

    operation: int
    name: str
    kernel: str
    tile: tuple[Cut, ...]
    slots: Mapping[str, Slots]
    within: Mapping[str, tuple[Pool, ...]]
    fetches: str = ""


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
