"""A ring: tiles inside, apart from what is still held, the oldest room first, and its last use is known. Slots that go round: inside the
memory, apart from each other, and not where the last operation's were while there is room. Tiles of operations that run at the same time:
no element is taken twice, and memories filled round and round are left alone."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operations import made
from tests.schedule.convolutions import convolution
from tests.schedule.groups.tall_regions import short_machine
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel_file import load_kernel, load_kernels
from toolchain.schedule.kernels.pools import Slot
from toolchain.schedule.kernels.problem import state_problem
from toolchain.schedule.tiling.slots import Ring, Rotation, SlotsBeside, Tiles, find_rings
from toolchain.schedule.tiling.tiles import Tiling, rank_tilings
from toolchain.spec.load import load_machine

STEPS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), max_size=40)

MACHINE = load_machine("vta")
KERNEL = load_kernel(MACHINE, "conv2d")
SHAPES = [(16, 6), (32, 10), (64, 14), (256, 14)]
PROBLEMS = [state_problem(MACHINE, KERNEL, convolution((1, c, s, s), (c, 3, 3), pads=(1, 1, 1, 1))) for c, s in SHAPES]
TILINGS = [rank_tilings(problem, 2, 1)[0] for problem in PROBLEMS]
MEMORY_OF = {p.name: p.memory for p in KERNEL.places}

SHORT_MACHINE, KERNELS = short_machine()
PROBLEM = choose_kernel(SHORT_MACHINE, KERNELS, convolution((4, 16, 40, 6), (16, 3, 3), 0, 8), ("x",))


@given(STEPS, st.integers(12, 30))
def test_tiles_stay_inside_and_room_is_taken_over_after_its_last_use(steps: list[tuple[str, int]], depth: int) -> None:
    tiles, sizes, counts = Tiles(Ring(depth)), {"a": 3, "b": 5}, {"a": 2, "b": 1}
    used: dict[int, int] = {}
    for now, (place, key) in enumerate(steps):
        slot, freed = tiles.use(place, (key,), sizes[place], counts[place], now)
        cells = range(slot.address, slot.address + sizes[place])
        assert cells.start >= 0
        assert cells.stop <= depth
        if freed is not None:
            assert freed >= max(used.get(cell, -1) for cell in cells)
        held = [range(at, at + size) for at, size, _ in tiles.held.values()]
        assert len({cell for cells in held for cell in cells}) == sum(map(len, held))
        used |= dict.fromkeys(cells, now)


def test_a_tile_that_is_there_is_not_loaded_again() -> None:
    tiles = Tiles(Ring(10))
    first = tiles.use("w", (0,), 3, 2, 0)
    assert first == (tiles.use("w", (0,), 3, 2, 1)[0], -1)
    assert tiles.use("w", (0,), 3, 2, 2)[1] is None


def test_operations_go_on_where_the_last_one_stopped() -> None:
    ring = Ring(10)
    assert Tiles(ring).use("w", (0,), 4, 2, 0)[0].address == 0
    assert Tiles(ring).use("w", (0,), 4, 2, 0)[0].address == 4
    assert Tiles(ring).use("w", (0,), 4, 2, 0)[0].address == 0


def test_another_place_is_gone_round_and_kept() -> None:
    tiles = Tiles(Ring(10))
    assert tiles.use("bias", (), 2, 1, 0)[0].address == 0
    found = [tiles.use("w", (k,), 3, 2, k)[0].address for k in range(4)]
    assert found == [2, 5, 2, 5]
    assert tiles.use("bias", (), 2, 1, 5)[1] is None


@pytest.mark.parametrize(("name", "wanted"), [("vta", []), ("dpuv3", ["pm"])])
def test_memories_that_hold_constants_alone_are_rings_unless_records_name_their_slots(name: str, wanted: list[str]) -> None:
    machine = made.load_machine(name)
    problem = state_problem(machine, load_kernels(machine)["conv2d"], convolution((4, 16, 8, 8), (16, 3, 3)))
    assert list(find_rings([problem])) == wanted


def taken(number: int, rotation: Rotation) -> list[tuple[str, int, int]]:
    """Memory, start and end of every slot."""
    (turned,) = rotation.turn([(PROBLEMS[number], TILINGS[number])])
    assert turned.slots == TILINGS[number].slots
    return [(MEMORY_OF[name], slot.address, slot.address + turned.room[name]) for name, held in turned.places.items() for slot in held]


@given(st.lists(st.integers(0, len(SHAPES) - 1), max_size=8))
def test_slots_stay_inside_and_apart(numbers: list[int]) -> None:
    rotation = Rotation()
    for number in numbers:
        found = sorted(taken(number, rotation))
        assert all(stop <= sum(MACHINE.memory[memory].depths) for memory, _, stop in found)
        assert all(a[0] != b[0] or a[2] <= b[1] for a, b in pairwise(found))


def test_the_next_operation_starts_where_the_last_one_ended() -> None:
    rotation = Rotation()
    first, second = taken(0, rotation), taken(0, rotation)
    assert all(a[0] != b[0] or a[2] <= b[1] or b[2] <= a[1] for a in first for b in second)


def test_what_does_not_fit_behind_goes_on_at_the_start() -> None:
    rotation = Rotation()
    first, second = ([(start, stop) for memory, start, stop in taken(3, rotation) if memory == "acc"] for _ in range(2))
    assert second[0][0] == first[-1][1]
    assert second[1][0] == 0
    assert second[0][1] + (second[1][1] - second[1][0]) > sum(MACHINE.memory["acc"].depths)


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
