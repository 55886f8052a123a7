"""Buffers in a shared memory: those that are needed at one moment stand beside each other, and the largest of them leaves where not all fit."""

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
    beside = {name: [k for k in wanted if buffers[k].first <= each.last and each.first <= buffers[k].last] for name, each in buffers.items()}
    for name in wanted.keys() - found.keys():  # it went for one that had no room beside all that is needed with it
        assert any(sum(wanted[k].size for k in beside[other]) > LINES for other in beside[name])


def test_the_largest_of_a_crowded_moment_leaves_and_not_the_largest_of_all() -> None:
    machine, half = chip(1, 4), LINES // 2
    sizes = {"large": (half + 2, 0, 1), "one": (half - 1, 4, 5), "two": (half, 4, 5), "three": (2, 4, 5)}
    buffers = {name: Buffer(name, "swap", "", "", (), first, last, 1, 1, "llb") for name, (_, first, last) in sizes.items()}
    wanted = {name: SharedSlot("llb", Slot(0, 0), size) for name, (size, _, _) in sizes.items()}
    assert place_shared(machine, Storage(buffers, {}), wanted, dict.fromkeys(wanted, 4)).keys() == {"large", "one", "three"}


def test_streams_and_their_instances() -> None:
    machine = chip(2, 2)
    assert instances_of(machine, "llb", range(4)) == {0, 1}
    assert instances_of(machine, "l1", (1, 3)) == {1, 3}
    assert instances_of(machine, "ddr", range(4)) == {0}
    storage = Storage({"b": Buffer("b", "swap", "", "", (), 0, 1, 1, 1, "llb")}, {})
    for streams, kept in ((2, True), (3, False)):
        assert bool(place_shared(machine, storage, {"b": SharedSlot("llb", Slot(0, 0), 1)}, {"b": streams})) == kept
