"""Inputs of a network: raw numbers, such as those of a picture, resized, put in the input's order, normalised; axes that take several sizes, and
arrays cut or filled up along them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import onnx
from onnx import TensorProto, helper

from toolchain.graph.session import Session, open_session, run_session
from toolchain.spec.arrays import Array

LAYOUTS = ("nchw", "nhwc")
COLOURS = (1, 3, 4)
"""Numbers of channels that a picture has."""

OPSET, IR_VERSION = 18, 8


@dataclass(frozen=True)
class Preparation:
    """(x * scale - mean) / std for each channel. layout: of raw numbers for an input with its channels first; those of `nhwc` are moved there."""

    layout: str = "nchw"
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    scale: float = 1.0


def channels_last(shape: tuple[int, ...]) -> bool:
    """Whether an input of a network has its channels last, told by their number."""
    return len(shape) == 4 and shape[3] in COLOURS and shape[1] not in COLOURS


def raw_shape(shape: tuple[int, ...], preparation: Preparation | None) -> tuple[int, ...]:
    """The shape of raw numbers for an input of a shape."""
    return (shape[0], *shape[2:], shape[1]) if _moved(shape, preparation) else shape


def prepare(raw: Array, shape: tuple[int, ...], preparation: Preparation | None) -> Array:
    """raw: float32 [..., *raw_shape]; [..., *shape] of it, as it is where nothing is said of a preparation."""
    if preparation is None:
        return raw
    found = np.moveaxis(raw, -1, -3) if _moved(shape, preparation) else raw
    axes = (-1,) if channels_last(shape) else (-1, 1, 1)
    mean, std = (np.array(values, np.float32).reshape(axes) for values in (preparation.mean, preparation.std))
    return (found * np.float32(preparation.scale) - mean) / std


def raw_channels_last(shape: tuple[int, ...], preparation: Preparation | None) -> bool:
    """Whether raw numbers for an input of a shape have their channels last."""
    return channels_last(shape) or _moved(shape, preparation)


def _moved(shape: tuple[int, ...], preparation: Preparation | None) -> bool:
    return preparation is not None and preparation.layout == "nhwc" and len(shape) == 4 and not channels_last(shape)


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
    """Integers, ties to even; a value too large is the type's limit, as at a region's border. NaN, which resizing makes of infinities, is 0."""
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


@dataclass(frozen=True)
class LengthAxis:
    """An axis of an input or output whose size is a length. name: of the dimension."""

    tensor: str
    axis: int
    name: str


def fitted(array: Array, sizes: Mapping[int, int]) -> Array:
    """The array in other sizes of some axes: cut, or filled up with zeros (empty texts, False) at the end."""
    cut = array[tuple(slice(sizes.get(axis)) for axis in range(array.ndim))]
    room = [(0, sizes.get(axis, size) - size) for axis, size in enumerate(cut.shape)]
    if not any(after for _, after in room):
        return cut
    return np.pad(cut, room, constant_values="" if array.dtype.kind in "OU" else 0)


def sized(arrays: Mapping[str, Array], axes: Sequence[LengthAxis], sizes: Mapping[str, int]) -> dict[str, Array]:
    """Arrays by tensor, each cut or filled up along its axes. sizes: by dimension."""
    wanted = {name: {axis.axis: sizes[axis.name] for axis in axes if axis.tensor == name} for name in arrays}
    return {name: fitted(np.asarray(array), wanted[name]) if wanted[name] else array for name, array in arrays.items()}


def text_of(sizes: Mapping[str, int]) -> str:
    """`sequence 64`, of several dimensions with commas."""
    return ", ".join(f"{name} {size}" for name, size in sizes.items())
