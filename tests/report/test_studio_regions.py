"""Memory over time: rectangles cover the lives of data, and each has the operation that wrote it.

Regions of a page: the program's own bytes and schedule, and the searches' records.
"""

import numpy as np
import pytest

from bench.browser import unpacked
from toolchain.report.measured_times import read_profile
from toolchain.report.studio_regions import (
    Rectangles,
    StudioRegion,
    group_text,
    map_data,
    measured_regions,
    memory_maps,
    regions_data,
    slots_text,
    tile_text,
)
from toolchain.schedule.form.plan import Cut, Group, ScheduledOperation, Share
from toolchain.spec.errors import Source, UserError
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
    monkeypatch.setattr("toolchain.report.studio_regions.MOST", most)
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


def test_each_region_has_its_schedule_and_its_search(regions: list[StudioRegion]) -> None:
    assert [region.name for region in regions] == [region.schedule.region for region in regions] == ["region0", "region1"]
    assert (regions[0].search, regions[0].taken) == ((), "")
    assert (regions[1].search, regions[1].taken) == ((("greedy", 7), ("worse", None)), "greedy")


def test_bytes_are_those_of_the_program(regions: list[StudioRegion]) -> None:
    for region, data in zip(regions, regions_data(regions), strict=True):
        assert bytes.fromhex("".join(data["hex"])) == b"".join(region.tested.program.streams)
        assert len(data["text"]) == len(region.tested.program)


def test_a_profile_is_laid_over_its_region(regions: list[StudioRegion]) -> None:
    profile = read_profile(Source("p.csv", "region,instruction,start_cycles,end_cycles,stalls\nregion1,0,500,600,7\nregion1,1,600,900,8\n"))
    first, second = measured_regions(regions, profile)
    assert first is regions[0]
    assert second.table
    assert [operation.counters for operation in second.table.operations] == [(15.0,)]
    plain, measured = regions_data(regions)[1], regions_data([first, second])[1]
    assert [lane[2] for lane in measured["lanes"]].count("measured") == len(plain["lanes"])
    assert measured["hex"] == plain["hex"] + plain["hex"][:2]
    assert measured["maps"] == plain["maps"]


def test_a_profile_of_another_build_is_refused(regions: list[StudioRegion]) -> None:
    with pytest.raises(UserError, match=r"E1128 the bundle has no program .region9.; known: region0, region1"):
        measured_regions(regions, read_profile(Source("p.csv", "region,instruction,start_ns\nregion9,0,5\n")))


def test_listings_are_left_out_where_there_is_no_room(regions: list[StudioRegion], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolchain.report.studio_regions.MOST_LISTED", len(regions[0].tested.program))
    first, second = regions_data(regions)
    assert "text" in first
    assert "hex" in first
    assert "text" not in second
    assert "hex" not in second


def test_texts_of_a_schedule() -> None:
    operation = ScheduledOperation(0, "c", "conv", (Cut("oc", 2), Cut("oh", 4)), {"x": 2, "w": ()}, {})
    assert tile_text(operation) == "oc 2, oh 4"
    assert slots_text(operation) == "x 2, w 0"
    assert group_text(Group((operation,))) == "one operation"
    assert group_text(Group((operation, operation), ahead=1, streams=(Share(0, 3), Share(2, 3)))) == (
        "loop over rows, 2 operations, 1 slabs ahead, on streams 0, 2"
    )
