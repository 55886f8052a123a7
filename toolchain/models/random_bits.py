"""Random integers that depend on a key and a position alone: the same on every machine, whatever numpy's version."""

import hashlib

import numpy as np

Words = np.typing.NDArray[np.uint64]
Bell = np.typing.NDArray[np.int16]
BELL_SQUARE = 4 * (256 * 256 - 1) / 12
"""Mean square of `bell`: four bytes, each of variance (256**2 - 1) / 12."""
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
_EVEN_BYTES = np.uint64(0x00FF00FF00FF00FF)
_CHUNK = 1 << 14


def key_of(*parts: str | int) -> int:
    """64 bits from names and numbers."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:8], "little")


def words(key: int, start: int, count: int) -> Words:
    """Words start .. start + count of the key's sequence: SplitMix64, a counter put through a mixing function."""
    value = np.arange(start + 1, start + count + 1, dtype=np.uint64)
    value *= _STEP
    value += np.uint64(key)
    for shift, factor in _MIX:
        value ^= value >> shift
        value *= factor
    value ^= value >> np.uint64(31)
    return value


def signed_bytes(key: int, count: int) -> np.typing.NDArray[np.int8]:
    """`count` numbers from -128 to 127, all alike likely."""
    return words(key, 0, -(-count // 8)).astype("<u8", copy=False).view(np.int8)[:count]


def bell(key: int, count: int) -> Bell:
    """`count` numbers from -510 to 510, bell-shaped around 0 with a deviation of 148: sums of four bytes."""
    found = np.empty(-(-count // 4), "<u8")
    for start in range(0, len(found), _CHUNK):  # pieces that stay in the processor's cache
        size = min(_CHUNK, len(found) - start)
        both = words(key, 2 * start, 2 * size)
        pairs = both & _EVEN_BYTES
        pairs += (both >> np.uint64(8)) & _EVEN_BYTES
        np.add(pairs[:size], pairs[size:], out=found[start : start + size])
    numbers = found.view("<i2").astype(np.int16, copy=False)[:count]
    numbers -= 510
    return numbers
