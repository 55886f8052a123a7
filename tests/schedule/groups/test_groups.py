"""Parts of the search for groups: rings that fit, members' slabs and tiles, loads by the row, and groups whose tiles pass on chip."""

import itertools
from dataclasses import replace
from functools import cache

import pytest

from tests.schedule.groups.tall_regions import short_machine
from tests.schedule.groups.test_search import CHAINS, schedule_of
from tests.schedule.tiling import fused_chains
from toolchain.schedule.compile_operation import TileChoice
from toolchain.schedule.compile_region import find_groups, plan_region
from toolchain.schedule.form.realise import realise
from toolchain.schedule.groups.members import LONGEST, Members, TileGroups
from toolchain.schedule.groups.rings import RingPlaces
from toolchain.schedule.groups.search import Grouping, load_cycles
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.rows.row_group import RowGroup
from toolchain.spec.load import load_machine

MACHINE = short_machine()[0]
NAMES = ("conv -> conv", "residual", "branches")


@cache
def grouping(name: str) -> Grouping:
    return find_groups(*short_machine(), CHAINS[name], Options(timed_groups=False))


def places(name: str) -> RingPlaces:
    found = grouping(name)
    return RingPlaces(MACHINE, found.candidates, found.base.residents)


def whole(name: str) -> tuple[RingPlaces, range, Members]:
    return places(name), range(len(CHAINS[name].operations)), grouping(name).members


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_rings_stand_inside_their_pools_and_rows_do_not_meet(name: str, again: bool) -> None:
    found, members, tiles = whole(name)
    loads = tiles.loadable(members, found.base)
    ways = 0
    for chip in found.choices(members, [load.candidate for load in loads]):
        assert not set(chip.ringed) & set(chip.whole)
        loops = tiles.loops(members, frozenset(chip.over))
        brought = [load.load(members, load.lines.together) for load in loads]
        group = RowGroup(members, loops, tiles.tensors(members, loads), 0, brought)
        for residents in itertools.islice(found.placed(chip, group, again), 4):
            ways += 1
            assert set(residents.rings) == set(chip.ringed)
            assert any(ring.overlap for ring in residents.rings.values()) == again
            for ring, slot in ((ring, residents.slots[key]) for key, ring in residents.rings.items()):
                pool = next(pool for pool in found.base.pools["fm"] if pool.bank == slot.bank)
                assert pool.start <= slot.address < pool.start + pool.depth
                assert not ring.lines or slot.address + ring.lines * ring.pitch <= pool.start + pool.depth
            planned = tiles.tiles(group, residents)
            assert planned is None or [problem.slab for problem in planned[0]] == [(loop.dimension, loop.size) for loop in loops]
    assert ways


@pytest.mark.parametrize(("name", "wanted"), [("conv -> conv", ["t"]), ("branches", ["t", "t2"][:1])])
def test_a_tensor_that_is_read_again_is_worth_a_ring(name: str, wanted: list[str]) -> None:
    found, members, tiles = whole(name)
    assert [load.tensor for load in tiles.loadable(members, found.base)] == wanted
    assert {"x": "t", "y": "t0"} in tiles.tensors(members)


def test_an_operation_that_reads_each_row_once_needs_no_ring() -> None:
    found, members, tiles = whole("branches")
    once, again = (next(number for number in members if tiles.tensors(members)[number]["y"] == made) for made in ("t0", "t1"))
    assert tiles.loadable(range(once, once + 1), found.base) == []
    assert [load.tensor for load in tiles.loadable(range(again, again + 1), found.base)] == ["t"]


def test_loads_cost_as_many_slabs_as_there_are() -> None:
    plan = realise(*short_machine(), CHAINS["conv -> conv"], schedule_of("conv -> conv"))
    group = plan.groups[0]
    assert isinstance(group, RowGroup)
    (load,) = group.loads
    once, twice = (load_cycles(replace(group, loads=[replace(load, height=n * load.size)]), plan.problems)[0] for n in (1, 2))
    assert once
    assert twice == {unit: 2 * cycles for unit, cycles in once.items()}
    halves = load_cycles(replace(group, loads=[replace(load, height=load.size, size=load.size // 2)]), plan.problems)[0]
    assert all(once[unit] <= halves[unit] < 2 * once[unit] for unit in once)
    step = plan.problems[load.member].filling(load.place)
    assert step is not None
    assert set(once) == set(step.units)
    assert load_cycles(replace(group, loads=[]), plan.problems) == []


@pytest.mark.parametrize("name", fused_chains.CHAINS)
def test_groups_over_tiles_end_with_an_operation_that_takes_tiles(name: str) -> None:
    machine, region = load_machine("vta"), fused_chains.CHAINS[name]
    kernels = load_kernels(machine)
    plan = plan_region(machine, kernels, region, Options(grouped=False))
    search = TileGroups(machine, kernels, plan, TileChoice(2, 1), (1,) * len(plan.problems))
    found = list(search.proposals())
    assert found
    for group, tiled in found:
        assert 1 < len(group.operations) <= LONGEST
        assert group.problems[-1].kernel.passed
        assert {one.reader for one in group.passes} >= {len(group.operations) - 1}
        assert all(one.maker < one.reader for one in group.passes)
        assert group.hidden == {f"t{group.operations[one.maker]}" for one in group.passes} - set(region.outputs)
        assert tiled.cycles > 0
    assert len(search.choice.groups) <= len(found)
