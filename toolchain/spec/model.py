"""The elaborated machine: frozen, concrete, what every tool reads. Nothing here knows YAML."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from toolchain.spec.errors import Span
from toolchain.spec.expr import Expr


@dataclass(frozen=True, slots=True)
class ScalarType:
    """An integer of 8, 16, 32 or 64 bits in storage; records hold odd widths."""

    signed: bool
    bits: int

    @property
    def low(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        return (1 << (self.bits - int(self.signed))) - 1

    def __str__(self) -> str:
        return f"{'i' if self.signed else 'u'}{self.bits}"


@dataclass(frozen=True, slots=True)
class RecordField:
    """A bit field of a record element; the record is a little-endian word, lsb counts from its bit 0."""

    name: str
    lsb: int
    type: ScalarType


@dataclass(frozen=True, slots=True)
class ElementType:
    """What one address holds: an array of scalars (dims () is one scalar) or a record of bit fields."""

    scalar: ScalarType
    dims: tuple[int, ...] = ()
    record: tuple[RecordField, ...] = ()

    @property
    def lanes(self) -> int:
        count = 1
        for extent in self.dims:
            count *= extent
        return count

    @property
    def bytes(self) -> int:
        return self.lanes * self.scalar.bits // 8


@dataclass(frozen=True, slots=True)
class Level:
    """A level of the topology below the device. `streams`: each instance has its own program.
    `lockstep`: all instances run one stream together (SIMD), and the level's name is their index."""

    name: str
    count: int
    lockstep: bool = False
    streams: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """kind: dram | scratchpad | ring | register.

    depths: elements in each bank. A ring takes every address modulo its bank's depth.
    scope: `device` or a level's name; one instance for each instance of that level.
    control: the address phase may read it. granule: bytes; every access starts and ends on one.
    latches: for a register that holds all fields of one instruction, that instruction's name (element is unused).
    host: the register is set by the host before a run; names: what the host calls its elements. consumed: a latched value serves one reader only.
    """

    name: str
    kind: str
    element: ElementType
    depths: tuple[int, ...]
    scope: str = "device"
    control: bool = False
    granule: int = 1
    latches: str = ""
    host: bool = False
    consumed: bool = False
    names: tuple[str, ...] = ()
    overflow: str = "error"
    hazard: str = "error"
    doc: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def banks(self) -> int:
        return len(self.depths)

    @property
    def bytes(self) -> int:
        """Bytes of one instance."""
        return sum(self.depths) * self.element.bytes


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
    """An in-order queue and what it may touch. depth: instructions its queue holds; None is unbounded."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    depth: int | None = None
    overlaps: bool = False
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """A bit field of an instruction. The value is the stored bits (signed when `signed`) plus `minus`.

    lsb counts from bit 0 of byte 0 in the instruction read as one little-endian number.
    role: opcode | compute | address | sync | layout | reserved. radix: how assembly writes it (10, 2 or 16).
    names: symbolic values in assembly. relocates: the view whose elements a linker counts this address in.
    """

    name: str
    lsb: int
    bits: int
    signed: bool = False
    minus: int = 0
    role: str = "compute"
    default: int | None = None
    radix: int = 10
    names: Mapping[str, int] = field(default_factory=dict[str, int])
    assumed: bool = False
    doc: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)
    relocates: str = ""

    @property
    def low(self) -> int:
        return (-(1 << (self.bits - 1)) if self.signed else 0) + self.minus

    @property
    def high(self) -> int:
        return (1 << (self.bits - int(self.signed))) - 1 + self.minus


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition that must hold, and the sentence a user reads when it does not. name: only portable checks have one."""

    that: Expr
    message: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """A block of semantics: its text, and where line 1, column 0 of it stands in the file."""

    text: str
    span: Span
    indent: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """match: the stored bits that identify it. unit: an expression that gives an index into Machine.units.

    in_place: iterations run in sequence and may read what earlier ones of the same instruction wrote.
    """

    name: str
    bytes: int
    fields: tuple[Field, ...]
    match: Mapping[str, int]
    unit: Expr
    constraints: tuple[Constraint, ...]
    semantics: Text
    timing: str
    in_place: bool = False
    assumed: tuple[str, ...] = ()
    doc: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)

    def field(self, name: str) -> Field:
        return next(f for f in self.fields if f.name == name)


@dataclass(frozen=True, slots=True)
class Encoding:
    """unit_bytes: a program's length is a multiple of it and a hex line holds one. pad: byte granularity of a whole
    program, filled with zero bytes. positional, assign: the shape of an assembly line."""

    unit_bytes: int
    longest_bytes: int
    pad_bytes: int
    positional: tuple[str, ...] = ()
    assign: str = "="


