"""Parts of a large memory that were ever touched, so that two memories compare without reading gigabytes of zeros."""

import mmap
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

PAGES = "/proc/self/pagemap"
"""Eight bytes for each page of this process; the two highest bits: it is in memory, it is swapped out."""
HELD = np.uint64(3 << 62)

Bytes = NDArray[np.uint8]


def touched(memory: Bytes) -> list[tuple[int, int]]:
    """Ranges [start, stop) of a state's memory, instances end to end, ascending: what lies outside is zero, as it was made.

    All of it where the system does not tell.
    """
    flat = memory.reshape(-1)
    witness, pages = _held(np.ones(mmap.PAGESIZE, np.uint8)), _held(flat)
    if flat.ctypes.data % mmap.PAGESIZE or pages is None or witness is None or not witness.all():
        return [(0, flat.size)]
    edges = np.flatnonzero(np.diff(pages, prepend=False, append=False)) * mmap.PAGESIZE
    return [(start, min(stop, flat.size)) for start, stop in edges.reshape(-1, 2).tolist()]


def _held(flat: Bytes) -> NDArray[np.bool_] | None:
    """bool, for each page that an array lies in; None where the system does not tell."""
    first, last = flat.ctypes.data // mmap.PAGESIZE, -(-(flat.ctypes.data + flat.size) // mmap.PAGESIZE)
    try:
        entries = np.fromfile(PAGES, np.uint64, last - first, offset=8 * first)
    except OSError:
        return None
    return (entries & HELD) != 0 if len(entries) == last - first else None


def first_difference(one: Bytes, other: Bytes) -> tuple[int, int] | None:
    """Instance and byte of the first difference of two states' memories [instances, bytes] of one shape; None where both are equal."""
    flat = one.reshape(-1), other.reshape(-1)
    for start, stop in sorted({*touched(one), *touched(other)}):
        found = _first(flat, start, stop)
        if found is not None:
            instance, byte = divmod(found, one.shape[1])
            return instance, byte
    return None


def _first(flat: Sequence[Bytes], start: int, stop: int) -> int | None:
    """The first byte of a range that differs, looked for a few megabytes at a time."""
    for low, high in pairwise([*range(start, stop, 1 << 22), stop]):
        differs = flat[0][low:high] != flat[1][low:high]
        if differs.any():
            return low + int(np.argmax(differs))
    return None
