"""Tensors that pass from one region to another of the same machine as their stored bytes: what one would unpack and the other pack again cancels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from toolchain.abi.dram_map import StoredTensor, get_tensor
from toolchain.operations.operation import from_picture
from toolchain.runtime.contents import HostSegment, Manifest, Port, RegionProgram
from toolchain.runtime.device import Bytes
from toolchain.runtime.plan_checks import step_of
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
        """Of the whole run: [images, channels, height, width]."""
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


def plain(sample: Mapping[str, Value]) -> dict[str, Array]:
    """Every tensor of a sample in the graph's shape."""
    return {name: array_of(value) for name, value in sample.items()}


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
    buffers = [(stored.segment, stored.offset) for other in region.inputs for stored in [region.map.tensors[other.tensor]]]
    stored = region.map.tensors[port.tensor]
    return buffers.count((stored.segment, stored.offset)) == 1


def _alike(machine: Machine, one: StoredTensor, other: StoredTensor) -> bool:
    """Whether two buffers hold a tensor in the same way, wherever they stand and whatever looks at them."""
    form = [(t.shape, t.bytes, machine.view[t.view].element.scalar, t.layout, t.extents, t.channel) for t in (one, other)]
    return form[0] == form[1]


@dataclass(frozen=True)
class HandedOver:
    """By region, tensors at its border that keep their stored form. kept: results that some region takes so. whole: results that all readers take so.
    taken: inputs."""

    kept: Mapping[str, frozenset[str]]
    whole: Mapping[str, frozenset[str]]
    taken: Mapping[str, frozenset[str]]


def handed_over(machines: Mapping[str, Machine], manifest: Manifest) -> HandedOver:
    """What the plan says of every region; only regions whose samples are single images hand over. machines: by name."""
    makers = {port.name: (region, port) for region in manifest.regions for port in region.outputs}
    pairs = [(makers[port.name], region, port) for region in manifest.regions for port in region.inputs if port.name in makers]
    passed = [(maker[0].name, region.name, port.name) for maker, region, port in pairs if _passes(machines[region.target], *maker, region, port)]
    every = {entry.name for entry in manifest.outputs}
    for step in manifest.plan:
        run = step_of(manifest, step)
        every |= set(run.inputs) if isinstance(run, HostSegment) else set()
    every |= {port.name for _, region, port in pairs if all(pair[1:] != (region.name, port.name) for pair in passed)}
    kept = {region.name: frozenset(name for maker, _, name in passed if maker == region.name) for region in manifest.regions}
    whole = {region: names - every for region, names in kept.items()}
    return HandedOver(kept, whole, {r.name: frozenset(name for _, reader, name in passed if reader == r.name) for r in manifest.regions})


def _passes(machine: Machine, maker: RegionProgram, made: Port, reader: RegionProgram, read: Port) -> bool:
    if maker.target != reader.target or maker.whole or reader.whole or maker.batch != 1 or reader.batch != 1 or maker.images != reader.images:
        return False
    return _alone(reader, read) and _alike(machine, maker.map.tensors[made.tensor], reader.map.tensors[read.tensor])