@dataclass(frozen=True, slots=True)
class Counter:
    """A counting counter array. source and target: unit names, for drawings and messages; empty for events.

    scope: instances as for memories. mode: counting | flag | all_prior. depth None is unbounded.
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


@dataclass(frozen=True, slots=True)
class Illegal:
    """A sync field that must be zero on a unit that has no counter for it."""

    field: str
    bit: int
    unit: str


@dataclass(frozen=True, slots=True)
class Nop:
    """An instruction of a unit that does nothing. fields: the value of every field that does not identify it."""

    unit: str
    instruction: str
    fields: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Resource:
    """A port or link shared by transfers: `bytes_per_cycle` bytes in `per` cycles.

    policy: fifo | fair | priority (units earlier in `priority` first).
    """

    name: str
    bytes_per_cycle: int
    policy: str
    scope: str = "device"
    priority: tuple[str, ...] = ()
    source: str = ""
    assumed: bool = False
    per: int = 1


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes that an instruction moves through a resource, as an expression."""

    resource: str
    bytes: Expr


@dataclass(frozen=True, slots=True)
class TimingClass:
    """The unit is held for `setup`, then for the longer of `cycles` and its transfers; posts come `latency` later.

    constants: the timing constants that its expressions name.
    """

    name: str
    cycles: Expr
    setup: Expr
    latency: Expr
    transfers: tuple[Transfer, ...]
    source: str = ""
    assumed: bool = False
    constants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TimingConstant:
    name: str
    value: int
    source: str
    assumed: bool
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Timing:
    clock_khz: int
    clock_source: str
    constants: tuple[TimingConstant, ...]
    resources: tuple[Resource, ...]
    classes: tuple[TimingClass, ...]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number that a decision rests on, and where it comes from."""

    value: float
    source: str
    assumed: bool = False
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a host tensor is stored: the element at index `domain` stands at index `map` of an array of `shape`.

    domain: index names in the host's order; extents: the name of each one's extent, which `shape` may use.
    Each stored element has at most one source; those without one hold zero. inverse: from names `stored` back to the
    host's index, given where the machine writes (`written`). gb_per_s: how fast the host rearranges, where declared.
    """

    name: str
    domain: tuple[str, ...]
    extents: tuple[str, ...]
    map: tuple[Expr, ...]
    shape: tuple[Expr, ...]
    stored: tuple[str, ...] = ()
    inverse: tuple[Expr, ...] = ()
    type: ScalarType | None = None
    written: bool = False
    gb_per_s: Quantity | None = None
    doc: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Host:
    """What the host costs. gmac_per_s: by kind of operator, `default` for the rest; gb_per_s: operators without MACs."""

    gmac_per_s: Mapping[str, Quantity]
    gb_per_s: Quantity
    launch_us: Quantity
    transfer_us: Quantity
    transfer_gb_per_s: Quantity


@dataclass(frozen=True, slots=True)
class Rule:
    """A named numeric rule that semantics call: a rounding shift (`rounding`) or a narrowing (`type`, `overflow`)."""

    name: str
    rounding: str = ""
    type: ScalarType | None = None
    overflow: str = ""
    low: int | None = None
    high: int | None = None
    source: str = ""
    assumed: bool = False
    doc: str = ""


@dataclass(frozen=True, slots=True)
class ProgramRules:
    """ends: the instruction that ends decoding of a stream. last: it must also be the last to run.

    container: `raw`, or `object` where programs have several streams.
    """

    ends: str
    last: bool
    container: str


@dataclass(frozen=True)
class Machine:
    """A machine with every parameter in place."""

    name: str
    config: str
    summary: str
    sources: tuple[str, ...]
    params: Mapping[str, int]
    levels: tuple[Level, ...]
    memories: tuple[Memory, ...]
    views: tuple[View, ...]
    units: tuple[Unit, ...]
    encoding: Encoding
    instructions: tuple[Instruction, ...]
    functions: Text | None
    counters: tuple[Counter, ...]
    sync: tuple[SyncRule, ...]
    illegal: tuple[Illegal, ...]
    rules: tuple[Rule, ...]
    timing: Timing
    layouts: tuple[Layout, ...]
    program: ProgramRules
    portable: tuple[tuple[str, Constraint], ...] = ()
    """(instruction, what must hold for other implementations of the machine to agree); breaking it is a warning"""
    assumptions: tuple[str, ...] = ()
    """sentences, each with the section it is about"""
    host: Host | None = None
    configs: tuple[str, ...] = ()
    nops: tuple[Nop, ...] = ()

    choices: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """(parameter, choice) -> its number, for `SHR == SHR.full`"""

    @cached_property
    def memory(self) -> dict[str, Memory]:
        return {m.name: m for m in self.memories}

    @cached_property
    def view(self) -> dict[str, View]:
        return {v.name: v for v in self.views}

    @cached_property
    def instruction(self) -> dict[str, Instruction]:
        return {i.name: i for i in self.instructions}

    @cached_property
    def streams(self) -> int:
        """How many programs run side by side: instances of the level marked `streams`, or one."""
        return self.instances(next((level.name for level in self.levels if level.streams), "device"))

    def instances(self, scope: str) -> int:
        """Instances of a scope on the whole device; the outer level's index varies slowest."""
        count = 1
        if scope == "device":
            return count
        for level in self.levels:
            count *= level.count
            if level.name == scope:
                return count
        raise KeyError(scope)
