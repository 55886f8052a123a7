"""Regions that do not pay."""

from toolchain.passes.context import Price
from toolchain.passes.placement import pays


def test_a_region_pays_where_it_saves_time() -> None:
    assert pays(Price(host=3.0, machine=1.0, border=1.9))
    assert not pays(Price(host=3.0, machine=1.0, border=2.0))
