"""The values that a reference engine's expression is evaluated on, and sums of products over one lane: most of all the work, so that each element
is cut out of its lanes at once."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from toolchain.analysis.state import Element, State
from toolchain.isa.semantics import ir
from toolchain.spec.errors import UserError, fail
from toolchain.spec.expr import Binary, Expr

LONGEST_SHIFT = 4096


@dataclass(slots=True)
class Frame:
    """The values of one replica while it executes one instruction.

    seen: lanes of the elements that the current statement has read, by access number. latched: what registers hold, as far as they were read, by
    register, member and index; None where the instruction may change that. lanes: the current value of every lane name. temps: lanes of each
    temporary, row-major. reads, writes: told of every element of data that is read or written.
    iterations: how many its loops have asked for. chosen: granules (memory, instance, number) that a partial execution is for.
    """

    state: State
    label: str
    fields: Mapping[str, int]
    place: Mapping[str, int]
    extents: Mapping[str, int]
    reads: Callable[[Element], None]
    writes: Callable[[Element], None]
    names: dict[str, int] = field(default_factory=dict[str, int])
    lanes: dict[str, int] = field(default_factory=dict[str, int])
    temps: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    seen: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    latched: dict[tuple[str, str, int], int] | None = None
    iterations: int = 0
    chosen: frozenset[tuple[str, int, int]] = frozenset()

    def fault(self, code: str, message: str) -> UserError:
        """An error of the executing instruction."""
        return fail(code, message, place=self.label)


Value = Callable[[Frame], int]

Read = Callable[[Frame], list[int]]
"""All lanes of an element."""
Cut = Callable[[Frame, int], list[int] | None]
"""The values along a lane of so many, where the others stand; None where one of them is outside the element."""


def factors(value: Expr, lane: str) -> tuple[ir.Access, ir.Access] | None:
    """The two elements of a product that name all of their lanes, this one once each; None for any other value."""
    match value:
        case Binary(op="*", left=ir.Load(access=one), right=ir.Load(access=other)) if _plain(one, lane) and _plain(other, lane):
            return one, other
        case _:
            return None


def _plain(access: ir.Access, lane: str) -> bool:
    lanes = access.lanes or ()
    return all(isinstance(name, str) for name in lanes) and lanes.count(lane) == 1


def sum_of_products(cuts: tuple[Cut, Cut], lane: str, otherwise: Value) -> Value:
    """otherwise: the same sum lane by lane, which also tells values outside an element."""
    one, other = cuts

    def total(frame: Frame) -> int:
        count = frame.extents[lane]
        left = one(frame, count) if count else None
        right = other(frame, count) if left is not None else None
        return otherwise(frame) if left is None or right is None else sum(map(operator.mul, left, right))

    return total


def cut(access: ir.Access, lane: str, read: Read) -> Cut:
    """read: finds the element's lanes, which stand row-major."""
    names, dims = _names(access), access.view.element.dims
    steps = [prod(dims[at + 1 :]) for at in range(len(dims))]
    own = names.index(lane)
    others = [(name, dim, step) for at, (name, dim, step) in enumerate(zip(names, dims, steps, strict=True)) if at != own]
    extent, step = dims[own], steps[own]

    def along(frame: Frame, count: int) -> list[int] | None:
        start = 0
        for name, dim, apart in others:
            at = frame.lanes[name]
            if not 0 <= at < dim:
                return None
            start += at * apart
        return read(frame)[start : start + count * step : step] if count <= extent else None

    return along


def _names(access: ir.Access) -> Sequence[str]:
    return [name for name in access.lanes or () if isinstance(name, str)]


def divisor(frame: Frame, number: int) -> int:
    """The number itself. Raises the fault E0704 for zero."""
    if number == 0:
        raise frame.fault("E0704", "division by zero")
    return number


def checked_amount(frame: Frame, number: int) -> int:
    """The bits of a shift. Raises the fault E0703 below zero and above LONGEST_SHIFT."""
    if not 0 <= number <= LONGEST_SHIFT:
        raise frame.fault("E0703", f"a shift by {number}")
    return number


def round_shift(value: int, amount: int, rounding: str) -> int:
    """value / 2**amount, rounded to the nearest integer; ties as `rounding` says; `floor` rounds down."""
    if rounding == "floor" or amount == 0:
        return value >> amount
    floor, rest, half = value >> amount, value & ((1 << amount) - 1), 1 << (amount - 1)
    if rest != half:
        return floor + (rest > half)
    if rounding == "half_even":
        return floor + floor % 2
    return floor + (rounding == "half_up" or value > 0)
