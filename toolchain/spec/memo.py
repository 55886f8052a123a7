"""Answers that are kept as long as the process lives, by a digest of all that they follow from."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

from toolchain.spec.arrays import Array

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Memo(Generic[Answer]):
    """most: answers that are kept, those that were asked for last. Unlike `functools.lru_cache` it keeps the digest in place of the arguments, which
    may be whole networks."""

    most: int
    _held: OrderedDict[str, Answer] = field(default_factory=OrderedDict[str, Answer])
    _lock: Lock = field(default_factory=Lock)

    def of(self, key: str, make: Callable[[], Answer]) -> Answer:
        """The answer for the key, made where it is not known; nothing is kept that `make` raises. key: see `digest_of_parts`; empty for no digest."""
        if not key:
            return make()
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        found = make()
        with self._lock:
            self._held[key] = found
            while len(self._held) > self.most:
                self._held.popitem(last=False)
        return found


def digest_of_parts(parts: Iterable[bytes | memoryview]) -> str:
    """SHA-256 in hex of the parts and of where each one ends."""
    found = hashlib.sha256()
    for part in parts:
        found.update(hashlib.sha256(part).digest())
    return found.hexdigest()


def array_parts(arrays: Mapping[str, Array]) -> Iterator[bytes]:
    """Names, types, shapes and elements of arrays, as parts of a digest; of objects their texts."""
    for name, array in sorted(arrays.items()):
        yield f"{name} {array.dtype.str} {array.shape}".encode(errors="surrogateescape")
        yield repr(array.tolist()).encode(errors="surrogateescape") if array.dtype.hasobject else array.tobytes()
