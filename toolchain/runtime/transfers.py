"""Tensors at a region's border: packed and unpacked through the machine's layouts, or handed on as stored bytes; and places of states between steps.

Stored integers have no number for NaN: a sample that holds one in an input that becomes integers is refused, not run as if it held zeros.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Literal

import numpy as np
import onnx

from toolchain.abi.dram_map import DramMap, StoredTensor, get_tensor, put_tensor
from toolchain.graph.integers.functions import kind_of
from toolchain.graph.rewrite import ONNX_DOMAINS
from toolchain.operations.operation import from_picture, to_picture
from toolchain.runtime.contents import HostSegment, Interface, Manifest, Port, RegionProgram, State, step_names, step_of
from toolchain.runtime.device import ByteRange, Bytes
from toolchain.spec.arrays import Array
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine


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
        (maker.name, reader.name, read.name): passes(machines[reader.target], maker, made, reader, read) for maker, made, reader, read in between
    }
    unpacked = {entry.name for entry in manifest.outputs} | {name for segment in manifest.hosts for name in segment.inputs}
    unpacked |= {name for (_, _, name), passes in passing.items() if not passes}
    passed = [key for key, passes in passing.items() if passes]
    kept = {region.name: frozenset(name for maker, _, name in passed if maker == region.name) for region in manifest.regions}
    taken = {region.name: frozenset(name for _, reader, name in passed if reader == region.name) for region in manifest.regions}
    return HandedOver(kept, {region: names - unpacked for region, names in kept.items()}, taken)


def passes(machine: Machine, maker: RegionProgram, made: Port, reader: RegionProgram, read: Port) -> bool:
    """Whether a result of one region can be read by another as the device stored it. machine: of both, where they have one."""
    if maker.target != reader.target or maker.whole or reader.whole or maker.batch != 1 or reader.batch != 1:
        return False
    if maker.images * reader.map.rooms != reader.images * maker.map.rooms:  # images of a room
        return False
    return _alone(reader, read) and _alike(machine, maker.map.tensors[made.tensor], reader.map.tensors[read.tensor])


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

    Raises UserError E1104 for a tensor other than the region expects.
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


Place = Literal["device", "stored", "host"]


@dataclass(frozen=True)
class StatePlace:
    """One state between two steps. device: it stays in the memory of the device, since one region reads and makes it. stored: the host keeps its
    bytes as the device stores them, and copies them. host: the host keeps an array.

    region: the number of the region that has it, of a state on the device. bytes: of its buffer there, or of the array.
    moved: bytes that cross the border between host and device for it in each step. watched: whether a step reads it on the host as well.
    """

    state: State
    place: Place
    bytes: int
    moved: int
    region: int = -1
    watched: bool = False


def state_places(machines: Mapping[str, Machine], manifest: Manifest) -> tuple[StatePlace, ...]:
    """The best place of each state that the plan allows. machines: by name."""
    return tuple(_place(machines, manifest, state) for state in manifest.states)


def on_the_host(place: StatePlace) -> StatePlace:
    """A state that could stay on the device, for a device that keeps none."""
    return replace(place, place="stored", moved=2 * place.bytes, region=-1) if place.place == "device" else place


def _place(machines: Mapping[str, Machine], manifest: Manifest, state: State) -> StatePlace:
    readers = [(number, region, port) for number, region in enumerate(manifest.regions) for port in region.inputs if port.name == state.taken]
    makers = [(number, region, port) for number, region in enumerate(manifest.regions) for port in region.outputs if port.name == state.made]
    buffers = [region.map.tensors[port.tensor].bytes for _, region, port in (*readers, *makers)]
    watched = _is_read(manifest, state)
    if makers and readers and all(_kept(machines, makers[0][1:], reader[1:]) for reader in readers):
        (maker, region, _), alone = makers[0], len(readers) == 1 and not _on_host(manifest, state.taken)
        if alone and readers[0][0] == maker and machines[region.target].codegen == "binary":
            return StatePlace(state, "device", buffers[0], buffers[0] * watched, maker, watched)
        return StatePlace(state, "stored", buffers[0], sum(buffers), watched=watched)
    entry = next(each for each in manifest.inputs if each.name == state.input)
    return StatePlace(state, "host", math.prod(entry.shape or ()) * np.dtype(entry.dtype).itemsize, sum(buffers), watched=watched)


def _kept(machines: Mapping[str, Machine], made: tuple[RegionProgram, Port], read: tuple[RegionProgram, Port]) -> bool:
    return passes(machines[read[0].target], *made, *read)


def _is_read(manifest: Manifest, state: State) -> bool:
    """Whether a step reads the new state within the step that makes it, other than to convert it for the model's caller."""
    maker = next((number for number, region in enumerate(manifest.regions) for port in region.outputs if port.name == state.made), -1)
    readers = [step_of(manifest, step) for step in manifest.plan if not is_leaving(manifest, step_of(manifest, step))]
    return any(state.made in step_names(run)[0] for run in readers if maker < 0 or run is not manifest.regions[maker])


