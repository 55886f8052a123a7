"""Pictures of a folder as samples of a model's one input, as the model's file says that pictures become it. Pillow reads them."""

import io
import math
import struct
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from toolchain.graph.pictures import picture_size, pixels_as_input
from toolchain.models.model import Input, Pictures
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError, fail
from toolchain.spec.files import is_file, read_limited
from toolchain.spec.packages import require_package

if TYPE_CHECKING:
    from PIL.Image import Image

ENDINGS, FORMATS = (".png", ".jpg", ".jpeg", ".bmp"), ("PNG", "JPEG", "BMP")
MOST_PICTURES = 4096
MOST_BYTES = 1 << 30
"""Of the files together, and of the samples together."""
MOST_PIXELS = 1 << 25
"""Of one picture; a file of a few bytes may claim any number."""
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""Pillow's name of a picture's form by its number of channels, each of eight bits."""
_TYPES = ("float16", "float32", "float64", "uint8", "int8", "uint16", "int16", "int32")
_READABLE = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
"""Forms of at most eight bits a channel; Pillow would clip deeper ones."""
_DAMAGED = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, OverflowError, struct.error)
"""Errors that Pillow raises for damaged pictures; one that is no picture at all is an OSError."""


def picture_files(folder: Path) -> list[Path]:
    """The pictures of a folder by name, without those of folders below it; none where it cannot be read."""
    try:
        found = [path for path in folder.iterdir() if path.suffix.lower() in ENDINGS and not path.name.startswith(".") and is_file(path)]
    except OSError:
        return []
    return sorted(found, key=lambda path: path.name)


def picture_samples(pictures: Pictures, inputs: Mapping[str, Input]) -> dict[str, Array]:
    """[count, *shape] of the one input, by its name, in the order of the files' names.

    Raises UserError E0808 for a file that is no picture, too many or too large ones, none at all, and inputs that no picture becomes; E0009
    without Pillow.
    """
    name, entry = _picture_input(pictures, inputs)
    files = picture_files(pictures.folder)
    if not files:
        raise _unusable(pictures, f"there is no picture in the folder {pictures.folder}", f"pictures are files {', '.join(ENDINGS)}")
    if len(files) > MOST_PICTURES or len(files) * math.prod(entry.shape) * np.dtype(entry.dtype).itemsize > MOST_BYTES:
        text = f"the {len(files)} pictures of {pictures.folder} are more than {MOST_PICTURES}, or than {MOST_BYTES} bytes as samples"
        raise _unusable(pictures, text, "some hundred calibrate a network")
    require_package("reading pictures", "pillow", "calibration", "PIL", pictures.span)
    samples, left = np.empty((len(files), *entry.shape), entry.dtype), MOST_BYTES
    for number, path in enumerate(files):
        data = read_limited(path, left, "the pictures of the folder, up to this one,")
        left -= len(data)
        samples[number] = pixels_as_input(_pixels(data, path, picture_size(entry.shape)[2]), entry.shape, entry.dtype, entry.preparation)
    return {name: samples}


def _picture_input(pictures: Pictures, inputs: Mapping[str, Input]) -> tuple[str, Input]:
    """The only input, where a picture becomes it. Raises UserError E0808."""
    if len(inputs) != 1:
        text = f"there are {len(inputs)} inputs: {', '.join(inputs)}; a folder of pictures is for a model of one"
        raise _unusable(pictures, text, "record the inputs in an .npz file")
    ((name, entry),) = inputs.items()
    shape = entry.shape
    if len(shape) != 4 or shape[0] != 1 or min(shape) < 1 or picture_size(shape)[2] not in _MODES or entry.dtype not in _TYPES:
        text = f"the input '{name}' takes no single picture of 1, 3 or 4 channels: it is {entry.dtype} {list(shape)}"
        raise _unusable(pictures, text, "record its inputs in an .npz file")
    if entry.preparation is None and entry.dtype != "uint8":
        hint = "give 'mean', 'std', 'scale' or 'layout' of the input in the model's file"
        raise _unusable(pictures, f"the model does not say how a picture becomes the input '{name}'", hint)
    return name, entry


def _pixels(data: bytes, path: Path, channels: int) -> Array:
    """float32 [height, width, channels], each 0 to 255. Raises UserError E0808."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow's own limit and of odd metadata: the limit here is lower
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                _check(image, path)
                found = np.asarray(image.convert(_MODES[channels]), np.float32)
    except (*_DAMAGED, Image.DecompressionBombError):
        raise fail("E0808", "this is no picture that Pillow can read, or it is damaged", hint="take it out of the folder", place=str(path)) from None
    return found[:, :, None] if channels == 1 else found


def _check(image: "Image", path: Path) -> None:
    """Before any pixel is read. Raises UserError E0808."""
    if image.width * image.height > MOST_PIXELS:
        text = f"the picture has {image.width} x {image.height} pixels, more than {MOST_PIXELS}"
        raise fail("E0808", text, hint="shrink it", place=str(path))
    if image.mode not in _READABLE:
        raise fail("E0808", f"the picture has more than eight bits a channel (Pillow's mode {image.mode})", hint="convert it", place=str(path))


def _unusable(pictures: Pictures, message: str, hint: str) -> UserError:
    return fail("E0808", message, pictures.span, hint, str(pictures.folder))
