"""Views: every memory's own, and other ways to look at its bytes."""

import pytest

from tests.spec.small import small
from toolchain.spec.errors import UserError


def test_every_memory_but_a_register_has_its_own_view() -> None:
    machine = small()
    assert {m.name for m in machine.memories if m.kind != "register"} <= machine.view.keys()
    assert "base" not in machine.view
    assert (machine.view["rows"].unit, machine.view["rows"].offsets) == (4, (0, 1, 2, 3))


def test_a_view_steps_by_its_own_element_in_dram_and_by_the_memorys_elsewhere() -> None:
    machine = small()
    assert machine.view["ddr.row"].unit == 4
    assert machine.view["rows.turned"].unit == 4
    assert small(("ddr.row: {type: row_t}", "ddr.row: {type: row_t, unit: 2}")).view["ddr.row"].unit == 2


@pytest.mark.parametrize("text", ["a b -> b", "a b -> b * 2 + a + 1", "a b -> b, a", "a -> a"])
def test_every_stored_element_has_one_source(text: str) -> None:
    with pytest.raises(UserError, match="E0112"):
        small(("a b -> b * 2 + a", text))
