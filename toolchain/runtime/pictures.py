"""A picture as it comes from a camera or a file, as an input of a network: resized only if asked, put in the input's order, normalised."""

import numpy as np

from toolchain.graph.preparation import picture_size, pixels_as_input
from toolchain.runtime.contents import Interface
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError, fail


def prepare_picture(picture: Array, entry: Interface, resize: bool = False) -> Array:
    """picture: numbers [height, width, channels], or [height, width] where the input has one channel; [1, ...] of the input's shape and type.

    resize: to the input's size by bilinear interpolation that takes the mean where it shrinks, whatever that does to proportions.
    Raises UserError E1111 for a picture of another size or number of channels, E1112 for an input that is no picture or has no preparation.
    """
    shape = _picture_shape(entry)
    height, width, channels = picture_size(shape)
    pixels = picture[:, :, None] if picture.ndim == 2 else picture
    if picture.dtype.kind not in "buif" or pixels.ndim != 3 or pixels.shape[2] != channels or not pixels.size:
        raise _misfit(picture, entry, (height, width, channels))
    if pixels.shape[:2] != (height, width) and not resize:
        raise _misfit(picture, entry, (height, width, channels), "resize it as those were that trained the model, or ask with resize=True")
    return pixels_as_input(pixels.astype(np.float32), shape, entry.dtype, entry.preparation)


def _picture_shape(entry: Interface) -> tuple[int, ...]:
    shape = entry.shape or ()
    if len(shape) != 4 or shape[0] != 1 or min(shape) < 1:
        raise fail(
            "E1112", f"the input '{entry.name}' takes no single picture: it is {entry.dtype} {list(shape)}", hint="prepare its numbers yourself"
        )
    if entry.preparation is None and entry.dtype != "uint8":
        hint = "give 'mean', 'std', 'scale' or 'layout' of the input in the model's file, and build again"
        raise fail("E1112", f"the bundle does not say how a picture becomes the input '{entry.name}'", hint=hint)
    return shape


def _misfit(picture: Array, entry: Interface, wanted: tuple[int, ...], hint: str = "") -> UserError:
    message = f"a picture for the input '{entry.name}' is numbers [height, width, channels] of {list(wanted)}"
    return fail("E1111", f"{message}; given is {picture.dtype} {list(picture.shape)}", hint=hint)
