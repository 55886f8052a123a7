"""Tensors that pass from one region to another of the same machine as their stored bytes: what one would unpack and the other pack again cancels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from toolchain.abi.dram_map import StoredTensor, get_tensor
from toolchain.operations.operation import from_picture
from toolchain.runtime.contents import Manifest, Port, RegionProgram
from toolchain.runtime.device import Bytes
from toolchain.spec.model import Machine

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class StoredResult:
    """A result of one run as the device left it: the bytes of its buffer."""

    machine: Machine
    stored: StoredTensor
    data: Bytes

    @cached_property
    def images(self) -> Array:
        """All images of the run: [images, channels, height, width]."""
        return get_tensor(self.machine, self.stored, self.data)


@dataclass(frozen=True, eq=False)
class StoredImage:
    """One image of a stored result. shape: of one sample in the graph."""

    result: StoredResult
    number: int
    shape: tuple[int, ...]


Value = Array | StoredImage
"""A tensor of a sample: in the graph's shape, or still as a device left it."""


def array_of(value: Value) -> Array:
    """The tensor in the graph's shape."""
    if not isinstance(value, StoredImage):
        return value
    part = value.result.images[value.number, None]
    return from_picture(part, 3) if len(value.shape) == 3 else part.reshape(1, *value.shape[1:])


def bytes_as_stored(region: RegionProgram, port: Port, values: Sequence[Value]) -> Bytes | None:
    """The buffer of an input, where `values`, image by image, are the images of one result that is stored in the same way; else None."""
    first = values[0]
    if not isinstance(first, StoredImage) or not _alone(region, port):
        return None
    held = [value for value in values if isinstance(value, StoredImage)]
    together = len(held) == len(values) and all(value.result is first.result and value.number == k for k, value in enumerate(held))
    alike = _alike(first.result.machine, first.result.stored, region.map.tensors[port.tensor])
    return first.result.data if together and alike else None


def _alone(region: RegionProgram, port: Port) -> bool:
    """Whether no other input stands in the same buffer."""
    places = [region.map.address_of(each.tensor) for each in region.inputs]
    return places.count(region.map.address_of(port.tensor)) == 1


def _alike(machine: Machine, one: StoredTensor, other: StoredTensor) -> bool:
    """Whether two buffers hold a tensor in the same way, wherever they stand and whatever looks at them."""
    form = [(t.shape, t.bytes, machine.view[t.view].element.scalar, t.layout, t.extents, t.channel) for t in (one, other)]
    return form[0] == form[1]


@dataclass(frozen=True)
class HandedOver:
    """Tensors that keep their stored form, by region. kept: results that some region takes so. whole: results that all readers take so.
    taken: inputs."""

    kept: Mapping[str, frozenset[str]]
    whole: Mapping[str, frozenset[str]]
    taken: Mapping[str, frozenset[str]]


def handed_over(machines: Mapping[str, Machine], manifest: Manifest) -> HandedOver:
    """Tensors that the regions of a plan hand over; only regions whose samples are single images do. machines: by name."""
    makers = {port.name: (region, port) for region in manifest.regions for port in region.outputs}
    between = [(*makers[port.name], region, port) for region in manifest.regions for port in region.inputs if port.name in makers]
    passing = {
        (maker.name, reader.name, read.name): _passes(machines[reader.target], maker, made, reader, read) for maker, made, reader, read in between
    }
    unpacked = {entry.name for entry in manifest.outputs} | {name for segment in manifest.hosts for name in segment.inputs}
    unpacked |= {name for (_, _, name), passes in passing.items() if not passes}
    passed = [key for key, passes in passing.items() if passes]
    kept = {region.name: frozenset(name for maker, _, name in passed if maker == region.name) for region in manifest.regions}
    taken = {region.name: frozenset(name for _, reader, name in passed if reader == region.name) for region in manifest.regions}
    return HandedOver(kept, {region: names - unpacked for region, names in kept.items()}, taken)


def _passes(machine: Machine, maker: RegionProgram, made: Port, reader: RegionProgram, read: Port) -> bool:
    if maker.target != reader.target or maker.whole or reader.whole or maker.batch != 1 or reader.batch != 1:
        return False
    if (maker.images, maker.map.rooms) != (reader.images, reader.map.rooms):
        return False
    return _alone(reader, read) and _alike(machine, maker.map.tensors[made.tensor], reader.map.tensors[read.tensor])
