"""Inputs of a model, to calibrate and to test it: the user's own, pictures of a folder as the model's file says that they become its input, or
made-up pictures from integer bits alone."""

import io
import math
import struct
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from toolchain.graph.preparation import fitted, picture_size, pixels_as_input, prepare, raw_shape
from toolchain.models.exact_ops import bell, key_of, signed_bytes, words
from toolchain.models.model import Input, Model, Pictures, Recorded, Seeded
from toolchain.models.operators import Shape
from toolchain.spec.arrays import Array
from toolchain.spec.errors import Span, UserError, fail, nearest
from toolchain.spec.files import is_file, is_folder, read_limited
from toolchain.spec.packages import require_package

if TYPE_CHECKING:
    from PIL.Image import Image


ENDINGS, FORMATS = (".png", ".jpg", ".jpeg", ".bmp"), ("PNG", "JPEG", "BMP")
MOST_PICTURES = 4096
MOST_BYTES = 1 << 30
"""The most bytes of the files together, and of the samples together."""
MOST_PIXELS = 1 << 25
"""The most pixels of one picture; a file of a few bytes may claim any number."""
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""Pillow's name of a picture's form by its number of channels, each of eight bits."""
_TYPES = ("float16", "float32", "float64", "uint8", "int8", "uint16", "int16", "int32")
_READABLE = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
"""Forms of at most eight bits a channel; Pillow would clip deeper ones."""
_DAMAGED_PICTURE = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, OverflowError, struct.error)
"""Errors that Pillow raises for damaged pictures; one that is no picture at all is an OSError."""

Samples = Array
_UNIT = 1 / 64
_PATCHES = (1, 2, 4, 8, 16, 32, 64)
_COLOUR_SHARE = 4
_CHANNELS = 4096
"""Limit of a picture's pixels: each costs time."""


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
        raise _unusable_picture(pictures, f"there is no picture in the folder {pictures.folder}", f"pictures are files {', '.join(ENDINGS)}")
    if len(files) > MOST_PICTURES or len(files) * math.prod(entry.shape) * np.dtype(entry.dtype).itemsize > MOST_BYTES:
        text = f"the {len(files)} pictures of {pictures.folder} are more than {MOST_PICTURES}, or than {MOST_BYTES} bytes as samples"
        raise _unusable_picture(pictures, text, "some hundred calibrate a network")
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
        raise _unusable_picture(pictures, text, "record the inputs in an .npz file")
    ((name, entry),) = inputs.items()
    shape = entry.shape
    if len(shape) != 4 or shape[0] != 1 or min(shape) < 1 or picture_size(shape)[2] not in _MODES or entry.dtype not in _TYPES:
        text = f"the input '{name}' takes no single picture of 1, 3 or 4 channels: it is {entry.dtype} {list(shape)}"
        raise _unusable_picture(pictures, text, "record its inputs in an .npz file")
    if entry.preparation is None and entry.dtype != "uint8":
        hint = "give 'mean', 'std', 'scale' or 'layout' of the input in the model's file"
        raise _unusable_picture(pictures, f"the model does not say how a picture becomes the input '{name}'", hint)
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
    except (*_DAMAGED_PICTURE, Image.DecompressionBombError):
        raise fail("E0808", "this is no picture that Pillow can read, or it is damaged", hint="take it out of the folder", place=str(path)) from None
    return found[:, :, None] if channels == 1 else found


def _check(image: "Image", path: Path) -> None:
    """Before any pixel is read. Raises UserError E0808."""
    if image.width * image.height > MOST_PIXELS:
        text = f"the picture has {image.width} x {image.height} pixels, more than {MOST_PIXELS}"
        raise fail("E0808", text, hint="shrink it", place=str(path))
    if image.mode not in _READABLE:
        raise fail("E0808", f"the picture has more than eight bits a channel (Pillow's mode {image.mode})", hint="convert it", place=str(path))


def _unusable_picture(pictures: Pictures, message: str, hint: str) -> UserError:
    return fail("E0808", message, pictures.span, hint, str(pictures.folder))


