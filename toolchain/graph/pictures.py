"""Pixels as an input of a network: resized, put in the input's order, normalised."""

from functools import lru_cache

import numpy as np
import onnx
from onnx import TensorProto, helper

from toolchain.graph.preparation import Preparation, channels_last, prepare, raw_channels_last
from toolchain.graph.session import Session, open_session, run_session
from toolchain.spec.arrays import Array

OPSET, IR_VERSION = 18, 8


def picture_size(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Height, width and channels of a picture for an input of four axes."""
    return (shape[1], shape[2], shape[3]) if channels_last(shape) else (shape[2], shape[3], shape[1])


def pixels_as_input(pixels: Array, shape: tuple[int, ...], dtype: str, preparation: Preparation | None) -> Array:
    """pixels: float32 [height, width, channels] of any height and width, stretched to the input's; [1, ...] of the input's shape and type."""
    height, width, _ = picture_size(shape)
    numbers = pixels if pixels.shape[:2] == (height, width) else resized(pixels, height, width)
    raw = numbers if raw_channels_last(shape, preparation) else np.moveaxis(numbers, -1, 0)
    made = prepare(raw[None], shape, preparation)
    return made.astype(dtype) if dtype.startswith("float") else _whole(made, dtype)


def _whole(numbers: Array, dtype: str) -> Array:
    """Integers, ties to even; NaN is 0, and a value too large is the type's limit, as at a region's border."""
    limits = np.iinfo(dtype)
    return np.clip(np.rint(np.nan_to_num(numbers.astype(np.float64))), limits.min, limits.max).astype(dtype)


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
