"""Rules turned round: the bit that moves one token."""

import pytest

from tests.schedule.cells import EVERY, cells
from toolchain.isa.sync_encoding import POST, WAIT, Bit, sync_encoding
from toolchain.spec.load import load_machine


def test_a_field_that_means_another_counter_on_each_unit() -> None:
    known, names = sync_encoding(load_machine("vta")), ["load", "compute", "store"]
    assert sorted(channel.counter for channel in known.channels.values()) == ["g2l", "g2s", "l2g", "s2g"]
    assert {(names[a], names[b]) for a, b in known.channels} == {("load", "compute"), ("compute", "load"), ("compute", "store"), ("store", "compute")}
    assert known.bits[1, 2, WAIT, "g2s"] == Bit("pop_prev", 0)
    assert (1, 2, WAIT, "s2g") not in known.bits


def test_masks_of_pairs() -> None:
    machine = load_machine("dpuv3")
    known, conv = sync_encoding(machine), [i.name for i in machine.instructions].index("CONV")
    assert len(known.channels) == 16
    assert known.bits[conv, 2, WAIT, "edge.load.conv"] == Bit("dpdon", 0)
    assert known.bits[conv, 2, POST, "edge.conv.misc"] == Bit("dpdby", 3)


@pytest.mark.parametrize("shape", [", initial: 1", ", count: 2"])
def test_counters_that_start_full_or_come_in_arrays_are_no_channels(shape: str) -> None:
    assert len(sync_encoding(cells(EVERY)).channels) == 6
    assert len(sync_encoding(cells(EVERY | {"ab": shape})).channels) == 5


def test_instructions_without_the_field_carry_nothing_and_all_prior_needs_no_post() -> None:
    known = sync_encoding(cells(EVERY | {"ab": ", mode: all_prior"}))
    quiet, copy = 2, 1
    there, back = known.channels[0, 1], known.channels[1, 0]
    assert known.carries(quiet, 0, POST, there)
    assert not known.carries(quiet, 1, WAIT, there)
    assert not known.carries(quiet, 1, POST, back)
    assert known.carries(copy, 1, WAIT, there)
    assert known.carries(copy, 1, POST, back)


def test_a_machine_is_looked_at_once_and_another_one_for_itself() -> None:
    machine, other = load_machine("vta"), cells(EVERY)
    assert sync_encoding(machine) is sync_encoding(machine)
    assert sync_encoding(other).channels != sync_encoding(machine).channels
