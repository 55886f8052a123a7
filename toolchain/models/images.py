"""Made-up inputs: pictures with coarse and fine structure, from integer bits alone."""

from typing import Any

import numpy as np

from toolchain.models.model import Input
from toolchain.models.operators import Shape
from toolchain.models.random_bits import bell, key_of, signed_bytes

Samples = np.typing.NDArray[Any]
_UNIT = 1 / 64
_PATCHES = (1, 2, 4, 8, 16, 32, 64)
_COLOUR_SHARE = 4
_CHANNELS = 4096
"""Limit of a picture's pixels: each costs time."""


def seeded_inputs(name: str, entry: Input, count: int) -> Samples:
    """[count, *shape] made-up inputs of any type: pictures for floats and bytes, zeros and ones for other numbers, text of one letter."""
    shape, kind = entry.shape or (1,), entry.dtype
    if kind.startswith("float") or kind == "bfloat16":
        found = seeded_samples(name, shape, count, "calibration")
    elif kind in ("uint8", "int8"):
        found = np.clip(seeded_samples(name, shape, count, "calibration") * 64 + (128 if kind == "uint8" else 0), *_limits(kind)).astype(kind)
    elif kind == "string":
        found = np.full((count, *shape[1:]), "a", object)
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
