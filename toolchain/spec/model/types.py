"""The elements that addresses hold: scalars, arrays of them, records of bit fields."""

from dataclasses import dataclass


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
        """The byte of every lane when nothing is rearranged."""
        return tuple(range(0, self.bytes, self.scalar.bits // 8))
