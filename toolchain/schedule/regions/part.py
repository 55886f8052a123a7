"""Some of a region's operations as a region of their own: what a group costs, and whether it is right, can be found out without the rest."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from toolchain.schedule.regions.region import Bound, Region, Slice


def part_of_region(region: Region, members: Collection[int]) -> Region:
    """members: operations by index. Their operands from elsewhere are inputs; results that others read, or the host, are outputs.

    A part of a concatenation stands alone unless an operation of the members reads what another one makes of it.
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
