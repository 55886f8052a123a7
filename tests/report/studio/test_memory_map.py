"""Memory over time: rectangles cover the lives of data, and each has the operation that wrote it."""

import numpy as np
import pytest

from bench.browser import unpacked
from toolchain.report.studio.memory_map import Rectangles, map_data, memory_maps
from toolchain.report.studio.regions import StudioRegion
from toolchain.timing.trace import Lives, lives_of


@pytest.fixture
def region(regions: list[StudioRegion]) -> StudioRegion:
    return regions[0]


def covers(found: Rectangles, lives: Lives, number: int) -> bool:
    """Whether a rectangle of the same operation is around a life."""
    inside = (found.begin <= lives.begin[number]) & (lives.stop[number] <= found.stop)
    return bool((inside & (found.low <= lives.low[number]) & (lives.high[number] <= found.high)).any())


@pytest.mark.parametrize("most", [1 << 20, 0])
def test_every_life_is_in_a_rectangle(region: StudioRegion, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolchain.report.studio.memory_map.MOST", most)
    maps = list(memory_maps(region.tested))
    assert maps
    for found, (memory, lives) in zip(maps, lives_of(region.timeline), strict=True):
        assert found.memory == memory.name
        assert all(covers(found, lives, number) for number in range(len(lives.begin)))
        assert len(found.begin) <= len(lives.begin)


def test_a_rectangle_has_the_operation_of_its_writer(region: StudioRegion) -> None:
    names = [bound.operation.name for bound in region.tested.region.operations]
    for found in memory_maps(region.tested):
        for operation, name in zip(found.operation.tolist(), found.name.tolist(), strict=True):
            text = str(found.names[int(name)])
            assert text.startswith(f"{names[operation]}: ") if operation >= 0 else text in ("", "there before the program")


def test_data_is_in_the_order_of_time(region: StudioRegion) -> None:
    for found in memory_maps(region.tested):
        columns = {name: unpacked(column) for name, column in map_data(found)["columns"].items()}
        begin = np.cumsum(columns["step"].astype(np.int64)) / 1000
        assert (np.diff(begin) >= 0).all()
        drawn = sorted(zip(begin, begin + columns["length"], columns["low"], columns["high"], columns["name"], strict=True))
        assert drawn == sorted(zip(found.begin, found.stop, found.low, found.high, found.name, strict=True))
