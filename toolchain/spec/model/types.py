"""The elements that addresses hold (scalars, arrays of scalars, records of bit fields) and their text: `i8`, `u(EXPR)`, `f32`, `i8[BATCH, BLOCK]`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from toolchain.spec.errors import fail, nearest
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Call, Choose, Expr, Index, Locate, Name, parse_expr


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
class FloatType(ScalarType):
    """A binary floating format. Everything that handles integers handles its values as the signed integers that their bits spell.

    fraction: stored bits of the significand; the exponent has the others but the sign. infinities: IEEE 754's encoding; without
    them only all ones is NaN, and the other codes of the largest exponent are numbers (OCP's E4M3).
    """

    name: str
    fraction: int
    infinities: bool = True

    @property
    def bias(self) -> int:
        """The stored exponent of 1."""
        return (1 << (self.bits - self.fraction - 2)) - 1

    @property
    def magnitude(self) -> int:
        """A mask of all bits but the sign."""
        return (1 << (self.bits - 1)) - 1

    @property
    def infinity(self) -> int:
        """The bits of infinity, for a format that has it."""
        return self.magnitude - (1 << self.fraction) + 1

    @property
    def nan(self) -> int:
        """The bits of the one NaN that operations give: quiet and positive, no payload."""
        return self.infinity | 1 << (self.fraction - 1) if self.infinities else self.magnitude

    @property
    def greatest(self) -> int:
        """The bits of the greatest finite number."""
        return (self.infinity if self.infinities else self.magnitude) - 1

    def __str__(self) -> str:
        return self.name


F32 = FloatType(True, 32, "f32", 23)
F16, BF16 = FloatType(True, 16, "f16", 10), FloatType(True, 16, "bf16", 7)
F8E4M3, F8E5M2 = FloatType(True, 8, "f8e4m3", 3, infinities=False), FloatType(True, 8, "f8e5m2", 2)
FLOATS = {kind.name: kind for kind in (F32, F16, BF16, F8E4M3, F8E5M2)}
"""IEEE 754's binary32 and binary16, bfloat16, and OCP's two formats of 8 bits (ml_dtypes.float8_e4m3fn and float8_e5m2)."""


@dataclass(frozen=True, slots=True)
class RecordField:
    """A bit field of a record element; the record is a little-endian word, lsb counts from its bit 0."""

    name: str
    lsb: int
    type: ScalarType


@dataclass(frozen=True, slots=True)
class ElementType:
    """The element at one address: an array of scalars (dims () is one scalar) or a record of bit fields."""

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

    @property
    def row_major(self) -> tuple[int, ...]:
        """The byte of every lane in row-major order."""
        return tuple(range(0, self.bytes, self.scalar.bits // 8))


STORED_BITS = (8, 16, 32, 64)
MAX_LANES = 1 << 16


def parse_scalar(text: str, names: Mapping[str, int], locate: Locate, stored: bool = True, floats: bool = False) -> ScalarType:
    """`i8`, `u(WIDTH)`, or one of two by a condition. floats: whether it may be a floating format.

    Raises UserError E0110 for anything else, or for a width that storage does not have.
    """
    expr = parse_expr(text, locate)
    if isinstance(expr, Name) and expr.id in FLOATS and not floats:
        raise fail("E0110", f"an integer stands here, not {expr.id}", expr.span, "write i8, u16 or i(WIDTH); semantics read bits with from_bits")
    return scalar_of(expr, names, stored)


def scalar_of(expr: Expr, names: Mapping[str, int], stored: bool = True, known: Mapping[str, ElementType] | None = None) -> ScalarType:
    """The scalar an expression spells; `known`: declared types, for the spelling of an unknown name."""
    match expr:
        case Name(id=name) if name in FLOATS:
            return FLOATS[name]
        case Name(id=name) if name[:1] in ("i", "u") and name[1:].isdigit() and len(name) < 5:
            sign, bits = name[0], int(name[1:])
        case Call(function=Name(id=("i" | "u") as sign), args=(width,)):
            bits = constant(width, names)
        case Choose(condition=condition, then=then, other=other):
            return scalar_of(then if constant(condition, names) else other, names, stored, known)
        case Name(id=name):
            raise fail("E0110", f"unknown type '{name}'", expr.span, nearest(name, known or ()) or "write i8, u16, i(WIDTH) or i8[ROWS, COLUMNS]")
        case _:
            raise fail("E0110", "this is not a type", expr.span, "write i8, u16, i(WIDTH) or i8[ROWS, COLUMNS]")
    if stored and bits not in STORED_BITS:
        raise fail("E0110", f"a stored scalar has 8, 16, 32 or 64 bits, not {bits}", expr.span)
    if not 1 <= bits <= 64:
        raise fail("E0110", f"a bit field has 1 to 64 bits, not {bits}", expr.span)
    return ScalarType(sign == "i", bits)


def parse_element(text: str, names: Mapping[str, int], locate: Locate, known: Mapping[str, ElementType] | None = None) -> ElementType:
    """A scalar type, with dimensions or without. Raises UserError E0110 for more than MAX_LANES lanes."""
    expr = parse_expr(text, locate)
    if not isinstance(expr, Index):
        return ElementType(scalar_of(expr, names, known=known))
    dims = tuple(constant(d, names) for d in expr.index)
    if any(d < 1 for d in dims) or math.prod(dims) > MAX_LANES:
        raise fail("E0110", f"dimensions {list(dims)} do not make 1 to {MAX_LANES} lanes", expr.span)
    return ElementType(scalar_of(expr.base, names, known=known), dims)


__all__ = ["parse_element", "parse_scalar", "scalar_of"]
