"""The tiles of a group: all that fits, and none that the kernels do not allow; the estimate stands for the cycle model."""

import itertools

import numpy as np
import pytest

from tests.schedule.tiling.fused_chains import CHAINS
from toolchain.schedule.compile_operation import TileChoice
from toolchain.schedule.compile_region import plan_region
from toolchain.schedule.groups.members import TileGroups
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.tiling.tile_group import TileGroup, make_tile_group
from toolchain.schedule.tiling.tile_search import find_tiles, search_tiles
from toolchain.spec.load import load_machine

VTA = load_machine("vta")


def group_of(name: str) -> TileGroup:
    plan = plan_region(VTA, load_kernels(VTA), CHAINS[name], Options(grouped=False))
    (*_, found) = [group for group, _ in TileGroups(VTA, load_kernels(VTA), plan, TileChoice(2, 1), (1,) * len(plan.problems)).proposals()]
    return found


@pytest.mark.drawn(6)
@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("contexts", [1, 2])
def test_slots_of_all_members_stand_beside_each_other(name: str, contexts: int) -> None:
    group = group_of(name)
    found = find_tiles(group, contexts)
    assert found is not None
    order = next(found.orders())
    for index in np.random.default_rng(1).choice(len(found.estimate(order)), 12):
        tiled = found.tiled(1.0, int(index), order)
        assert tiled is not None
        rooms = {
            (problem.memories[place], slot.address, tiling.room[place])
            for problem, tiling in zip(group.problems, tiled.tilings, strict=True)
            for place, slots in tiling.places.items()
            for slot in slots
        }
        for memory in {memory for memory, _, _ in rooms}:
            taken = sorted((start, size) for own, start, size in rooms if own == memory)
            assert all(a + size <= b for (a, size), (b, _) in itertools.pairwise(taken))
            assert taken[-1][0] + taken[-1][1] <= sum(VTA.memory[memory].depths)


@pytest.mark.parametrize("name", CHAINS)
def test_the_best_is_no_worse_than_any_row(name: str) -> None:
    group = group_of(name)
    found, best = find_tiles(group, 2), search_tiles(group, 2)
    assert found is not None
    assert best is not None
    assert best.cycles == min(float(found.estimate(order).min()) for order in found.orders())
    assert sum(tiling.estimate for tiling in best.tilings) == pytest.approx(best.cycles)


def test_a_group_is_the_same_for_its_own_problems() -> None:
    group = group_of("conv -> pool")
    again = make_tile_group(CHAINS["conv -> pool"], range(2), group.problems)
    assert isinstance(again, TileGroup)
    assert again.roots == group.roots == {(1, "m"): (0, "y")}
