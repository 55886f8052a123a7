"""Buffers in a shared memory: those that are needed at one moment stand beside each other, and the largest leave where not all fit."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.many_cores import chip
from toolchain.schedule.kernels.pools import Slot
from toolchain.schedule.placement.dram_buffers import Buffer, Storage
from toolchain.schedule.placement.shared_memory import SharedSlot, instances_of, place_shared

LINES = 1 << 16 - 5
LIVES = st.lists(st.tuples(st.integers(1, LINES), st.integers(0, 6), st.integers(0, 3)), max_size=12)


@given(LIVES)
@settings(deadline=None)
def test_what_lives_at_once_stands_apart(lives: list[tuple[int, int, int]]) -> None:
    machine = chip(1, 4)
    buffers = {f"b{k}": Buffer(f"b{k}", "swap", "", "", (), first, first + more, 1, 1, "llb") for k, (_, first, more) in enumerate(lives)}
    wanted = {f"b{k}": SharedSlot("llb", Slot(0, 0), size) for k, (size, _, _) in enumerate(lives)}
    found = place_shared(machine, Storage(buffers, {}), wanted, dict.fromkeys(wanted, 4))
    for name, one in found.items():
        assert one.slot.address + one.size <= LINES
        for other in (each for each in found if each < name):
            two, mine, its = found[other], buffers[name], buffers[other]
            together = mine.first <= its.last and its.first <= mine.last
            assert not together or one.slot.address + one.size <= two.slot.address or two.slot.address + two.size <= one.slot.address
    left = [wanted[name].size for name in wanted if name not in found]
    assert not left or min(left) >= max((slot.size for slot in found.values()), default=0)


def test_streams_and_their_instances() -> None:
    machine = chip(2, 2)
    assert instances_of(machine, "llb", range(4)) == {0, 1}
    assert instances_of(machine, "l1", (1, 3)) == {1, 3}
    assert instances_of(machine, "ddr", range(4)) == {0}
    storage = Storage({"b": Buffer("b", "swap", "", "", (), 0, 1, 1, 1, "llb")}, {})
    for streams, kept in ((2, True), (3, False)):
        assert bool(place_shared(machine, storage, {"b": SharedSlot("llb", Slot(0, 0), 1)}, {"b": streams})) == kept
