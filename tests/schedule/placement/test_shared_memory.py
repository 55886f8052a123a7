"""Buffers in a shared memory: those that are needed at one moment stand beside each other, and the largest of them leaves where not all fit.

Regions that fetch inputs: what they compute stays, and without the fetches they are as they were.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operations import made
from tests.schedule.made_regions import Builder, expected
from tests.schedule.many_cores import chip
from tests.schedule.test_compile_region import images
from toolchain.abi.dram_map import Shape
from toolchain.schedule.kernels.pools import Slot
from toolchain.schedule.placement.dram_buffers import Buffer, Storage
from toolchain.schedule.placement.shared_memory import (
    Fetch,
    SharedSlot,
    copied_values,
    fetchable,
    fetched_name,
    fetches_of,
    instances_of,
    is_fetch,
    place_shared,
    with_fetches,
    without_fetches,
)
from toolchain.schedule.regions.region import Bound, Region, Slice
from toolchain.spec.model.quantisation import Numerics

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


SHAPE = Shape(1, 16, 4, 4)
KINDS = ["add", "conv2d", "max_pool", "concat"]


def sums(slices: dict[str, Slice] | None = None) -> Region:
    """c = a + b, d = c + a."""
    steps = {"c": ("a", "b"), "d": ("c", "a")}
    bound = tuple(Bound(made.add(y, SHAPE), {"x": x, "z": z, "y": y}) for y, (x, z) in steps.items())
    return Region("r", dict.fromkeys("abcd", SHAPE), ("a", "b"), ("d",), bound, slices or {})


def test_all_readers_find_the_copy_and_it_is_made_first() -> None:
    found = with_fetches(sums(), (Fetch("a", "fetch"),))
    assert [bound.operation.name for bound in found.operations] == ["a.fetched", "c", "d"]
    assert [bound.tensors for bound in found.operations] == [
        {"x": "a", "y": "a.fetched"},
        {"x": "a.fetched", "z": "b", "y": "c"},
        {"x": "c", "z": "a.fetched", "y": "d"},
    ]
    assert [is_fetch(bound) for bound in found.operations] == [True, False, False]
    assert found.operations[0].kernel == "fetch"
    assert found.tensors[fetched_name("a")] == SHAPE
    assert (found.inputs, found.outputs) == (("a", "b"), ("d",))


def test_other_fetches_take_the_place_of_those_that_are_there() -> None:
    one, both = with_fetches(sums(), (Fetch("a", "k"),)), (Fetch("b", "k"), Fetch("a", "l"))
    assert fetches_of(with_fetches(one, both)) == both
    assert with_fetches(one, fetches_of(one)).tensors == one.tensors
    plain = sums()
    assert with_fetches(plain, ()) is plain
    with pytest.raises(KeyError):
        with_fetches(plain, (Fetch("elsewhere", "k"),))


def test_only_inputs_that_are_read_and_stand_alone_can_be_fetched() -> None:
    assert fetchable(sums()) == ("a", "b")
    assert fetchable(sums({"b": Slice("e", 0)})) == ("a",)
    assert fetchable(sums({"e": Slice("a", 0, view=True)})) == ("b",)
    assert fetchable(replace(sums(), inputs=("a", "b", "unread"))) == ("a", "b")
    assert fetchable(with_fetches(sums(), (Fetch("a", "k"),))) == ("b",)
    larger = replace(sums(), tensors={**sums().tensors, "b": Shape(1, 16, 5, 4)})
    assert fetchable(larger) == ("b", "a")


def test_an_operation_of_the_region_that_copies_is_no_fetch() -> None:
    copy = Bound(with_fetches(sums(), (Fetch("a", "k"),)).operations[0].operation, {"x": "a", "y": "e"})
    own = replace(sums(), tensors={**sums().tensors, "e": SHAPE}, operations=(*sums().operations, copy))
    assert not is_fetch(copy)
    assert without_fetches(own) is own


def test_a_copy_has_the_values_of_its_input() -> None:
    values = {"a": np.arange(3), "d": np.arange(4)}
    found = copied_values(with_fetches(sums(), (Fetch("a", "k"), Fetch("b", "k"))), values)
    assert found.keys() == {"a", "d", "a.fetched"}
    assert found["a.fetched"] is values["a"]


@given(st.integers(0, 1 << 20), st.integers(1, 6), st.data())
def test_any_fetches_leave_every_tensor_as_it_is(seed: int, steps: int, draw: st.DataObject) -> None:
    region = Builder(np.random.default_rng(seed), KINDS).region(steps)
    fetches = tuple(Fetch(name, "k") for name in draw.draw(st.lists(st.sampled_from(fetchable(region)), unique=True))) if fetchable(region) else ()
    found, inputs = with_fetches(region, fetches), images(region)
    assert without_fetches(found) == region
    assert fetches_of(found) == fetches
    plain = expected(region, inputs, Numerics())
    fetched = expected(found, inputs, Numerics())
    assert fetched.keys() == plain.keys() | {fetched_name(each.tensor) for each in fetches}
    assert all(np.array_equal(fetched[name], array) for name, array in copied_values(found, plain).items())
