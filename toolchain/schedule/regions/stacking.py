"""Images of a region behind each other as rows of one tensor, where each operation computes row by row: one load of weights serves all of them.

Queries of a recommendation network and sequences of words are such images.
"""

from dataclasses import replace

from toolchain.abi.dram_map import MAX_IMAGES, Shape
from toolchain.operations.row_by_row import as_rows, row_by_row
from toolchain.schedule.regions.region import Bound, Region
from toolchain.spec.errors import fail


def stackable(bound: Bound) -> bool:
    """Whether images may stand as rows in the tensors of an operation."""
    return row_by_row(bound.operation)


def unstackable(region: Region) -> str:
    """The first operation of the region that mixes rows, by name; empty where there is none."""
    return next((bound.operation.name for bound in region.operations if not stackable(bound)), "")


def stacked(region: Region, images: int) -> Region:
    """The region whose tensors hold so many images each; one that is stacked so stays as it is. images: at most MAX_IMAGES.

    Raises UserError E1007 where an operation is not `stackable`, or the region has other images already."""
    if images == region.images:
        return region
    if region.images != 1 or not 1 <= images <= MAX_IMAGES:
        raise fail("E1007", f"region '{region.name}' with {region.images} images as rows cannot have {images}")
    if mixing := unstackable(region):
        raise fail("E1007", f"'{mixing}' reads other rows than its own, so {images} images cannot stand behind each other as rows")
    tensors = {name: _taller(shape, images) for name, shape in region.tensors.items()}
    operations = tuple(replace(bound, operation=replace(bound.operation, numbers=as_rows(bound.operation, images))) for bound in region.operations)
    return replace(region, tensors=tensors, operations=operations, images=images)


def _taller(shape: Shape, images: int) -> Shape:
    return shape._replace(height=images * shape.height)
