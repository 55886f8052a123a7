import numpy as np
import pytest

from tests.verify.regions import small
from toolchain.report.region_use import covered, use_region


@pytest.mark.parametrize(
    ("ranges", "count"),
    [([], 0), ([(2, 5)], 3), ([(2, 5), (2, 5)], 3), ([(4, 9), (0, 2), (1, 6)], 9), ([(0, 10), (1, 2), (3, 4), (12, 13)], 11), ([(0, 2), (2, 3)], 3)],
)
def test_ranges_that_overlap_count_once(ranges: list[tuple[int, int]], count: int) -> None:
    start, stop = (np.array([pair[k] for pair in ranges], np.int64) for k in (0, 1))
    assert covered(start, stop) == count


def test_operations_share_the_cycles_and_the_instructions() -> None:
    tested, _ = small()
    found = use_region(tested)
    early, late = found.operations
    assert (early.operation, late.operation) == ("early", "late")
    assert (early.macs, late.macs) == (17 * 30 * 20 * 9, 24 * 30 * 17)
    assert early.instructions + late.instructions == int((tested.owner >= 0).sum())
    assert early.cycles + late.cycles <= found.cycles
    assert found.cycles - early.cycles - late.cycles < 100
    assert 0 < found.bound <= found.cycles
    assert found.images == 1


def test_an_operation_cannot_beat_the_peak_of_the_unit_that_it_keeps() -> None:
    found = use_region(small()[0])
    assert {use.unit for use in found.operations} <= {"load", "compute", "store"}
    assert all(0 < use.busy <= found.bound for use in found.operations)
    assert all(use.macs <= 256 * use.busy for use in found.operations)


def test_bytes_and_room_follow_from_the_footprints() -> None:
    tested, _ = small()
    found = use_region(tested)
    rooms = {room.memory: room for room in found.memories}
    assert set(rooms) == {"dram", "uop", "inp", "wgt", "acc"}
    assert not rooms["dram"].on_chip
    assert rooms["dram"].written == (2 + 2) * 30 * 16
    assert sum(use.bytes for use in found.operations) == rooms["dram"].read + rooms["dram"].written
    assert all(0 < room.used <= room.of for room in rooms.values())
    assert rooms["wgt"].used <= rooms["wgt"].written
    assert any(basis.assumed for basis in found.constants)
