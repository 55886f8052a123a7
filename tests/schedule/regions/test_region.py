"""Which tensors the host can write in any layout: those that a single operation reads and that are no part of others. A part of a region
computes what it computes in the whole, whatever is cut out."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.operations import made
from tests.schedule.made_regions import Builder, expected
from tests.schedule.search.made_graphs import inception
from toolchain.abi.dram_map import Shape
from toolchain.schedule.regions.region import Bound, Region, Slice, part_of_region
from toolchain.schedule.search.cover import is_convex, operation_graph
from toolchain.spec.model.quantisation import Numerics

SHAPE = Shape(1, 16, 4, 4)

KINDS = {"conv2d", "add", "max_pool", "average_pool", "depthwise", "upsample"}


def region(*operations: Bound, **more: object) -> Region:
    names = dict.fromkeys(["a", "b", "c", "d", "e"], SHAPE)
    given: dict[str, object] = {"inputs": ("a", "b"), "outputs": ("e",), "slices": {}} | more
    return Region("r", names, operations=operations, **given)  # type: ignore[arg-type]


def add(x: str, z: str, y: str) -> Bound:
    return Bound(made.add(y, SHAPE), {"x": x, "z": z, "y": y})


def test_an_input_with_one_reader_is_its_own() -> None:
    assert region(add("a", "b", "e")).alone(add("a", "b", "e")) == ["x", "z"]


def test_what_is_read_twice_or_made_here_is_not() -> None:
    up = Bound(made.upsample("d", SHAPE, (1, 1)), {"x": "a", "y": "d"})
    found = region(up, add("a", "d", "c"), add("b", "b", "e"))
    assert [found.alone(bound) for bound in found.operations] == [[], [], []]


def test_what_leaves_again_or_is_part_of_another_is_not() -> None:
    assert region(add("a", "b", "e"), outputs=("a", "e")).alone(add("a", "b", "e")) == ["z"]
    assert region(add("a", "b", "e"), slices={"b": Slice("c", 0)}).alone(add("a", "b", "e")) == ["x"]


@given(st.integers(0, 1 << 20), st.integers(2, 9), st.integers(1, 1 << 9))
def test_results_of_a_part_are_those_of_the_whole(seed: int, steps: int, mask: int) -> None:
    region = Builder(np.random.default_rng(seed), KINDS).region(steps)
    members = [index for index in range(len(region.operations)) if mask >> index & 1]
    if not members or not is_convex(operation_graph(region), members):
        return
    rng = np.random.default_rng(seed)
    whole = expected(region, {name: rng.integers(-128, 128, tuple(region.tensors[name]), np.int8) for name in region.inputs}, Numerics())
    part = part_of_region(region, members)
    found = expected(part, {name: whole[name] for name in part.inputs}, Numerics())
    assert [bound.operation.name for bound in part.operations] == [region.operations[index].operation.name for index in members]
    assert part.outputs
    for bound in part.operations:
        assert np.array_equal(found[bound.tensors["y"]], whole[bound.tensors["y"]])


def test_operands_from_elsewhere_are_inputs_and_results_for_others_outputs() -> None:
    part = part_of_region(inception(), [2, 3])
    assert (part.inputs, part.outputs) == (("x",), ("b",))
    assert part_of_region(inception(), [0, 2]).outputs == ("x", "b0")


def test_tensors_overlap_where_their_channels_meet() -> None:
    slices = {"b": Slice("a", 0), "c": Slice("a", 16), "d": Slice("c", 8, view=True)}
    names = {"a": Shape(1, 32, 4, 4), "d": Shape(1, 8, 4, 4)}
    found = region(slices=slices)
    whole = Region("r", {**found.tensors, **names}, found.inputs, found.outputs, (), slices)
    meet = {one + other for one in "abcde" for other in "abcde" if one < other and whole.overlap(one, other)}
    assert meet == {"ab", "ac", "ad", "cd"}
