"""Groups chosen by exact time are no slower than what the estimate chooses, nor than none."""

from dataclasses import replace
from unittest import mock

import pytest

from tests.schedule.fusion import fused_chains
from tests.schedule.groups.tall_regions import short_machine, tall_region
from tests.schedule.groups.test_search import CHAINS
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.schedule.fusion.tile_group import TileGroup
from toolchain.schedule.fusion.tile_search import Tiled, search_tiles
from toolchain.schedule.groups import fused, timed
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Region
from toolchain.spec.load import load_machine

ESTIMATED, APART = Options(check=False, timed_groups=False), Options(check=False, grouped=False)


def built(region: Region, options: Options | None = None) -> CompiledRegion:
    return compile_region(*short_machine(), region, options)


@pytest.mark.parametrize("name", ["conv -> add", "strided", "branches"])
def test_groups_are_no_slower_than_others(name: str) -> None:
    found = built(CHAINS[name])
    assert found.cycles <= built(CHAINS[name], ESTIMATED).cycles
    assert found.cycles < built(CHAINS[name], APART).cycles
    assert [len(group.operations) for group in found.schedule.groups] == [len(CHAINS[name].operations)]


def test_an_estimate_that_likes_any_group_is_not_believed() -> None:
    machine, region = load_machine("vta"), fused_chains.CHAINS["conv -> add -> pool"]
    kernels, liked = dict(load_kernels(machine)), fused_chains.scheduled(region)
    apart = compile_region(machine, kernels, region, APART)
    assert len(liked.groups) == 1
    assert compile_region(machine, kernels, region, Options(check=False), liked).cycles > apart.cycles
    with mock.patch.object(fused, "search_tiles", side_effect=_cheap):
        assert compile_region(machine, kernels, region, ESTIMATED).schedule == liked
        assert compile_region(machine, kernels, region, Options(check=False)).schedule == apart.schedule


def _cheap(group: TileGroup, contexts: int) -> Tiled | None:
    """A group's tiles, as if they took a little less time than they do."""
    found = search_tiles(group, contexts)
    return replace(found, cycles=0.9 * found.cycles) if found else None


def test_slabs_in_advance_are_timed() -> None:
    region = tall_region(4, 7)
    assert region is not None
    found, estimated = (compile_region(*short_machine(quick=True), region, options) for options in (None, ESTIMATED))
    assert [group.ahead for group in found.schedule.groups] != [group.ahead for group in estimated.schedule.groups]
    assert found.cycles < 0.9 * estimated.cycles


def test_the_estimate_decides_where_timing_is_too_much_work() -> None:
    with mock.patch.multiple(timed, SHARE=0.0, LEAST=0):
        found = built(CHAINS["branches"], Options(check=False))
    assert found.schedule == built(CHAINS["branches"], ESTIMATED).schedule
