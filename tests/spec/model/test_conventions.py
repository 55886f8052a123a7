"""Layouts give every element all its places; a region's limits are open unless the file closes them."""

from toolchain.spec.expr import Name
from toolchain.spec.model import Copies, Layout, RegionLimits

ROWS = (Name("r"),)


def test_places_of_an_element_are_every_combination_of_its_copies() -> None:
    layout = Layout("l", ("r",), ("R",), ROWS, ROWS, copies=(Copies("k", 2), Copies("m", 3)))
    assert list(layout.chosen()) == [{"k": k, "m": m} for k in range(2) for m in range(3)]


def test_an_element_without_copies_has_one_place() -> None:
    assert list(Layout("l", ("r",), ("R",), ROWS, ROWS).chosen()) == [{}]


def test_regions_have_no_limits_unless_the_file_names_some() -> None:
    limits = RegionLimits(operations=3)
    assert (limits.operations, limits.macs, limits.parameter_bytes, limits.result_bytes) == (3, None, None, None)
