"""One region as compiled C against the integer network: its own code for the results, and the same calls with every tensor kept apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.abi.dram_map import DramMap, get_tensor, put_tensor
from toolchain.codegen.c99 import c99_code
from toolchain.runtime.c_region import CompiledRegion, compile_c
from toolchain.runtime.contents import Bundle, RegionProgram
from toolchain.runtime.device import ByteRange, Bytes
from toolchain.runtime.open_region import c_of
from toolchain.runtime.transfers import buffer_of
from toolchain.schedule.backend import Backend
from toolchain.schedule.calls import plan_calls
from toolchain.schedule.regions.region import Region
from toolchain.spec.model import Machine
from toolchain.verify.compare import Comparison, first_difference, unite
from toolchain.verify.region_ladder import split_runs
from toolchain.verify.verdict import Compared, Difference, RegionVerdict

Array = NDArray[Any]
Tensors = Mapping[str, Array]
ABSENT = "the integer network has no tensor of this name"
UNMADE = "no call reads or makes it"


def climb_calls(backend: Backend, region: Region, bundle: Bundle, program: RegionProgram, expected: Tensors) -> RegionVerdict:
    """program: the region in the bundle. expected: int8 tensors of the integer network by name, [images, ...] for any whole number of runs.

    Raises UserError E0710 and E0711 where it cannot be compiled.
    """
    machine, runs = backend.machine, split_runs(region, expected)
    apart = c99_code(machine, plan_calls(backend, region, apart=True))
    whole = _Loaded(machine, apart.map, compile_c(machine, region.name, apart.map, apart.function, apart.blob, apart.files, apart.constants))
    own = _Loaded(machine, program.map, c_of(bundle, program, machine))
    given = {*region.inputs, *region.outputs}
    inner = [name for name in region.tensors if name in whole.map.tensors and name in expected and name not in given]
    compared = (*_climb(region, whole, runs, inner), *_climb(region, own, runs, region.outputs))
    seen = {*region.inputs, *(item.tensor for item in compared)}
    unseen = tuple((name, UNMADE if name in expected else ABSENT) for name in region.tensors if name not in seen)
    return RegionVerdict(region.name, len(region.operations), compared, unseen, (), (), True, None, told="calls, compiled as C99")


@dataclass(frozen=True)
class _Loaded:
    """A compiled region and where its tensors stand."""

    machine: Machine
    map: DramMap
    compiled: CompiledRegion

    def run(self, inputs: Tensors, names: Sequence[str]) -> dict[str, Array]:
        """The named tensors after a run, in the region's shapes."""
        writes: dict[ByteRange, Bytes] = {}
        for name, values in inputs.items():
            where = buffer_of(self.map, name)
            put_tensor(self.machine, self.map.tensors[name], writes.setdefault(where, np.zeros(where.bytes, np.uint8)), values)
        found = self.compiled.run(writes, [buffer_of(self.map, name) for name in names]).data
        return {name: get_tensor(self.machine, self.map.tensors[name], data) for name, data in zip(names, found, strict=True)}


def _climb(region: Region, loaded: _Loaded, runs: Sequence[Tensors], names: Sequence[str]) -> tuple[Compared, ...]:
    """These tensors, as they stand when the whole region has run."""
    comparisons: list[Comparison] = []
    for number, wanted in enumerate(runs):
        found = loaded.run({name: wanted[name] for name in region.inputs}, names)
        comparisons.append(Comparison(tuple(_compared(region, name, wanted[name], found[name], number) for name in names), ()))
    return unite(comparisons)


def _compared(region: Region, name: str, expected: Array, found: Array, number: int) -> Compared:
    first = first_difference(expected, found)
    maker = next((bound for bound in region.operations if bound.tensors["y"] == name), None)
    after = maker.operation.name if maker else ""
    if first is None:
        return Compared(name, after, "memory", expected.size)
    image, *inside = first.coordinates
    place = image + number * len(expected), *inside
    difference = Difference(name, place, first.expected, first.found, first.differing, after, maker.nodes if maker else (), None)
    return Compared(name, after, "memory", expected.size, difference)
