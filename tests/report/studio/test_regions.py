"""Regions of a page: the program's own bytes and schedule, and the searches' records."""

import pytest

from toolchain.report.profile.read import read_profile
from toolchain.report.studio.regions import StudioRegion, group_text, measured_regions, regions_data, slots_text, tile_text
from toolchain.schedule.form.schedule import Cut, Group, ScheduledOperation, Share
from toolchain.spec.errors import Source, UserError


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
    monkeypatch.setattr("toolchain.report.studio.regions.MOST_LISTED", len(regions[0].tested.program))
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
