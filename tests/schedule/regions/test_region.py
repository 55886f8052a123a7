"""Which tensors the host can write in any layout: those that a single operation reads and that are no part of others."""

from tests.operations import made
from toolchain.abi.dram_map import Shape
from toolchain.schedule.regions.region import Bound, Region, Slice

SHAPE = Shape(1, 16, 4, 4)


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
