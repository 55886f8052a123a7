"""The DRAM map of a region's tensors and constants: all that a device needs beside the program, convertible to JSON and back."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from toolchain.abi.packing import Packing, view_packing
from toolchain.analysis.state import State, new_state
from toolchain.spec.arrays import Array, Ints
from toolchain.spec.model import Layout, Machine

Bytes = NDArray[np.uint8]


MAX_IMAGES = 1 << 16
"""The most images of a run."""


class Shape(NamedTuple):
    """Shape of a host tensor. batch: images that one run of the program takes, each with rows of its own."""

    batch: int
    channels: int
    height: int
    width: int


@dataclass(frozen=True)
class Segment:
    """A stretch of DRAM. address, bytes: where the emulator's device has it. register: index of the host register that holds its
    address, for machines that count from one; -1: the program's addresses are absolute, and it must stand exactly here.

    memory: on chip, for tensors between operations that no host sees; empty for DRAM. instance: of that memory.

    pitch: how far the rooms of several copies of the program are apart, in bytes of DRAM or in instances of the memory; 0 for a segment that all
    of them share, as constants are. parts: how many copies have one instance of a memory on chip, each `bytes` of it, one behind the other.
    """

    address: int
    bytes: int
    register: int = -1
    memory: str = ""
    instance: int = 0
    pitch: int = 0
    parts: int = 1

    def room(self, number: int) -> "Segment":
        """The segment as one copy of the program sees it."""
        if self.memory:
            instance, part = divmod(number, self.parts)
            return replace(self, address=self.address + part * self.bytes, instance=self.instance + instance * self.pitch, pitch=0, parts=1)
        return replace(self, address=self.address + number * self.pitch, pitch=0)


@dataclass(frozen=True)
class StoredTensor:
    """A tensor [batch, channels, height, width] in a buffer of its segment, `offset` bytes after the segment's start.

    extents: of the buffer, in the order of the layout's index names; with fewer images than the tensor where these stand behind each other as rows.
    channel: the tensor's first one in the buffer, which has more
    channels where a concat puts tensors side by side. bytes: of the whole buffer. view: whose scalars are stored.
    """

    shape: Shape
    segment: str
    offset: int
    bytes: int
    view: str
    layout: str
    extents: tuple[int, ...]
    channel: int = 0


class Buffer(Protocol):
    """A tensor's bytes at a region's border, and the layout that they are in, empty for the host's own."""

    @property
    def bytes(self) -> int: ...

    @property
    def layout(self) -> str: ...


