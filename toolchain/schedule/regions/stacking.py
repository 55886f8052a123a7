"""Several images of a region in each tensor, so that one load of weights may serve all of them.

Where each operation computes row by row they stand behind each other as rows, and tiles have rows of several: queries of a recommendation network and
sequences of words are such images. Else they stand along the axis of images, and each tile is of one; a tile of weights stays for the next image.
"""

from dataclasses import replace

from toolchain.abi.dram_map import MAX_IMAGES, Shape
from toolchain.operations.operation import Operation
from toolchain.operations.row_by_row import as_rows, image_by_image, of_images, row_by_row
from toolchain.schedule.regions.region import Bound, Region
from toolchain.spec.errors import fail


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
