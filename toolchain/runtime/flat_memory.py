"""A run of a program whose data stands in one block of memory: ranges written, the program run, ranges read."""

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

from toolchain.abi.dram_map import DramMap
from toolchain.runtime.device import ByteRange, Bytes, Ran


def run_in(
    memory: Bytes,
    held: DramMap,
    writes: Mapping[ByteRange, Bytes],
    reads: Sequence[ByteRange],
    execute: Callable[[], object],
    launch: Callable[[], object] = lambda: None,
) -> Ran:
    """held: where the segments stand in the memory. launch: what comes before each execution, and is timed apart. Raises what these two raise."""
    start = perf_counter()
    for where, data in writes.items():
        _at(memory, held, where)[:] = data
    ready = perf_counter()
    launch()
    launched = perf_counter()
    execute()
    ended = perf_counter()
    found = tuple(_at(memory, held, where).copy() for where in reads)
    return Ran(found, ready - start + perf_counter() - ended, launched - ready, ended - launched)


def _at(memory: Bytes, held: DramMap, where: ByteRange) -> Bytes:
    first = held.segments[where.segment].address + where.offset
    return memory[first : first + where.bytes]