def seeded_inputs(name: str, entry: Input, count: int) -> Samples:
    """[count, *shape] made-up inputs of any type: pictures for floats and bytes, whole numbers below their limit, zeros and ones where there
    is none, text of one letter."""
    shape, kind = entry.shape or (1,), entry.dtype
    if kind.startswith("float") or kind == "bfloat16":
        found = seeded_samples(name, shape, count, "calibration")
    elif kind in ("uint8", "int8"):
        found = np.clip(seeded_samples(name, shape, count, "calibration") * 64 + (128 if kind == "uint8" else 0), *_limits(kind)).astype(kind)
    elif kind == "string":
        found = np.full((count, *shape[1:]), "a", object)
    elif entry.below:
        keys = [key_of("calibration", name, number) for number in range(count)]
        found = np.stack([words(key, 0, math.prod(shape[1:])).reshape(shape[1:]) % np.uint64(entry.below) for key in keys]).astype(kind)
    else:
        bits = seeded_samples(name, shape, count, "calibration") > 0
        found = bits.astype(kind if kind in np.sctypeDict else np.int64)
    whole = np.repeat(found[:, None], shape[0], axis=1) if shape[0] != 1 else found[:, None]
    typed = whole.astype(kind) if kind.startswith("float") else whole
    return typed if entry.shape else typed[:, 0]


def _limits(kind: str) -> tuple[int, int]:
    return int(np.iinfo(kind).min), int(np.iinfo(kind).max)


def seeded_samples(name: str, shape: Shape, count: int, purpose: str) -> Samples:
    """[count, *shape[1:]] float32, multiples of 1/64 in [-2, 2) of deviation about 1; other purposes give other samples."""
    one = _picture if len(shape) == 4 and shape[1] <= _CHANNELS else _noise
    return np.stack([one(key_of(purpose, name, number), shape[1:]) for number in range(count)])


def _noise(key: int, shape: Shape) -> Samples:
    values = bell(key, int(np.prod(shape))).reshape(shape) // 2
    return np.clip(values, -128, 127).astype(np.float32) * np.float32(_UNIT)


