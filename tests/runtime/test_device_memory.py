"""Buffers never overlap, begin where every view can address them, and come back when they are freed.

Kernels of records: made once, in DRAM once, on chip while they were used last.
"""

import contextlib
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.runtime.device_memory import DeviceBuffer, DeviceMemory, RecordCache, Records, residency_of
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine

MACHINE = load_machine("vta", overrides={"LOG_DRAM": "16"})


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20000)), max_size=30))
def test_any_order_of_allocations(actions: list[tuple[bool, int]]) -> None:
    memory, held = DeviceMemory(MACHINE), list[DeviceBuffer]()
    for free, number in actions:
        if free and held:
            memory.free(held.pop(number % len(held)))
        else:
            with contextlib.suppress(UserError):  # no gap is large enough
                held.append(memory.allocate(number))
    spans = sorted((b.address, b.address + max(b.bytes, 1)) for b in held)
    assert all(stop <= start for (_, stop), (start, _) in pairwise(spans))
    assert all(start >= 4096 and stop <= 1 << 16 for start, stop in spans)
    assert all(b.at(view) * MACHINE.view[view].unit == b.address for b in held for view in ("dram.uop", "dram.inp", "dram.wgt", "dram.acc"))
    assert memory.used == sum(b.bytes for b in held)


def test_what_is_freed_is_given_again() -> None:
    memory = DeviceMemory(MACHINE)
    first, second = memory.allocate(50000), None
    with pytest.raises(UserError, match="E1120"):
        second = memory.allocate(20000)
    assert second is None
    memory.free(first)
    assert memory.allocate(50000).address == first.address


def test_buffers_that_are_not_there() -> None:
    memory = DeviceMemory(MACHINE)
    buffer = memory.allocate(64)
    memory.free(buffer)
    with pytest.raises(UserError, match="E1121"):
        memory.free(buffer)
    other = memory.allocate(64)
    with pytest.raises(UserError, match="E1121"):
        memory.check(buffer)
    with pytest.raises(UserError, match="E1121 bytes 60 to 70 are outside the buffer's 64"):
        memory.check(other, 60, 10)
    for view, element in (("dram.inp", 4), ("dram.inp", -1), ("inp", 0), ("nowhere", 0)):
        with pytest.raises(UserError, match="E1121"):
            other.at(view, element)


KERNEL_MACHINE = load_machine("vta", overrides={"LOG_UOP_BUFF": "8"})
DEPTH = 64


class Store:
    """DRAM that remembers what was put into it."""

    def __init__(self) -> None:
        self.memory, self.placed = DeviceMemory(KERNEL_MACHINE), list[bytes]()

    def __call__(self, content: bytes) -> DeviceBuffer:
        self.placed.append(content)
        return self.memory.allocate(len(content))


def cache() -> tuple[RecordCache, Store]:
    store, residency = Store(), residency_of(KERNEL_MACHINE, load_kernels(MACHINE))
    assert residency is not None
    return RecordCache(residency, store), store


def kernel(held: RecordCache, first: int, count: int) -> Records:
    return held.make([{"dst": first + k, "src": k, "wgt": 1} for k in range(count)])


def test_records_are_the_machine_s_bit_fields() -> None:
    held, _ = cache()
    words = np.frombuffer(kernel(held, 5, 3).content, "<u4").tolist()
    assert words == [5 + k | k << 11 | 1 << 22 for k in range(3)]


def test_the_least_recently_used_kernel_is_swapped_out() -> None:
    held, store = cache()
    a, b, c = (kernel(held, first, DEPTH // 2) for first in (0, 100, 200))
    fetched = [bool(held.need([each])) for each in (a, b, a, c, a, b, a)]
    assert fetched == [True, True, False, True, False, True, False]
    assert held.fetches == 4
    assert store.placed == [a.content, b.content, c.content]


def test_the_fetch_names_where_it_stands() -> None:
    held, _ = cache()
    a, b = kernel(held, 0, 10), kernel(held, 100, 4)
    lines = held.need([a, b, a]).splitlines()
    assert len(lines) == 2
    base = held.stored[b.content].at("dram.uop")
    assert lines[1].split() == f"LOAD memory_type=uop sram_base=10 dram_base={base} y_size=1 x_size=4 x_stride=4".split()
    assert [held.address(where) for where in (a.first, a.stop, b.first, b.first + 2, b.stop)] == [0, 10, 10, 12, 14]


def test_machines_without_records_have_no_residency() -> None:
    machine = load_machine("dpuv3")
    assert residency_of(machine, load_kernels(machine)) is None
