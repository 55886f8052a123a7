"""Layouts give every element all its places; a region's limits are open unless the file closes them. Sums of terms, by hand."""

import pytest

from toolchain.spec.expr import Name
from toolchain.spec.model import Copies, Layout, RegionLimits
from toolchain.spec.model.conventions import CostTerm, MachineCosts

ROWS = (Name("r"),)

COSTS = MachineCosts(
    (CostTerm("mac", 282.0, 256, "s"), CostTerm("sram", 0.5, 8000, "s")),
    (CostTerm("macs", 0.3, 1, "s", ("macs",)), CostTerm("dram", 100.0, 2, "s", ("dram.read", "dram.written"))),
    (CostTerm("leak", 0.25, 4, "s"),),
)


def test_places_of_an_element_are_every_combination_of_its_copies() -> None:
    layout = Layout("l", ("r",), ("R",), ROWS, ROWS, copies=(Copies("k", 2), Copies("m", 3)))
    assert list(layout.chosen()) == [{"k": k, "m": m} for k in range(2) for m in range(3)]


def test_an_element_without_copies_has_one_place() -> None:
    assert list(Layout("l", ("r",), ("R",), ROWS, ROWS).chosen()) == [{}]


def test_regions_have_no_limits_unless_the_file_names_some() -> None:
    limits = RegionLimits(operations=3)
    assert (limits.operations, limits.macs, limits.parameter_bytes, limits.result_bytes) == (3, None, None, None)


def test_area_adds_up() -> None:
    assert COSTS.area_mm2 == pytest.approx((282 * 256 + 4000) / 1e6)
    assert MachineCosts().area_mm2 == 0


def test_energy_is_spent_by_counts_and_by_time() -> None:
    counts = {"macs": 1e6, "dram.read": 300.0, "dram.written": 200.0, "cycles": 5.0}
    assert COSTS.energy_uj(counts, 0.0) == pytest.approx((0.3e6 + 200 * 500) / 1e6)
    assert COSTS.energy_uj(counts, 2.0) - COSTS.energy_uj(counts, 0.0) == pytest.approx(0.002)  # 1 uW for 2 ms


def test_a_count_that_is_not_given_is_no_zero() -> None:
    with pytest.raises(KeyError):
        COSTS.energy_uj({"macs": 1.0}, 1.0)
