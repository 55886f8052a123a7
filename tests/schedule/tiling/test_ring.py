"""A ring: tiles inside, apart from what is still held, the oldest room first, and its last use is known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operations import made
from tests.schedule.convolutions import convolution
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.problem import state_problem
from toolchain.schedule.tiling.ring import Ring, Tiles, find_rings

STEPS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), max_size=40)


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
