"""Samples to the stored bytes of a region's buffers and back, through the machine's layouts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.runtime.contents import Port, RegionProgram
from toolchain.runtime.device import Bytes, Range
from toolchain.schedule.placement.dram_map import DramMap, StoredTensor, get_tensor, put_tensor
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine

Array = NDArray[Any]
Sample = Mapping[str, Array]


def buffer_of(held: DramMap, tensor: str) -> Range:
    """Where the whole buffer of a tensor stands; tensors side by side share one."""
    stored = held.tensors[tensor]
    return Range(stored.segment, stored.offset, stored.bytes)


def pack(machine: Machine, region: RegionProgram, samples: Sequence[Sample]) -> dict[Range, Bytes]:
    """The region's input buffers. samples: tensors by the graph's names, at most as many as a run takes; the rest is zeros.

    Raises UserError E1104 for a tensor that is not what the region expects.
    """
    found: dict[Range, Bytes] = {}
    for port in region.inputs:
        where, stored = buffer_of(region.map, port.tensor), region.map.tensors[port.tensor]
        data = found.setdefault(where, np.zeros(where.bytes, np.uint8))
        try:
            put_tensor(machine, stored, data, _together([sample[port.name] for sample in samples], stored, region.samples))
        except ValueError as error:
            raise fail("E1104", f"the tensor '{port.name}' does not fit region '{region.name}': {error}") from None
    return found


def _together(parts: Sequence[Array], stored: StoredTensor, samples: int) -> Array:
    """The parts one behind the other along the batch, in the region's shape; zeros for those that are missing."""
    if len({part.dtype for part in parts}) != 1:
        raise ValueError("its samples have different types")
    whole = np.zeros((samples, stored.shape.batch // samples, *stored.shape[1:]), parts[0].dtype)
    for number, part in enumerate(parts):
        whole[number] = part.reshape(whole.shape[1:])
    return whole.reshape(stored.shape)


def unpack(machine: Machine, region: RegionProgram, data: Mapping[Range, Bytes], count: int) -> list[dict[str, Array]]:
    """The first `count` samples of a run's results, by the graph's names."""
    found: list[dict[str, Array]] = [{} for _ in range(count)]
    for port in region.outputs:
        whole = get_tensor(machine, region.map.tensors[port.tensor], data[buffer_of(region.map, port.tensor)])
        for sample, part in zip(found, whole.reshape(region.samples, *port.shape), strict=False):
            sample[port.name] = part
    return found


def ports_of(region: RegionProgram) -> tuple[Port, ...]:
    """Everything that crosses the region's border."""
    return (*region.inputs, *region.outputs)
