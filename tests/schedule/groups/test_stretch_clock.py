"""The clock of stretches: a stretch that is all of a region takes as long as the region's program."""

import pytest

from tests.schedule.fusion import fused_chains
from tests.schedule.groups.tall_regions import scheduled, short_machine
from tests.schedule.groups.test_search import CHAINS
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.find_schedule import plan_region
from toolchain.schedule.form.plan import Plan
from toolchain.schedule.form.realise import realise
from toolchain.schedule.form.schedule import Schedule
from toolchain.schedule.groups.stretch_clock import StretchClock
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.program import turned
from toolchain.schedule.regions.region import Region
from toolchain.schedule.tile_choice import TileChoice
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

VTA = load_machine("vta")


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
