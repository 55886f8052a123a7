"""Instructions: fields, formats, rules, and the cost of each class, which never changes a result."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolchain.spec.errors import Span
from toolchain.spec.expr import Expr


@dataclass(frozen=True, slots=True)
class Field:
    """A bit field of an instruction. The value is the stored bits (signed when `signed`) plus `minus`.

    lsb counts from bit 0 of byte 0 in the instruction read as one little-endian number.
    role: opcode | compute | address | sync | layout | reserved. radix: how assembly writes it (10, 2 or 16).
    names: symbolic values in assembly. relocates: the view whose elements a linker counts this address in. assumed: whether the meaning of its
    values is uncertain, but for those that are `known`: empty for the one that is stored as zero. stated: values that a public description allows and
    no program that is known to be right uses.
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
    known: tuple[int, ...] = ()
    stated: tuple[int, ...] = ()

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
class Pipelined:
    """The iterations of an instruction are steps of a pipeline: an element of these memories that one step writes is not touched by the
    `apart` steps after it. hazard: how it is reported where one is, `error` or `warning`."""

    memories: tuple[str, ...]
    apart: int
    hazard: str


@dataclass(frozen=True, slots=True)
class Instruction:
    """match: the stored bits that identify it. others: fields of which it takes all values that no other instruction matches.

    unit: an expression that gives an index into Machine.units.
    in_place: iterations run in sequence and may read results of earlier ones of the same instruction. occupies: units that it keeps to itself
    besides its own: it takes its turn among their instructions too, and uses their ports.
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
    pipelined: Pipelined | None = None
    occupies: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
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
class ProgramRules:
    """ends: the instruction that ends decoding of a stream. last: it must also be the last to run.

    container: `raw`, or `object` where programs have several streams.
    """

    ends: str
    last: bool
    container: str


@dataclass(frozen=True, slots=True)
class Resource:
    """A port or link shared by transfers: `bytes_per_cycle` bytes in `per` cycles.

    policy: fifo | fair | priority (units earlier in `priority` first). together: streams that share the cost of a load for
    all of them, where a search looks at one of them; no file says it.
    """

    name: str
    bytes_per_cycle: int
    policy: str
    scope: str = "device"
    priority: tuple[str, ...] = ()
    source: str = ""
    assumed: bool = False
    per: int = 1
    together: int | None = None


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
    """A named number of the timing section, and where it comes from."""

    name: str
    value: int
    source: str
    assumed: bool
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Timing:
    """clock_khz: cycles in a millisecond; everything else counts in cycles.

    peak_macs: multiply-accumulates that the whole device could do in a cycle, None where the file does not say.
    """

    clock_khz: int
    clock_source: str
    constants: tuple[TimingConstant, ...]
    resources: tuple[Resource, ...]
    classes: tuple[TimingClass, ...]
    peak_macs: int | None = None
    peak_source: str = ""
