"""Samples to the stored bytes of a region's buffers and back, through the machine's layouts."""

from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.abi.dram_map import DramMap, StoredTensor, put_tensor
from toolchain.operations.operation import to_picture
from toolchain.runtime.contents import Port, RegionProgram
from toolchain.runtime.device import ByteRange, Bytes
from toolchain.runtime.handover import StoredImage, StoredResult, Value, array_of, bytes_as_stored
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine

Array = NDArray[Any]
Sample = Mapping[str, Value]


def buffer_of(held: DramMap, tensor: str, room: int = 0) -> ByteRange:
    """The range of the whole buffer that holds a tensor; tensors side by side share one. room: of which copy of the program."""
    stored = held.tensors[tensor]
    return ByteRange(stored.segment, stored.offset + room * held.segments[stored.segment].pitch, stored.bytes)


def split_images(region: RegionProgram, samples: Sequence[Sample]) -> list[dict[str, Value]]:
    """The region's inputs, image by image: [1, ...] each."""
    names = [port.name for port in region.inputs]
    if region.batch == 1:
        return [{name: sample[name] for name in names} for sample in samples]
    return [{name: array_of(sample[name])[k : k + 1] for name in names} for sample in samples for k in range(region.batch)]


def join_images(region: RegionProgram, images: Sequence[Sample]) -> list[dict[str, Value]]:
    """The region's results sample by sample, of all images one after the other."""
    size = region.batch
    groups = [images[first : first + size] for first in range(0, len(images), size)]
    names = [port.name for port in region.outputs]
    return [{name: np.concatenate([array_of(image[name]) for image in group]) if size > 1 else group[0][name] for name in names} for group in groups]


def pack(machine: Machine, region: RegionProgram, images: Sequence[Sample]) -> dict[ByteRange, Bytes]:
    """The region's input buffers. images: tensors by the graph's names, at most as many as a run takes; the rest is zeros, and rooms without any
    image stay as they are.

    Raises UserError E1104 for a tensor that is not what the region expects.
    """
    found: dict[ByteRange, Bytes] = {}
    for port, (room, held) in product(region.inputs, enumerate(_rooms(region, len(images)))):
        where, stored = buffer_of(region.map, port.tensor, room), region.map.tensors[port.tensor]
        parts = [image[port.name] for image in images[held]]
        if (kept := bytes_as_stored(region, port, parts)) is not None:
            found[where] = kept
            continue
        data = found.setdefault(where, np.zeros(where.bytes, np.uint8))
        try:
            put_tensor(machine, stored, data, _together([array_of(part) for part in parts], stored))
        except ValueError as error:
            raise fail("E1104", f"the tensor '{port.name}' does not fit region '{region.name}': {error}") from None
    return found


def _rooms(region: RegionProgram, images: int) -> list[slice]:
    """The images of each room that has some, of so many."""
    size = region.images // region.map.rooms
    return [slice(first, min(first + size, images)) for first in range(0, images, size)]


def _together(parts: Sequence[Array], stored: StoredTensor) -> Array:
    """The images one behind the other, in the region's shape; zeros for those that are missing."""
    if len({part.dtype for part in parts}) != 1:
        raise ValueError("its images have different types")
    whole = np.zeros(stored.shape, parts[0].dtype)
    for number, part in enumerate(parts):
        whole[number] = (to_picture(part) if part.ndim == 3 else part).reshape(whole.shape[1:])
    return whole


def unpack(
    machine: Machine, region: RegionProgram, data: Mapping[ByteRange, Bytes], count: int, kept: Collection[str] = ()
) -> list[dict[str, Value]]:
    """The first `count` images of a run's results, by the graph's names: [1, ...] each, `kept` ones as they are stored."""
    found: list[dict[str, Value]] = [{} for _ in range(count)]
    for port, (room, held) in product(region.outputs, enumerate(_rooms(region, count))):
        result = StoredResult(machine, region.map.tensors[port.tensor], data[buffer_of(region.map, port.tensor, room)])
        for number, image in enumerate(found[held]):
            stored = StoredImage(result, number, port.shape)
            image[port.name] = stored if port.name in kept else array_of(stored)
    return found


def ports_of(region: RegionProgram) -> tuple[Port, ...]:
    """Everything that crosses the region's border."""
    return (*region.inputs, *region.outputs)
