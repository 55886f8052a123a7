"""Room for elements of a view as floats in another order, kept from their first use to the end of the instruction: a table by address."""

from collections.abc import Sequence
from dataclasses import dataclass

from toolchain.spec.model import View

ROOM, MOST = 1 << 21, 4096
"""Bytes for the packed elements of a view, and their greatest number."""
SLOT = 12
"""Of the scratch memory."""

Key = tuple[str, str, tuple[int, ...], int, int]
"""View, stored format, order of its lanes, terms, sums: what packed elements follow from."""


@dataclass(frozen=True, slots=True)
class Pack:
    """Room for packed elements of a view: [slots, terms, sums] floats."""

    number: int
    view: View
    terms: int
    sums: int

    @property
    def slots(self) -> int:
        """A power of two."""
        return 1 << max(min(ROOM // (self.terms * self.sums * 4), MOST), 1).bit_length() - 1

    @property
    def bytes(self) -> int:
        """The size of keys and elements together, in whole lines of a cache."""
        return (self.slots * (8 + self.terms * self.sums * 4) + 63) // 64 * 64

    @property
    def name(self) -> str:
        """The C array of keys; that of elements is called the same with an `s` behind."""
        return f"tw_pack{self.number}"


def pack_names(packs: Sequence[Pack]) -> list[str]:
    """Declarations at the start of an instruction: no element is packed yet."""
    if not packs:
        return []
    lines = [f"uint8_t *const tw_packs = tw_scratch(c, {SLOT}, {sum(pack.bytes for pack in packs)});", "if (tw_fault) return;"]
    at = 0
    for pack in packs:
        lines.append(f"int64_t *const {pack.name} = (int64_t *)(tw_packs + {at}); float *const {pack.name}s = (float *)({pack.name} + {pack.slots});")
        lines.append(f"memset({pack.name}, -1, {pack.slots * 8});")
        at += pack.bytes
    return lines
