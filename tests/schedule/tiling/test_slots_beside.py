"""Tiles of operations that run at the same time: no element is taken twice, and memories filled round and round are left alone."""

from hypothesis import given
from hypothesis import strategies as st

from tests.schedule.convolutions import convolution
from tests.schedule.groups.tall_regions import short_machine
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.pools import Slot
from toolchain.schedule.tiling.slots_beside import SlotsBeside
from toolchain.schedule.tiling.tiles import Tiling

MACHINE, KERNELS = short_machine()
PROBLEM = choose_kernel(MACHINE, KERNELS, convolution((4, 16, 40, 6), (16, 3, 3), 0, 8), ("x",))


@given(st.lists(st.tuples(st.integers(0, 127), st.integers(1, 60)), max_size=5))
def test_free_room_is_all_but_the_slots(parts: list[tuple[int, int]]) -> None:
    slots = SlotsBeside(())
    for address, room in parts:
        slots.add(PROBLEM, Tiling({}, (), {"x": (Slot(0, address),)}, {"x": room}))
    free = {at for pool in slots.left(PROBLEM)["fm"] if pool.bank == 0 for at in range(pool.start, pool.start + pool.depth)}
    taken = {at for address, room in parts for at in range(address, address + room)}
    assert free == set(range(128)) - taken


def test_memories_that_are_filled_in_turn_are_not_taken() -> None:
    tiling = Tiling({}, (), {"w": (Slot(0, 5),)}, {"w": 9})
    slots, fixed = SlotsBeside({"pm"}), SlotsBeside(())
    for found in (slots, fixed):
        found.add(PROBLEM, tiling)
    assert slots.left(PROBLEM)["pm"] == PROBLEM.pools["pm"]
    assert fixed.left(PROBLEM)["pm"] != PROBLEM.pools["pm"]
