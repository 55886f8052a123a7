"""Buffers never overlap, begin where every view can address them, and come back when they are freed."""

import contextlib
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.runtime.device_memory import Buffer, DeviceMemory
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine

MACHINE = load_machine("vta", overrides={"LOG_DRAM": "16"})


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20000)), max_size=30))
def test_any_order_of_allocations(actions: list[tuple[bool, int]]) -> None:
    memory, held = DeviceMemory(MACHINE), list[Buffer]()
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