def _picture(key: int, shape: Shape) -> Samples:
    """Patches of every size added up; the channels share most of them, as colours do."""
    channels, height, width = shape
    grey = _patches(key, 0, height, width)
    total = np.stack([grey + _patches(key, 1 + channel, height, width) // _COLOUR_SHARE for channel in range(channels)])
    return np.clip(total // 3, -128, 127).astype(np.float32) * np.float32(_UNIT)


def _patches(key: int, channel: int, height: int, width: int) -> np.typing.NDArray[np.int16]:
    total = np.zeros((height, width), np.int16)
    for size in _PATCHES:
        rows, columns = -(-height // size), -(-width // size)
        values = signed_bytes(key_of(key, channel, size), rows * columns).reshape(rows, columns).astype(np.int16)
        total += values.repeat(size, 0)[:height].repeat(size, 1)[:, :width]
    return total


Labels = np.typing.NDArray[np.int64]
MAX_BYTES = 1 << 30
MOST_MADE_UP = 1 << 27
"""Elements of made-up samples of one input together; one sample is always made."""
_DAMAGED = (ValueError, TypeError, AttributeError, EOFError, KeyError, NotImplementedError, RuntimeError, OSError, zipfile.BadZipFile, zlib.error)
"""Errors that numpy and zipfile raise for damaged archives, one byte changed at a time."""


def calibration_samples(model: Model) -> Mapping[str, Samples]:
    """By input name: [count, *shape] in the input's type. Raises UserError E0808, and E0009 for pictures without Pillow."""
    match model.calibration:
        case Pictures() as pictures:
            return picture_samples(pictures, model.inputs)
        case Recorded() as recorded:
            return recorded_samples(recorded, model.inputs)
        case seeded:
            largest = max((math.prod(shape) for shape in model.shapes.values()), default=1)
            count = min(seeded.count, max(1, MOST_MADE_UP // max(1, largest)))
            return {name: seeded_inputs(name, entry, count) for name, entry in model.inputs.items()}


def calibrated_by(model: Model, file: Path) -> Model:
    """The model with a folder of pictures to calibrate it, or an .npz file: for each input an array of its name, of inputs as they are."""
    if is_folder(file):
        return replace(model, calibration=Pictures(file))
    return replace(model, calibration=Recorded(file, {name: name for name in model.given}, 1.0, None, raw=False))


def sample_files(samples: Seeded | Recorded | Pictures) -> tuple[Path, ...]:
    """Whatever the samples are read from: the file, or the folder and its pictures; none where they are made up."""
    match samples:
        case Recorded(file=file):
            return (file,)
        case Pictures(folder=folder):
            return folder, *picture_files(folder)
        case Seeded():
            return ()


def labelled_samples(model: Model) -> tuple[Mapping[str, Samples], Labels | None] | None:
    """Test samples as `calibration_samples` and their right classes [count], None where there are none; None without test data.

    Raises UserError E0808.
    """
    if model.test is None:
        return None
    recorded = model.test.samples
    samples = recorded_samples(recorded, model.inputs)
    if not model.test.labels:
        return samples, None
    count, labels = len(next(iter(samples.values()))), _array(recorded, model.test.labels)
    if labels.shape != (count,) or labels.dtype.kind not in "iu":
        raise _unusable(recorded, f"'{model.test.labels}' is not one whole number for each of {count} samples")
    return samples, labels.astype(np.int64)


def recorded_samples(recorded: Recorded, inputs: Mapping[str, Input], sequences: bool = False) -> dict[str, Samples]:
    """The stored samples as the model takes them, by input. sequences: they are [sequences, steps, *shape], else [count, *shape].

    Raises UserError E0808 for a wrong shape, or numbers that are not finite and have to be.
    """
    one = _sequences if sequences else _recorded
    found = {name: one(recorded, array, inputs[name]) for name, array in recorded.arrays.items()}
    counts = {array.shape[: 1 + sequences] for array in found.values()}
    if len(counts) > 1:
        told = ", ".join(f"'{recorded.arrays[name]}' {' x '.join(map(str, array.shape[: 1 + sequences]))}" for name, array in found.items())
        raise _unusable(recorded, f"the arrays hold different numbers of {'steps' if sequences else 'samples'}: {told}")
    return found


def _sequences(recorded: Recorded, array: str, entry: Input) -> Samples:
    """[sequences, steps, *shape]."""
    given = _array(recorded, array)
    if given.ndim < 2 or not given.shape[1]:
        raise _unusable(recorded, f"'{array}' is {given.dtype}{list(given.shape)}, no sequences of steps: its first two axes count these")
    found = _recorded(recorded, array, entry, given.reshape(-1, *given.shape[2:]))
    return found.reshape(*given.shape[:2], *found.shape[1:])


def _recorded(recorded: Recorded, array: str, entry: Input, samples: Samples | None = None) -> Samples:
    """[count, *shape]; where the batch is 1, an array may leave its axis out. samples: the steps of all sequences, where it holds such."""
    given, shape = _array(recorded, array), entry.shape
    counted = given if samples is None else samples
    stored = counted[:, None] if counted.ndim == len(shape) and shape[:1] == (1,) else counted
    raw = raw_shape(shape, entry.preparation) if recorded.raw else shape
    if raw == shape and stored.ndim == len(shape) + 1:
        stored = fitted(stored, {axis + 1: shape[axis] for axis in entry.open})
    if stored.shape[1:] != raw or not len(stored) or stored.dtype.kind not in _kinds(entry.dtype):
        wanted = [*(("n",) if samples is None else ("sequences", "steps")), *(raw[1:] if shape[:1] == (1,) else raw)]
        what = "texts" if entry.dtype == "string" else "numbers"
        raise _unusable(recorded, f"'{array}' is {given.dtype}{list(given.shape)}, not {what} of shape {wanted}")
    if not entry.dtype.startswith("float"):
        return stored.astype(object if entry.dtype == "string" else entry.dtype)
    numbers = stored.astype(np.float32) * np.float32(recorded.scale)
    samples = prepare(numbers, shape, entry.preparation if recorded.raw else None).astype(entry.dtype)
    if recorded.finite and not np.isfinite(samples).all():
        raise _unusable(recorded, f"'{array}' holds numbers that are not finite")
    return samples


def _kinds(dtype: str) -> str:
    """The kinds of numpy's types that an input of a type takes."""
    return "iuf" if dtype.startswith("float") else "U" if dtype == "string" else "iub"


def _unusable(recorded: Recorded, message: str, hint: str = "") -> UserError:
    return fail("E0808", message, recorded.span, hint, str(recorded.file))


def _array(recorded: Recorded, name: str) -> Array:
    found = file_arrays(recorded.file, name, recorded.span)
    if name not in found:
        hint = nearest(name, found) or f"known: {', '.join(found) or 'none'}"
        raise _unusable(recorded, f"there is no array '{name}' in {recorded.file}", hint)
    return found[name]


def file_arrays(path: Path, only: str = "", span: Span | None = None) -> dict[str, Array]:
    """The arrays of an .npz file by name; `only` one of them, the others being empty. span: of the line that names the file.

    Raises UserError E0001, E0808.
    """
    data = read_limited(path, MAX_BYTES, "the sample file")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return {name: archive[name] if only in ("", name) else np.empty(0) for name in archive.files}
    except _DAMAGED:
        raise fail("E0808", f"{path} is not an .npz file of plain arrays", span, place=str(path)) from None
