"""The semantics of an instruction as a tree: the source of every engine, footprint and manual page.

Expressions reuse toolchain/spec/expr.py and add the leaves below. An expression is either *scalar* (the address
phase: integers known without tensor data) or *data* (it holds Load, Temp or Lane leaves; evaluated once per lane).
"""

from dataclasses import dataclass, field

from toolchain.spec.errors import Span
from toolchain.spec.expr import Expr
from toolchain.spec.model import FloatType, ScalarType, View


@dataclass(frozen=True, slots=True)
class Access:
    """A view at an index. at: (level, expression) where another instance than the executing one is meant.

    index: one byte-unit index, or (bank, address). lanes: a name is a lane loop, an expression is a fixed lane; () is the
    value of an element that is one scalar; None is the whole element, copied as it is. number: unique in its instruction.
    """

    number: int
    view: View
    index: tuple[Expr, ...]
    lanes: tuple[str | Expr, ...] | None
    at: tuple[tuple[str, Expr], ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class FieldRef(Expr):
    """A field of the executing instruction."""

    name: str


@dataclass(frozen=True, slots=True)
class Var(Expr):
    """A loop variable, or a scalar that `Let` assigned. Names are unique in an instruction."""

    name: str


@dataclass(frozen=True, slots=True)
class Place(Expr):
    """The executing instance's index at a topology level."""

    level: str


@dataclass(frozen=True, slots=True)
class RegisterRead(Expr):
    """A field latched by an earlier instruction, or (field "") the value of a host register."""

    register: str
    index: Expr
    field_name: str


@dataclass(frozen=True, slots=True)
class ControlRead(Expr):
    """A scalar read from a control memory in the address phase; member names a record's field."""

    access: Access
    member: str


@dataclass(frozen=True, slots=True)
class Load(Expr):
    """One lane of an element (data); with access.lanes None, the whole element, allowed only as the value of a copy."""

    access: Access


@dataclass(frozen=True, slots=True)
class Temp(Expr):
    """One lane of a lane temporary (data)."""

    name: str
    lanes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lane(Expr):
    """The position of the current lane (data), from 0 up."""

    name: str


@dataclass(frozen=True, slots=True)
class Reduce(Expr):
    """op `+`, `min` or `max` over lane names that occur only inside; `dot(a, b)` is Reduce('+', a * b)."""

    op: str
    value: Expr
    over: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RoundShift(Expr):
    """value / 2**amount (amount >= 0) rounded: half_up, half_even, half_away or floor. Exact, whatever the width."""

    value: Expr
    amount: Expr
    rounding: str


@dataclass(frozen=True, slots=True)
class Narrow(Expr):
    """overflow `wrap` into type, or `saturate` into [low, high]."""

    value: Expr
    type: ScalarType
    overflow: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Extreme(Expr):
    """op `min` or `max` of two or more values, scalar or data."""

    op: str
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Float(Expr):
    """An operation on floating values, each the signed integer that its bits spell; rounded to nearest even in `type`.

    op: `add sub mul div fma sqrt exp log tanh erf neg abs minimum maximum minimum_number maximum_number from_bits` give a value of `type`;
    `lt le eq is_nan` give 0 or 1; `to_bits` gives the bits from 0 up. values: of `type`, for `from_bits` one integer.
    """

    op: str
    type: FloatType
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class ToFloat(Expr):
    """The nearest value of `type`, ties to even. source: the format of the value, None: an integer. saturate: past the greatest, and for infinities,
    the greatest.
    """

    value: Expr
    type: FloatType
    source: FloatType | None = None
    saturate: bool = False


@dataclass(frozen=True, slots=True)
class ToInteger(Expr):
    """A value of `source` rounded (half_up, half_even, half_away, floor or truncate) and saturated into `type`; NaN gives 0."""

    value: Expr
    source: FloatType
    rounding: str
    type: ScalarType


@dataclass(frozen=True, slots=True)
class FloatReduce(Reduce):
    """Floating terms in row-major order of the lanes, from the first one on. op: `in_order` adds one after the other; `tree` adds each
    `width` neighbours as a balanced tree, then the trees in order; `exact` rounds the exact sum once, `dot_exact` that of the exact products of a
    `mul`; `minimum`, `maximum`, `minimum_number`, `maximum_number`.
    """

    type: FloatType
    width: int = 0


@dataclass(frozen=True, slots=True)
class Lookup(Reduce):
    """The value at one place of the lane in `over`, chosen by data. position: provably one that the lane has. All lanes count as read."""

    position: Expr


def is_lane_leaf(e: Expr) -> bool:
    """Whether a node counts as data: it has a value of its own in every lane, or is floating arithmetic."""
    return isinstance(e, Load | Temp | Lane | Float | ToFloat | ToInteger)


@dataclass(frozen=True, slots=True)
class Stmt:
    """Base of every statement; spans do not take part in comparisons."""

    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class For(Stmt):
    """for var in [start, stop), none where stop is not above start. Bounds are scalar, evaluated once on entry."""

    var: str
    start: Expr
    stop: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class If(Stmt):
    """condition is scalar."""

    condition: Expr
    then: tuple[Stmt, ...]
    other: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Let(Stmt):
    """Assigns a scalar variable; `carried` when it was assigned before outside this iteration (a running maximum)."""

    name: str
    value: Expr
    carried: bool = False


@dataclass(frozen=True, slots=True)
class SetTemp(Stmt):
    """Writes every lane of a temporary, after all of them are computed. accumulate: `+=`. The value is narrowed as the temporary declares."""

    name: str
    lanes: tuple[str, ...]
    value: Expr
    accumulate: bool


@dataclass(frozen=True, slots=True)
class Store(Stmt):
    """Writes an element, every free lane of it, after all of them are computed. accumulate: `+=`. The value is narrowed as the memory declares."""

    access: Access
    value: Expr
    accumulate: bool


@dataclass(frozen=True, slots=True)
class Latch(Stmt):
    """All fields of the executing instruction into a control register."""

    register: str
    index: Expr


@dataclass(frozen=True, slots=True)
class TempType:
    """A lane temporary: its scalar type, its rule past the range (error: provably never), and its lanes."""

    type: ScalarType
    overflow: str
    lanes: tuple[str, ...]


@dataclass(frozen=True)
class Semantics:
    """One instruction, resolved. lanes: extent of every lane name. accesses: by number, reads and writes."""

    instruction: str
    body: tuple[Stmt, ...]
    lanes: dict[str, int]
    temps: dict[str, TempType]
    accesses: tuple[Access, ...]
