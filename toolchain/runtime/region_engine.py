"""The interface of a region that is ready to run, and the engine of regions whose tensors a device holds as packed bytes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

from toolchain.runtime.contents import RegionProgram
from toolchain.runtime.device import LoadedProgram
from toolchain.runtime.handover import Value
from toolchain.runtime.timing import Shares
from toolchain.runtime.transfers import buffer_of, join_images, pack, split_images, unpack
from toolchain.spec.model import Machine

Tensors = dict[str, Value]


class RegionEngine(Protocol):
    """A loaded region: made once, run any number of times, by any number of threads."""

    def run(self, samples: Sequence[Mapping[str, Value]], kept: Collection[str] = ()) -> tuple[list[Tensors], Shares]:
        """The region's results for each sample, by the graph's names, and the seconds that they took.

        samples: tensors by the graph's names, the region's inputs among them. kept: results that may stay as the device stores them.
        Raises UserError E07xx where the region fails.
        """
        ...


@dataclass(frozen=True)
class PackedEngine:
    """Runs a program that a device has loaded, on stored bytes that the machine's layouts describe."""

    machine: Machine
    region: RegionProgram
    program: LoadedProgram

    def run(self, samples: Sequence[Mapping[str, Value]], kept: Collection[str] = ()) -> tuple[list[Tensors], Shares]:
        """Raises UserError E1104 for a tensor that is not what the region expects, E07xx where the device fails."""
        images, made, shares = split_images(self.region, samples), list[Tensors](), Shares()
        for first in range(0, len(images), self.region.images):
            found, spent = self._run(images[first : first + self.region.images], kept)
            made += found
            shares += spent
        return join_images(self.region, made), shares

    def _run(self, images: Sequence[Tensors], kept: Collection[str]) -> tuple[list[Tensors], Shares]:
        """One run of the program; its results image by image."""
        start = perf_counter()
        writes = pack(self.machine, self.region, images)
        rooms = range(-(-len(images) * self.region.map.rooms // self.region.images))
        reads = list(dict.fromkeys(buffer_of(self.region.map, port.tensor, room) for port in self.region.outputs for room in rooms))
        packed = perf_counter()
        ran = self.program.run(writes, reads)
        unpacking = perf_counter()
        found = unpack(self.machine, self.region, dict(zip(reads, ran.data, strict=True)), len(images), kept)
        return found, Shares(0.0, packed - start + ran.transfer + perf_counter() - unpacking, ran.launch, ran.execute)
