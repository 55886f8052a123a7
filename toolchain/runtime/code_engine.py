"""The engine of a vendor's code, and of C in floating point: tensors stand in memory in the order of their axes, in float32."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.runtime.contents import Port, RegionProgram
from toolchain.runtime.device import ByteRange, LoadedProgram
from toolchain.runtime.handover import Value, array_of
from toolchain.runtime.timing import Shares
from toolchain.spec.errors import fail

Tensors = dict[str, Value]
DTYPE = np.dtype("<f4")


@dataclass(frozen=True)
class CodeEngine:
    """Runs code that a device has loaded, one sample a run."""

    region: RegionProgram
    program: LoadedProgram

    def run(self, samples: Sequence[Mapping[str, Value]], kept: Collection[str] = ()) -> tuple[list[Tensors], Shares]:
        """Raises UserError E0713 where the device fails."""
        del kept  # tensors have no other form
        made, shares = list[Tensors](), Shares()
        reads = [_place(self.region, port) for port in self.region.outputs]
        for sample in samples:
            writes = {_place(self.region, port): _bytes(array_of(sample[port.name])) for port in self.region.inputs}
            ran = self.program.run(writes, reads)
            arrays = [data.view(DTYPE).reshape(port.shape) for port, data in zip(self.region.outputs, ran.data, strict=True)]
            made.append({port.name: array for port, array in zip(self.region.outputs, arrays, strict=True)})
            shares += Shares(0.0, ran.transfer, ran.launch, ran.execute)
        return made, shares


def check_places(region: RegionProgram, place: str) -> None:
    """Whether each tensor at the border has room of its own size in its segment. Raises UserError E1104 where a bundle says otherwise."""
    for port in (*region.inputs, *region.outputs):
        stored = region.map.tensors.get(port.tensor)
        segment = region.map.segments.get(stored.segment) if stored else None
        size = math.prod(port.shape) * DTYPE.itemsize
        inside = stored is not None and segment is not None and segment.address >= 0 and 0 <= stored.offset <= segment.bytes - size
        if not inside or stored is None or stored.bytes != size:
            raise fail("E1104", f"the tensor '{port.tensor}' of region '{region.name}' has no place", hint="build the model again", place=place)


def _place(region: RegionProgram, port: Port) -> ByteRange:
    stored = region.map.tensors[port.tensor]
    return ByteRange(stored.segment, stored.offset, stored.bytes)


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array, DTYPE).reshape(-1).view(np.uint8)
