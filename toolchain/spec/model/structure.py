"""Topology, memories and their views, the units that access them, and the counters on which instructions wait and which they post."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolchain.spec.errors import Span
from toolchain.spec.expr import Expr
from toolchain.spec.model.types import ElementType


@dataclass(frozen=True, slots=True)
class Level:
    """A level of the topology below the device. `streams`: each instance has its own program.
    `lockstep`: all instances run one stream together (SIMD), and the level's name is their index."""

    name: str
    count: int
    lockstep: bool = False
    streams: bool = False


def neighbours(levels: tuple[Level, ...]) -> int:
    """Streams of one instance of the level above theirs, such as the cores of a cluster; all of them where there is no such level."""
    found = stream_levels(levels)
    return found[-1].count if found else 1


def stream_levels(levels: tuple[Level, ...]) -> tuple[Level, ...]:
    """The levels that a stream's number counts over, outermost first: down to the one that has the streams."""
    last = next((i for i, level in enumerate(levels) if level.streams), -1)
    return levels[: last + 1]


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports of each bank: how many units read it in one cycle, write it, and do either through ports that serve both; 0 without limit.

    priority: units, the first one first; those that are not named come last, and units of one rank take turns.
    """

    read: int = 0
    write: int = 0
    either: int = 0
    priority: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """kind: dram | scratchpad | ring | register.

    depths: elements in each bank. A ring takes every address modulo its bank's depth.
    scope: `device` or a level's name; one instance for each instance of that level.
    control: the address phase may read it. granule: bytes; every access starts and ends on one.
    latches: for a register that holds fields of instructions, their names; it holds those that all of them have (element is unused).
    zeroed: it holds zeros before a program runs, which may be read.
    transient: contents are lost with the program: no later program may read them.
    ports: of each bank; None where units never wait for one, which only costs time.
    host: the register is set by the host before a run; names: the host's names of its elements. consumed: a latched value serves one reader only.
    """

    name: str
    kind: str
    element: ElementType
    depths: tuple[int, ...]
    scope: str = "device"
    control: bool = False
    granule: int = 1
    latches: tuple[str, ...] = ()
    zeroed: bool = False
    host: bool = False
    consumed: bool = False
    names: tuple[str, ...] = ()
    overflow: str = "error"
    hazard: str = "error"
    transient: bool = False
    ports: Ports | None = None
    doc: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def banks(self) -> int:
        return len(self.depths)

    @property
    def elements(self) -> int:
        """Elements of one instance, in all banks."""
        return sum(self.depths)

    @property
    def bytes(self) -> int:
        """Bytes of one instance."""
        return self.elements * self.element.bytes


@dataclass(frozen=True, slots=True)
class View:
    """A way to look at a memory: `index * unit` is the byte address; offsets[lane] the byte of each lane, row-major.

    Every memory has a view of its own name whose unit is the element. unit 0 marks a banked index (bank, address).
    """

    name: str
    memory: str
    element: ElementType
    unit: int
    offsets: tuple[int, ...]
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Unit:
    """An in-order queue and the memories that it may touch. depth: instructions its queue holds; None is unbounded."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    depth: int | None = None
    overlaps: bool = False
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Counter:
    """A counting counter array. source and target: unit names, for drawings and messages; empty for events.

    scope: instances as for memories. mode: counting | flag | all_prior. depth None is unbounded. stops: whoever posts to it, or waits for it, stands
    still as a whole: all units of the stream are done before, and none goes on until it is done.
    """

    name: str
    source: str
    target: str
    depth: int | None = None
    initial: int = 0
    count: int = 1
    scope: str = "device"
    mode: str = "counting"
    doc: str = ""
    stops: bool = False


@dataclass(frozen=True, slots=True)
class SyncRule:
    """kind: wait (at issue) or post (at completion), for the named instructions when they run on the named units.

    over: for posts to other instances, (level, mask expression) pairs; bit i of the mask selects instance i.
    """

    kind: str
    counter: str
    when: Expr
    index: Expr
    amount: Expr
    units: tuple[str, ...]
    instructions: tuple[str, ...]
    over: tuple[tuple[str, Expr], ...] = ()

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Everything in it that names fields."""
        return (self.when, self.index, self.amount, *(mask for _, mask in self.over))


@dataclass(frozen=True, slots=True)
class Watch:
    """Accesses of unit `target` to these memories come after those of earlier instructions of `source`.

    lag: the two run coupled: results of `source` stream into `target`, which may start so many cycles after it started and ends no earlier
    than it does. None: it starts when those before it are done.
    """

    source: str
    target: str
    memories: tuple[str, ...]
    lag: int | None = None


@dataclass(frozen=True, slots=True)
class Interlock:
    """Orders that the hardware keeps by itself in each stream, by issue order.

    window: the most instructions under way; the next one is not issued. None is unbounded. looks_back: the number of earlier instructions
    that an instruction is compared with; None is all. granularity: elements of a memory that are compared as one; 0 is all of them.
    fences: instructions that start when all before them are done, and before any after them starts.
    """

    watches: tuple[Watch, ...]
    window: int | None = None
    looks_back: int | None = None
    granularity: tuple[tuple[str, int], ...] = ()
    fences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Illegal:
    """A sync field that must be zero on a unit that has no counter for it."""

    field: str
    bit: int
    unit: str


@dataclass(frozen=True, slots=True)
class Nop:
    """An instruction of a unit without an effect. fields: the value of every field that does not identify it."""

    unit: str
    instruction: str
    fields: Mapping[str, int]
