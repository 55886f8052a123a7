"""The clock of stretches: a stretch that is all of a region takes as long as the region's program. Groups chosen by exact time are no slower
than what the estimate chooses, nor than none."""

from dataclasses import replace
from functools import cache
from unittest import mock

import pytest

from tests.operations import made
from tests.schedule.convolutions import convolution
from tests.schedule.groups.tall_regions import scheduled, short_machine, tall_region
from tests.schedule.groups.test_search import CHAINS, chained
from tests.schedule.tiling import fused_chains
from toolchain.schedule import planner
from toolchain.schedule.compile_operation import TileChoice
from toolchain.schedule.compile_region import compile_region, find_groups, plan_region
from toolchain.schedule.form.plan import Plan, Schedule
from toolchain.schedule.form.realise import realise
from toolchain.schedule.groups import members, rings, timed
from toolchain.schedule.groups.timed import StretchClock
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.program import CompiledRegion, turned
from toolchain.schedule.regions.region import Region
from toolchain.schedule.tiling.tile_group import TileGroup
from toolchain.schedule.tiling.tile_search import Tiled, search_tiles
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

VTA = load_machine("vta")

ESTIMATED, APART = Options(check=False, timed_groups=False), Options(check=False, grouped=False)


def assert_as_long(machine: Machine, kernels: dict[str, Kernel], region: Region, schedule: Schedule) -> None:
    plan = realise(machine, kernels, region, schedule)
    built = compile_region(machine, kernels, region, Options(check=False), schedule)
    assert turned(plan).tilings == plan.tilings
    assert StretchClock(machine, TileChoice(2, 1)).cycles(plan, range(len(plan.problems))) == built.cycles


@pytest.mark.parametrize("name", ["conv -> conv", "branches"])
def test_a_group_over_rows_takes_as_long_as_its_program(name: str) -> None:
    assert_as_long(*short_machine(), CHAINS[name], scheduled(CHAINS[name]))


@pytest.mark.parametrize("name", ["conv -> add -> pool", "also needed elsewhere"])
def test_a_group_over_tiles_takes_as_long_as_its_program(name: str) -> None:
    region = fused_chains.CHAINS[name]
    assert_as_long(VTA, dict(load_kernels(VTA)), region, fused_chains.scheduled(region))


def plan_of(name: str) -> Plan:
    return plan_region(*short_machine(), CHAINS[name], Options(grouped=False))


def test_what_was_timed_is_known() -> None:
    plan, clock = plan_of("residual"), StretchClock(short_machine()[0], TileChoice(2, 1))
    assert clock.work(plan, range(5)) > clock.work(plan, range(1, 3)) > 0
    cycles = clock.cycles(plan, range(1, 3))
    assert clock.work(plan, range(1, 3)) == 0
    assert clock.work(plan, range(2, 4)) > 0
    assert clock.cycles(plan, range(1, 3)) == cycles < clock.cycles(plan, range(5))


@cache
def built(name: str, options: Options | None = None) -> CompiledRegion:
    """A chain, as one group or as the options have it."""
    return compile_region(*short_machine(), CHAINS[name], options)


@pytest.mark.parametrize("name", ["conv -> add", pytest.param("strided", marks=pytest.mark.nightly), "branches"])
def test_groups_are_no_slower_than_others(name: str) -> None:
    found = built(name)
    assert found.cycles <= built(name, ESTIMATED).cycles
    assert found.cycles < built(name, APART).cycles
    assert [len(group.operations) for group in found.schedule.groups] == [len(CHAINS[name].operations)]


def test_an_estimate_that_likes_any_group_is_not_believed() -> None:
    machine, region = load_machine("vta"), fused_chains.CHAINS["conv -> add -> pool"]
    kernels, liked = dict(load_kernels(machine)), fused_chains.scheduled(region)
    apart = compile_region(machine, kernels, region, APART)
    assert len(liked.groups) == 1
    assert compile_region(machine, kernels, region, Options(check=False), liked).cycles > apart.cycles
    with mock.patch.object(members, "search_tiles", side_effect=_cheap):
        assert compile_region(machine, kernels, region, ESTIMATED).schedule == liked
        assert compile_region(machine, kernels, region, Options(check=False)).schedule == apart.schedule


def _cheap(group: TileGroup, contexts: int, streams: int = 1) -> Tiled | None:
    """A group's tiles, as if they took a little less time than they do."""
    found = search_tiles(group, contexts, streams)
    return replace(found, cycles=0.9 * found.cycles) if found else None


def test_slabs_in_advance_are_timed() -> None:
    region = tall_region(4, 7)
    assert region is not None
    found, estimated = (compile_region(*short_machine(quick=True), region, options) for options in (None, ESTIMATED))
    assert [group.ahead for group in found.schedule.groups] != [group.ahead for group in estimated.schedule.groups]
    assert found.cycles < 0.9 * estimated.cycles


def test_the_estimate_decides_where_timing_is_too_much_work() -> None:
    with mock.patch.multiple(timed, SHARE=0.0, LEAST=0):
        found = compile_region(*short_machine(), CHAINS["branches"], Options(check=False))
    assert found.schedule == built("branches", ESTIMATED).schedule


def stem() -> Region:
    """A convolution, a pool whose windows have a row in common, and a pointwise convolution, as SqueezeNet begins."""
    first = convolution((1, 3, 113, 227), (64, 3, 3), 0, 50, low=0, high=127, strides=(2, 2))
    pool = made.max_pool("pool", first.output, made.Window((3, 3), (2, 2), (0, 0, 0, 0)))
    last = convolution(pool.output, (16, 1, 1), 2, 50, low=0, high=127)
    return chained(first.input("x"), (first, {"x": "t"}), (pool, {"x": "t0"}), (last, {"x": "t1"}))


def test_lines_are_made_again_only_where_the_program_is_quicker_so() -> None:
    """The estimate, which does not see how long the convolution waits for room in its ring, is no reason to do so."""
    machine, region = load_machine("dnnvm"), stem()
    kernels = dict(load_kernels(machine))
    with mock.patch.object(planner, "sure", side_effect=list):
        estimated = find_groups(machine, kernels, region, ESTIMATED)
    assert any(proposal.again for proposal in estimated.chosen)
    assert not any(proposal.again for proposal in find_groups(machine, kernels, region, ESTIMATED).chosen)
    found = compile_region(machine, kernels, region, Options(check=False))
    with mock.patch.object(rings.RingPlaces, "_made_again", return_value=iter(())):
        once = compile_region(machine, kernels, region, Options(check=False))
    assert any(buffer.overlap for buffer in found.schedule.buffers) == (found.cycles < once.cycles)
    assert found.cycles <= once.cycles
