"""A picture as it comes from a camera or a file, as an input of a network: resized only if asked, put in the input's order, normalised."""

from functools import lru_cache

import numpy as np
import onnx
from onnx import TensorProto, helper

from toolchain.graph.preparation import channels_last, prepare, raw_channels_last
from toolchain.graph.session import Session, open_session, run_session
from toolchain.runtime.contents import Interface
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError, fail

OPSET, IR_VERSION = 18, 8


def prepare_picture(picture: Array, entry: Interface, resize: bool = False) -> Array:
    """picture: numbers [height, width, channels], or [height, width] where the input has one channel; [1, ...] of the input's shape and type.

    resize: to the input's size by bilinear interpolation that takes the mean where it shrinks, whatever that does to proportions.
    Raises UserError E1111 for a picture of another size or number of channels, E1112 for an input that is no picture or has no preparation.
    """
    shape = _picture_shape(entry)
    height, width, channels = shape[1:] if channels_last(shape) else (shape[2], shape[3], shape[1])
    pixels = picture[:, :, None] if picture.ndim == 2 else picture
    if picture.dtype.kind not in "buif" or pixels.ndim != 3 or pixels.shape[2] != channels or not pixels.size:
        raise _misfit(picture, entry, (height, width, channels))
    numbers = pixels.astype(np.float32)
    if pixels.shape[:2] != (height, width):
        if not resize:
            raise _misfit(picture, entry, (height, width, channels), "resize it as those were that trained the model, or ask with resize=True")
        numbers = resized(numbers, height, width)
    raw = numbers if raw_channels_last(shape, entry.preparation) else np.moveaxis(numbers, -1, 0)
    made = prepare(raw[None], shape, entry.preparation)
    return made.astype(entry.dtype) if entry.dtype.startswith("float") else _whole(made, entry.dtype)


def _whole(numbers: Array, dtype: str) -> Array:
    """Integers, ties to even; NaN is 0, and a value too large is the type's limit, as at a region's border."""
    limits = np.iinfo(dtype)
    return np.clip(np.rint(np.nan_to_num(numbers.astype(np.float64))), limits.min, limits.max).astype(dtype)


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


def resized(picture: Array, height: int, width: int) -> Array:
    """float32 [height, width, channels] of one of another size, by ONNX Runtime."""
    found = run_session(_resizing(height, width, picture.shape[2]), {"x": np.moveaxis(picture, -1, 0)[None]})["y"]
    return np.moveaxis(found[0], 0, -1)


@lru_cache(maxsize=8)
def _resizing(height: int, width: int, channels: int) -> Session:
    """A session of one operator."""
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear", antialias=1)
    sizes = helper.make_tensor("sizes", TensorProto.INT64, [4], [1, channels, height, width])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, "height", "width"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, channels, height, width])
    graph = helper.make_graph([node], "resize", [x], [y], [sizes])
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    return open_session(model.SerializeToString())
