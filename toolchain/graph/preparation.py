"""How raw numbers, such as those of a picture, become a float input of a network."""

from dataclasses import dataclass

import numpy as np

from toolchain.spec.arrays import Array

LAYOUTS = ("nchw", "nhwc")
COLOURS = (1, 3, 4)
"""Numbers of channels that a picture has."""


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
