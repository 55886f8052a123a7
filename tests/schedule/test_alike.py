"""Regions of one form share a search; the schedule of one that was not searched is the one that a search of its own finds."""

from dataclasses import replace

import numpy as np
import pytest

from tests.operations import made
from tests.schedule.convolutions import convolution
from toolchain.abi.dram_map import Shape
from toolchain.schedule import alike
from toolchain.schedule.alike import Asked, Searches, form_of, renamed, search_all
from toolchain.schedule.compile_region import compile_schedule, search_schedule
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Bound, Region
from toolchain.schedule.workers import Workers

SIZE = (1, 32, 8, 8)
MACHINE = made.load_machine("vta")
KERNELS = load_kernels(MACHINE)


def layer(name: str, seed: int, kernel: int = 3) -> Region:
    """Two convolutions whose weights come from the seed."""
    first, second = (
        replace(convolution(SIZE, (32, kernel, kernel), seed + each, 200, pads=(kernel // 2,) * 4), name=f"{name}.{each}") for each in (0, 1)
    )
    names = [f"{name}.{letter}" for letter in "xmy"]
    bound = (Bound(first, {"x": names[0], "y": names[1]}), Bound(second, {"x": names[1], "y": names[2]}))
    return Region(name, dict.fromkeys(names, Shape(*SIZE)), (names[0],), (names[2],), bound, {})


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the regions that are searched."""
    names: list[str] = []

    def counting(*given: object) -> object:
        region = given[2]
        assert isinstance(region, Region)
        names.append(region.name)
        return search_schedule(MACHINE, KERNELS, region, OPTIONS)

    monkeypatch.setattr(alike, "search_schedule", counting)
    return names


OPTIONS = Options(check=False)


def test_a_region_of_the_same_form_takes_the_schedule_that_its_own_search_finds(searched: list[str]) -> None:
    searches, one, other = Searches(), layer("one", 1), layer("other", 7)
    weights, others = (region.operations[0].operation.arrays[region.operations[0].operation.kind.weights] for region in (one, other))
    assert not np.array_equal(weights, others)
    found = [searches.search(MACHINE, KERNELS, region, OPTIONS) for region in (one, other)]
    assert searched == ["one"]
    assert found == [search_schedule(MACHINE, KERNELS, region, OPTIONS) for region in (one, other)]


@pytest.mark.parametrize("options", [replace(OPTIONS, effort=1), replace(OPTIONS, resident=False)])
def test_other_options_are_another_search(options: Options, searched: list[str]) -> None:
    searches = Searches()
    searches.search(MACHINE, KERNELS, layer("one", 1), OPTIONS)
    searches.search(MACHINE, KERNELS, layer("other", 7), options)
    assert searched == ["one", "other"]


def test_shapes_kernels_and_reads_are_the_form() -> None:
    one = layer("one", 1)
    first, second = one.operations
    assert form_of(one) == form_of(layer("other", 7))
    others = [
        layer("one", 1, kernel=1),
        replace(one, outputs=("one.m", "one.y")),
        replace(one, operations=(replace(first, kernel="another"), second)),
        replace(one, operations=(first, replace(second, tensors={"x": "one.x", "y": "one.y"}))),
    ]
    assert len({form_of(each) for each in (one, *others)}) == 1 + len(others)


def test_where_the_schedule_takes_another_time_the_region_is_searched(searched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    searches = Searches()
    searches.search(MACHINE, KERNELS, layer("one", 1), OPTIONS)
    monkeypatch.setattr("toolchain.schedule.alike._Found.program_cycles", lambda _, region, _schedule: len(region.name))
    searches.search(MACHINE, KERNELS, layer("other", 7), OPTIONS)
    assert searched == ["one", "other"]


def test_a_renamed_schedule_has_the_names_of_the_other_region() -> None:
    one, other = layer("one", 1), layer("other", 7)
    schedule = renamed(search_schedule(MACHINE, KERNELS, one, OPTIONS)[0], one, other)
    assert schedule.region == "other"
    assert "one." not in repr(schedule)
    assert compile_schedule(MACHINE, KERNELS, other, schedule, OPTIONS).cycles > 0


def test_two_processes_search_as_one_does() -> None:
    """Two forms, and a region that takes the schedule of the first."""
    regions = [layer("one", 1), layer("wide", 1, kernel=1), layer("other", 7)]
    asked = [Asked(MACHINE, KERNELS, region, Options(effort=1)) for region in regions]
    alone = list(search_all(asked, Workers(1)))
    with Workers(2, patience_seconds=0) as workers:
        assert list(search_all(asked, workers)) == alone
