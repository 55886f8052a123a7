"""Images of a region behind each other as rows of one tensor, where each operation computes row by row: one load of weights serves all of them.

Queries of a recommendation network and sequences of words are such images.
"""

from dataclasses import replace

from toolchain.abi.dram_map import Shape
from toolchain.operations.row_by_row import as_rows, row_by_row
from toolchain.schedule.regions.region import Bound, Region


def stackable(bound: Bound) -> bool:
    """Whether images may stand as rows in the tensors of an operation."""
    return row_by_row(bound.operation)


def stacked(region: Region, images: int) -> Region:
    """The region whose tensors hold so many images each; all operations have to be `stackable`. A region that is stacked so stays as it is."""
    if images == region.images:
        return region
    assert region.images == 1, f"region '{region.name}' is stacked already"
    tensors = {name: _taller(shape, images) for name, shape in region.tensors.items()}
    operations = tuple(replace(bound, operation=replace(bound.operation, numbers=as_rows(bound.operation, images))) for bound in region.operations)
    return replace(region, tensors=tensors, operations=operations, images=images)


def _taller(shape: Shape, images: int) -> Shape:
    return shape._replace(height=images * shape.height)
