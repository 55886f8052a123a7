"""An offloaded region of a model as the machine side sees it: operations over tensors, which tensors are parts of others, some of the operations as
a region of their own, and several images in each tensor."""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from toolchain.abi.dram_map import MAX_IMAGES, Shape
from toolchain.operations.operation import Operation
from toolchain.operations.row_by_row import as_rows, image_by_image, of_images, row_by_row
from toolchain.spec.errors import fail


@dataclass(frozen=True)
class Bound:
    """tensors: the region's tensor for each computed operand and for the result, y. nodes: names of the graph's nodes that it stands for.

    kernel: the one that does it, by name; empty in a region that was made by hand, where the first that can do it will.
    """

    operation: Operation
    tensors: Mapping[str, str]
    nodes: tuple[str, ...] = ()
    kernel: str = ""


@dataclass(frozen=True)
class Slice:
    """A tensor that is a range of its parent's channels, from `channel` on, of all its images, rows and columns.

    view: the parent is made otherwise, and this is read out of it; else it is one of the tensors that make the parent.
    """

    parent: str
    channel: int
    view: bool = False


@dataclass(frozen=True)
class Region:
    """operations: in an order in which they can run. inputs, outputs: tensors that the host writes and reads, int8.

    slices: of tensors that a concat puts side by side, and of those that are read out of another; a parent may be a slice itself. A tensor that no
    operation makes and that is no input is a parent whose slices are made, or a slice whose parent is.

    images: how many each tensor holds, whose shape is that of all of them: behind each other as rows, or, not `as_rows`, along the axis of images.
    """

    name: str
    tensors: Mapping[str, Shape]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operations: tuple[Bound, ...]
    slices: Mapping[str, Slice]
    images: int = 1
    as_rows: bool = True

    def host_shape(self, name: str) -> Shape:
        """A tensor's shape as the host has it, image by image."""
        batch, channels, height, width = self.tensors[name]
        behind = self.images if self.as_rows else 1
        return Shape(batch * behind, channels, height // behind, width)

    @cached_property
    def parts(self) -> Mapping[str, Sequence[str]]:
        """By parent, the tensors that make it."""
        found: dict[str, list[str]] = {}
        for name, piece in self.slices.items():
            if not piece.view:
                found.setdefault(piece.parent, []).append(name)
        return found

    @cached_property
    def wiring(self) -> Hashable:
        """Equal for regions that differ in names and in operations' numbers and constants alone: shapes, and which operation reads of which."""
        places = {name: number for number, name in enumerate(self.tensors)}
        return (
            tuple(self.tensors.values()),
            tuple(places[name] for name in self.inputs),
            tuple(places[name] for name in self.outputs),
            tuple(tuple((operand, places[name]) for operand, name in bound.tensors.items()) for bound in self.operations),
            tuple((places[name], places[own.parent], own.channel, own.view) for name, own in self.slices.items()),
        )

    def viewed(self, name: str) -> str:
        """The tensor that one is read out of; itself where something makes it."""
        while name in self.slices and self.slices[name].view:
            name = self.slices[name].parent
        return name

    def stands_in(self, name: str) -> tuple[str, int]:
        """The tensor that this one is a part of, itself where it is whole, and its first channel there."""
        channel = 0
        while name in self.slices:
            channel += self.slices[name].channel
            name = self.slices[name].parent
        return name, channel

    def overlap(self, one: str, other: str) -> bool:
        """Whether two tensors have channels in common where they stand."""
        (root, first), (other_root, other_first) = self.stands_in(one), self.stands_in(other)
        return root == other_root and first < other_first + self.tensors[other].channels and other_first < first + self.tensors[one].channels

    def reads(self, bound: Bound, earlier: Bound) -> bool:
        """Whether an operation reads of the tensor that an earlier one makes a part of."""
        made, _ = self.stands_in(earlier.tensors["y"])
        return any(self.stands_in(tensor)[0] == made for name, tensor in bound.tensors.items() if name != "y")

    def alone(self, bound: Bound) -> list[str]:
        """The kernel's tensors that the host writes for this operation and no other, so that any layout will do."""
        reads = [tensor for other in self.operations for name, tensor in other.tensors.items() if name != "y"]
        shared = {*self.outputs, *self.slices, *(part.parent for part in self.slices.values())}
        return [n for n, tensor in bound.tensors.items() if tensor in self.inputs and tensor not in shared and reads.count(tensor) == 1]


def part_of_region(region: Region, members: Collection[int]) -> Region:
    """members: operations by index. Their operands from elsewhere are inputs; results that others read, or the host, are outputs.

    A part of a concatenation stands alone unless an operation of the members reads a result that another one makes of it.
    """
    chosen = [region.operations[index] for index in sorted(members)]
    inside = {id(bound) for bound in chosen}
    made = {bound.tensors["y"] for bound in chosen}
    joined = {region.stands_in(name)[0] for name in made} & {root for bound in chosen for root in _roots_read(region, bound, made)}
    slices = {name: own for name, own in region.slices.items() if region.stands_in(name)[0] in joined}
    touched = dict.fromkeys(tensor for bound in chosen for tensor in bound.tensors.values())
    pieces = [name for name in region.tensors if region.stands_in(name)[0] in joined]
    tensors = {name: region.tensors[name] for name in dict.fromkeys([*touched, *pieces])}
    read = {region.stands_in(t)[0] for bound in region.operations if id(bound) not in inside for n, t in bound.tensors.items() if n != "y"}
    wanted = read | {region.stands_in(name)[0] for name in region.outputs}
    outputs = tuple(bound.tensors["y"] for bound in chosen if region.stands_in(bound.tensors["y"])[0] in wanted)
    inputs = tuple(_given(slices, tensors, made))
    return replace(region, tensors=tensors, inputs=inputs, outputs=outputs, operations=tuple(chosen), slices=slices)


def _roots_read(region: Region, bound: Bound, made: Collection[str]) -> Iterator[str]:
    """Tensors of which an operation reads more, or less, than one operation of the part makes."""
    for name, tensor in bound.tensors.items():
        if name != "y" and tensor not in made:
            yield region.stands_in(tensor)[0]


def _given(slices: Mapping[str, Slice], tensors: Collection[str], made: Collection[str]) -> Iterator[str]:
    """Tensors that nothing in the part makes: operands that stand alone, and the pieces of joined tensors."""
    parents = {own.parent for own in slices.values() if not own.view}
    for name in tensors:
        piece = slices.get(name)
        if name not in made and name not in parents and not (piece and piece.view):
            yield name


def stackable(bound: Bound) -> bool:
    """Whether images may stand as rows in the tensors of an operation."""
    return row_by_row(bound.operation)


def stacked(region: Region, images: int) -> Region:
    """The region whose tensors hold so many images each; one that has them stays as it is. images: at most MAX_IMAGES.

    Raises UserError E1007 where the region has other images already, and where an operation mixes them."""
    if images == region.images:
        return region
    if region.images != 1 or not 1 <= images <= MAX_IMAGES:
        raise fail("E1007", f"region '{region.name}' with {region.images} images in each tensor cannot have {images}")
    rows = all(map(stackable, region.operations))
    if mixing := next((bound.operation.name for bound in region.operations if not rows and not image_by_image(bound.operation)), ""):
        raise fail("E1007", f"'{mixing}' makes an image of other images than its own, so a tensor cannot hold {images} of them")

    def shape(each: Shape) -> Shape:
        return each._replace(height=images * each.height) if rows else each._replace(batch=images * each.batch)

    def operation(each: Operation) -> Operation:
        return replace(each, numbers=(as_rows if rows else of_images)(each, images))

    tensors = {name: shape(each) for name, each in region.tensors.items()}
    operations = tuple(replace(bound, operation=operation(bound.operation)) for bound in region.operations)
    return replace(region, tensors=tensors, operations=operations, images=images, as_rows=rows)