def _on_host(manifest: Manifest, tensor: str) -> bool:
    return any(tensor in segment.inputs for segment in manifest.hosts)


def is_entering(manifest: Manifest, run: HostSegment | RegionProgram) -> bool:
    """Whether a step only converts states from the model's own type to that in which they go round."""
    return isinstance(run, HostSegment) and _within(run.outputs, [state.taken for state in manifest.states if state.taken != state.input])


def is_leaving(manifest: Manifest, run: HostSegment | RegionProgram) -> bool:
    """Whether a step only converts states back."""
    return isinstance(run, HostSegment) and _within(run.outputs, [state.output for state in manifest.states if state.made != state.output])


def _within(names: Sequence[str], others: Sequence[str]) -> bool:
    return bool(names) and {*names} <= {*others}


QUANTIZE = "quantize"
KEEP_NAN = frozenset((
    "Identity", "Cast", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile", "Concat", "DepthToSpace", "SpaceToDepth",
    "Add", "Sub", "Mul", "Div", "Sum", "Neg", "Abs", "Sqrt", "Exp", "Tanh", "Sigmoid",
))  # fmt: skip
"""Operators of the standard whose result, where it is floating, holds NaN if one of their floating operands does."""


def integer_inputs(inputs: Iterable[Interface], segments: Iterable[onnx.ModelProto]) -> frozenset[str]:
    """The floating inputs that become integers as they are, or after operators that keep NaN. segments: of the host, in the order of the plan."""
    behind = {entry.name: frozenset((entry.name,)) for entry in inputs if entry.dtype.startswith("float")}
    found: set[str] = set()
    for node in (node for segment in segments for node in segment.graph.node):
        sources = frozenset[str]().union(*(behind.get(name, ()) for name in node.input))
        if to_integers(node):
            found |= sources
        elif node.domain in ONNX_DOMAINS and node.op_type in KEEP_NAN:
            for name in node.output:
                behind[name] = sources
    return frozenset(found)


def to_integers(node: onnx.NodeProto) -> bool:
    """Whether it makes stored integers of floats; a machine of floats only rounds, by a call without a scale."""
    return kind_of(node) == QUANTIZE and any(attribute.name == "scale" for attribute in node.attribute)


def check_numbers(inputs: Mapping[str, Array], names: frozenset[str]) -> None:
    """Raises UserError E1134 with the place of the first NaN in the named inputs."""
    for name in sorted(names & inputs.keys()):
        missing = np.isnan(inputs[name])
        if missing.any():
            place = ", ".join(map(str, np.unravel_index(int(missing.argmax()), missing.shape)))
            others = int(missing.sum()) - 1
            more = f"; so {'does 1 more place' if others == 1 else f'do {others} more places'}" if others else ""
            text = f"the input '{name}' holds NaN at [{place}], and becomes integers, which have no such number{more}"
            raise fail("E1134", text, hint="mend the data, or replace NaN before the run")
