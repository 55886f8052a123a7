"""Regions that are compiled C or a graph against the integer network: results at their borders, exact or as near as the machine's file asks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.abi.dram_map import DramMap, get_tensor, put_tensor
from toolchain.codegen.c99 import c99_code
from toolchain.graph.calibration.table import sample_at, sample_count
from toolchain.graph.regions import GraphRegion, onnx_of
from toolchain.graph.session import Session, open_session, run_session
from toolchain.runtime.contents import Bundle, RegionProgram
from toolchain.runtime.device import ByteRange, Bytes
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.open_region import CompiledRegion, Stored, c_of, compile_c, open_region
from toolchain.runtime.transfers import array_of, buffer_of
from toolchain.schedule.backend import Backend
from toolchain.schedule.calls import plan_calls
from toolchain.schedule.regions.region import Region
from toolchain.spec.model import Machine, Tolerance
from toolchain.verify.compare import LAST_BITS, Comparison, distance, distant, first_difference, moves_of, nudged, unite
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


MOST_BYTES = 1 << 30
"""Of constants, which a model in memory holds beside the machine's; a larger region gets the tolerance alone."""


def border_names(region: GraphRegion) -> tuple[str, ...]:
    """Tensors whose values the comparison needs."""
    return tuple(tensor.name for tensor in (*region.inputs, *region.outputs))


def climb_graph(region: GraphRegion, stored: Stored, expected: Mapping[str, Array]) -> RegionVerdict:
    """expected: tensors of the whole model by name, [samples, *shape], which come from a model that ONNX Runtime did not rewrite.

    Raises UserError E1115 for a damaged graph, E0910 where ONNX Runtime stops, E0713 and E1116 for a vendor's device.
    """
    program, tolerance = stored.region, stored.machine.allowance
    _, engine = open_region(stored, EmulatorDevice(), retimed=False)
    given = {port.name: expected[port.name] for port in program.inputs}
    found, _ = engine.run([sample_at(given, number) for number in range(sample_count(given))])
    compared, where = list[Compared](), "graph engine" if stored.machine.codegen == "json" else "memory"
    moves, moved = _moves(region, program, given) if tolerance else {}, 0
    for port in program.outputs:
        wanted, made = expected[port.name], np.stack([array_of(sample[port.name]) for sample in found])
        maker = next((node.name or "" for node in region.nodes if port.tensor in [value.name for value in node.outputs]), "")
        differs = distant(wanted, made, tolerance, moves.get(port.name, 0.0))
        difference = _difference(port.tensor, wanted, made, maker, differs)
        moved += int(np.count_nonzero(distant(wanted, made, tolerance) & ~differs))
        apart = distance(wanted, made) if tolerance and wanted.shape == made.shape else 0.0
        compared.append(Compared(port.tensor, maker, where, wanted.size, difference, apart))
    allowed = allowed_text(tolerance, moved) if tolerance else ""
    return RegionVerdict(region.name, len(region.nodes), tuple(compared), (), (), (), True, None, told=_told(stored.machine), allowed=allowed)


def _told(machine: Machine) -> str:
    """The form of the region's code."""
    if machine.tool:
        return f"operators, compiled by {machine.tool.compiler}"
    if machine.calls_operators:
        return "operators, as calls in C99, in float32"
    return f"operators, as a graph in JSON{', in float16' if machine.half else ''}"


def allowed_text(near: Tolerance, moved: int = 0) -> str:
    """The machine's tolerance in words. moved: elements that are further away, but not further than the last bits of the region's inputs explain."""
    text = f"{near.absolute:g} + {near.relative:g} of the number: {near.because}"
    return f"{text}; {moved} elements are further, by what {LAST_BITS:g} times the last bits of the region's inputs change there" if moved else text


def _moves(region: GraphRegion, program: RegionProgram, given: Mapping[str, Array]) -> dict[str, Array]:
    """By output, how far elements move with the last bits of the region's inputs, in ONNX Runtime."""
    if not given or sum(array.nbytes for array in region.constants.values()) > MOST_BYTES:
        return {}
    session = open_session(onnx_of(region).SerializeToString(), optimise=False)
    plain = {port.tensor: given[port.name] for port in program.inputs}
    ways = [_stacked(session, inputs) for inputs in (plain, {name: nudged(array) for name, array in plain.items()})]
    return {port.name: moves_of(*(found[port.tensor] for found in ways)) for port in program.outputs}


def _stacked(session: Session, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Results [samples, *shape] by name."""
    runs = [run_session(session, sample_at(inputs, number)) for number in range(sample_count(inputs))]
    return {name: np.stack([run[name] for run in runs]) for name in runs[0]}


def _difference(name: str, wanted: Array, made: Array, maker: str, differs: NDArray[np.bool_]) -> Difference | None:
    """The first element, in row-major order, that may not be as it is."""
    if not differs.any():
        return None
    place = tuple(int(k) for k in np.argwhere(differs)[0])
    found = float(made[place]) if wanted.shape == made.shape else float("nan")
    return Difference(name, place, float(wanted[place]), found, int(np.count_nonzero(differs)), maker, (maker,), None)