@dataclass(frozen=True)
class DramMap:
    """memory: the one of kind dram. registers: the memory of the host's registers, empty where addresses are absolute.

    inputs, outputs: tensors that the host writes before a run and reads after it. tensors: every tensor that has an address there, or in a memory
    on chip that streams share; one that is no output is there only while operations need it, its room serves others later.

    rooms: how many copies of the program run side by side, each on images of its own, in a room of its own of each segment with a pitch. streams:
    of each copy, those of a copy one behind the other. A tensor's shape is that of one copy.
    """

    memory: str
    registers: str
    segments: Mapping[str, Segment]
    tensors: Mapping[str, StoredTensor]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rooms: int = 1
    streams: int = 1

    def room(self, number: int) -> "DramMap":
        """The map as one copy of the program sees it."""
        return replace(self, rooms=1, segments={name: segment.room(number) for name, segment in self.segments.items()})

    def rooms_of(self, stream: Ints) -> Ints:
        """The number of the copy that each stream is part of."""
        return np.minimum(stream // self.streams, self.rooms - 1)

    def set_registers(self, machine: Machine, state: State) -> None:
        """Sets the host's registers before a run: each stream's registers hold where the segments of its own room begin."""
        for segment in (each for each in self.segments.values() if each.register >= 0):
            held = state.host[self.registers]
            stream = np.arange(len(held)) * machine.streams // len(held)
            held[:, segment.register] = segment.address + self.rooms_of(stream) * segment.pitch

    def state(self, machine: Machine, constants: Mapping[str, bytes]) -> State:
        """A new state with constants and registers in place; constants: bytes by segment."""
        state = new_state(machine)
        for name, segment in self.segments.items():
            data = b"" if segment.memory else constants.get(name, b"")
            state.memories[self.memory][:, segment.address : segment.address + len(data)] = np.frombuffer(data, np.uint8)
        self.set_registers(machine, state)
        return state

    def write(self, machine: Machine, state: State, values: Mapping[str, Array]) -> None:
        """Host tensors, each of its whole shape, into a state. Raises ValueError for another shape or a value that does not fit."""
        for name, array in values.items():
            stored = self.tensors[name]
            put_tensor(machine, stored, self._bytes(state, stored), array)

    def read(self, machine: Machine, state: State, name: str) -> Array:
        """A tensor out of a state, in the scalars of its view."""
        stored = self.tensors[name]
        return get_tensor(machine, stored, self._bytes(state, stored))

    def buffer(self, state: State, name: str) -> Bytes:
        """The buffer of a tensor as it stands in a state, with all that lies beside the tensor."""
        return self._bytes(state, self.tensors[name])

    def memory_of(self, name: str) -> tuple[str, int]:
        """The memory that a tensor stands in, and its instance."""
        segment = self.segments[self.tensors[name].segment]
        return segment.memory or self.memory, segment.instance

    def address_of(self, name: str) -> int:
        """The first byte of a tensor's buffer in its memory."""
        stored = self.tensors[name]
        return self.segments[stored.segment].address + stored.offset

    @property
    def bytes(self) -> int:
        """The size of one block of memory that has every segment at its address, those on chip left out."""
        return max((segment.address + segment.bytes for segment in self.segments.values() if not segment.memory), default=0)

    def _bytes(self, state: State, stored: StoredTensor) -> Bytes:
        segment = self.segments[stored.segment]
        first = segment.address + stored.offset
        return state.memories[segment.memory or self.memory][segment.instance, first : first + stored.bytes]

    def plain(self) -> dict[str, Any]:
        """Plain data for JSON; `from_plain` reads it."""
        return asdict(self)

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Self:
        """Raises KeyError or TypeError for anything that `plain` did not write."""
        tensors = {name: _stored(held) for name, held in data["tensors"].items()}
        segments = {name: Segment(**held) for name, held in data["segments"].items()}
        inputs, outputs = tuple(data["inputs"]), tuple(data["outputs"])
        return cls(data["memory"], data["registers"], segments, tensors, inputs, outputs, data.get("rooms", 1), data.get("streams", 1))


def _stored(held: Mapping[str, Any]) -> StoredTensor:
    fields: dict[str, Any] = {**held, "shape": Shape(*held["shape"]), "extents": tuple(held["extents"])}
    return StoredTensor(**fields)


def put_tensor(machine: Machine, stored: StoredTensor, data: Bytes, values: Array) -> None:
    """A host tensor [batch, channels, height, width] into its buffer's bytes. Elements without a source become zero where the buffer is all
    the tensor's own, and stay as they are where others share it. Raises ValueError for another shape or a value that does not fit."""
    if values.shape != tuple(stored.shape):
        raise ValueError(f"the tensor is {values.shape}, not {tuple(stored.shape)}")
    found = packing_of(machine, stored)
    if stored.extents[found.layout.domain.index("c")] == stored.shape.channels:
        data[:] = 0
    found.insert(data, _as_rows(values, rows_of_images(stored, found.layout)).transpose(host_axes(found.layout)))


def get_tensor(machine: Machine, stored: StoredTensor, data: Bytes) -> Array:
    """The host tensor [batch, channels, height, width] of its buffer's bytes."""
    found = packing_of(machine, stored)
    return _as_images(found.fetch(data).transpose(np.argsort(host_axes(found.layout))), rows_of_images(stored, found.layout))


def rows_of_images(stored: StoredTensor, layout: Layout) -> int:
    """How many images stand behind each other as rows of one in a tensor's buffer. Raises ValueError where they do not divide so."""
    images, left = divmod(stored.shape.batch, stored.extents[layout.domain.index("n")]) if "n" in layout.domain else (1, 0)
    if left or not images:
        raise ValueError(f"{stored.shape.batch} images do not stand as {stored.extents} are")
    return images


def stacked_place(stored: StoredTensor, layout: Layout, place: tuple[int, ...]) -> tuple[int, ...]:
    """Where the element at (image, channel, row, column) stands in the buffer, whose images may stand behind each other as rows."""
    (image, channel, row, column), images = place, rows_of_images(stored, layout)
    return image // images, channel, image % images * stored.shape.height + row, column


def _as_rows(values: Array, images: int) -> Array:
    """Pictures [batch, channels, height, width] where so many stand behind each other."""
    if images == 1:
        return values
    batch, channels, height, width = values.shape
    return values.reshape(batch // images, images, channels, height, width).swapaxes(1, 2).reshape(batch // images, channels, images * height, width)


def _as_images(values: Array, images: int) -> Array:
    """The pictures of `_as_rows` one by one."""
    if images == 1:
        return values
    batch, channels, height, width = values.shape
    return values.reshape(batch, channels, images, height // images, width).swapaxes(1, 2).reshape(batch * images, channels, height // images, width)


def packing_of(machine: Machine, stored: StoredTensor) -> Packing:
    """The position of each element of the tensor in its buffer."""
    found = view_packing(machine, stored.view, stored.layout, stored.extents)
    return found.part(found.layout.domain.index("c"), stored.channel, stored.shape.channels)


def host_axes(layout: Layout) -> tuple[int, ...]:
    """The axis of [batch, channels, height, width] for each of a layout's index names. Raises KeyError for another name."""
    known = {name: axis for axis, name in enumerate("nchw")}
    return tuple(known[name] for name in layout.domain)
