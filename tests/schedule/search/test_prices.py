"""Prices of groups by three oracles, and what they agree on."""

import pytest

from tests.schedule.search.made_graphs import space_on
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import part_of_region
from toolchain.schedule.search.prices import ORACLES, Prices, exact


def test_the_exact_price_is_that_of_a_program_of_its_own() -> None:
    space = space_on("vta")
    region = part_of_region(space.region, [2, 3])
    alone = compile_region(space.machine, space.kernels, region, Options(search="greedy"))
    assert Prices(space, exact).of((2, 3)) == alone.cycles


@pytest.mark.parametrize("name", ["vta", "dpuv3"])
def test_no_program_is_quicker_than_the_roofline(name: str) -> None:
    space = space_on(name)
    roofline, program = Prices(space, ORACLES["analytic"]), Prices(space, exact)
    for members in [(index,) for index in space.graph] + [(2, 3), (1, 2, 4)]:
        least, found = roofline.of(members), program.of(members)
        assert least
        assert found
        assert least <= found


def test_equal_groups_are_priced_once() -> None:
    space, asked = space_on("vta"), list[int]()

    def counted(_: object) -> float:
        asked.append(1)
        return 1.0

    prices = Prices(space, counted)
    assert prices.of((2,)) == prices.of((4,)) == 1.0  # both 1x1 with the same channels
    assert len(asked) == 1


def test_bytes_that_stay_on_chip_are_counted_once_a_way() -> None:
    space = space_on("dpuv3")
    assert Prices(space).saved_bytes((2, 3)) == 2 * 4 * 32 * 14 * 14
    assert Prices(space).saved_bytes((1,)) == 0
