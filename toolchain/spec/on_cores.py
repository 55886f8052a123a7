"""Work that releases the interpreter (products of matrices, runs of ONNX Runtime) on two processors where there are two.

Each piece is computed as it would be alone, and results stand in the order of the pieces: the number of processors changes nothing but the time.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

Piece = TypeVar("Piece")
Made = TypeVar("Made")

MOST = 2
"""Threads at most: pieces hold large arrays, and memory grows with the number of threads."""


def processors() -> int:
    """The number that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def on_cores(make: Callable[[Piece], Made], pieces: Iterable[Piece]) -> list[Made]:
    """The result of `make` for each piece. The first error ends it, and so does an interrupt; pieces that have not begun by then are not made."""
    given = list(pieces)
    count = min(MOST, processors(), len(given))
    if count < 2:
        return [make(piece) for piece in given]
    pool = ThreadPoolExecutor(count)
    try:
        waiting = [pool.submit(copy_context().run, make, piece) for piece in given]
        return [each.result() for each in waiting]
    finally:
        pool.shutdown(cancel_futures=True)


def halves(count: int, least: int) -> Iterator[slice]:
    """Two slices of about the same length; one where they would be shorter than `least`."""
    middle = -(-count // 2) if count >= 2 * least else count
    yield slice(0, middle)
    if middle < count:
        yield slice(middle, count)
