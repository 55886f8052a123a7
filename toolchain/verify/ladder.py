"""The whole ladder for one built model: float network, integer network in ONNX Runtime, fast engine, reference engine, and the host's parts.

Regions that are compiled C or a graph are compared at their borders, exact or within the tolerance of the machine's file.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, lcm
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from toolchain.abi.dram_map import DramMap, get_tensor, put_tensor
from toolchain.accuracy.closeness import closeness_of
from toolchain.accuracy.errors import measure_errors
from toolchain.codegen.c99 import c99_code
from toolchain.graph.integers.calls import integer_tensors
from toolchain.graph.quantisation.table import Table, joined, sample_at, sample_count
from toolchain.graph.regions import GraphRegion, onnx_of, region_calls, region_function
from toolchain.graph.session import Session, open_session, run_session
from toolchain.graph.states import Sequences
from toolchain.graph.work import host_work
from toolchain.operations.library import kinds_of
from toolchain.passes.fuse import sources_of
from toolchain.passes.truth import check_import
from toolchain.runtime.contents import Bundle, RegionProgram
from toolchain.runtime.device import ByteRange, Bytes
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.executor import Executor, joinable, open_bundle
from toolchain.runtime.open_region import CompiledCalls, Stored, c_of, compile_c, open_region
from toolchain.runtime.step_session import open_steps
from toolchain.runtime.transfers import array_of, buffer_of
from toolchain.schedule.backend import Backend
from toolchain.schedule.calls import plan_calls
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Region
from toolchain.spec.arrays import Array
from toolchain.spec.fingerprint import Memo, array_parts, digest_of_parts
from toolchain.spec.model import Machine, Tolerance
from toolchain.verify.built import Built, ProgramUnderTest, bundled_program, bundled_schedule, integer_files, stored_ranges
from toolchain.verify.compare import (
    LAST_BITS,
    Comparison,
    compare_steps,
    differing_bits,
    distance,
    distant,
    first_difference,
    first_samples,
    moves_of,
    nudged,
    oracle_tensors,
    stacked,
    unite,
)
from toolchain.verify.on_chip import OnChipReader
from toolchain.verify.reference_sample import SampleSize
from toolchain.verify.region_ladder import climb_region, declared_tensors, split_runs
from toolchain.verify.verdict import Compared, Difference, ModelVerdict, OutputVerdict, RegionVerdict, StepsVerdict

Tensors = Mapping[str, Array]
ORACLES: Memo[Tensors] = Memo(16)
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
    compiled: CompiledCalls

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
"""The most bytes of constants, which a model in memory holds beside the machine's; a larger region gets the tolerance alone."""


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


Samples = Mapping[str, Array]
LARGE = 10_000_000_000
"""Multiply-accumulates of one image from which on a network is compared on fewer."""
IMAGES, IMAGES_OF_LARGE = 4, 2
BESIDE = 2
"""Samples that are run alone, and together in one call."""


def verify_model(
    built: Built, samples: Samples, size: SampleSize, say: Callable[[str], object] = lambda _: None, sequences: Sequences | None = None
) -> ModelVerdict:
    """samples: by input, [count, *shape]; as many are used as `compared_images` says, and where a run takes more than there are,
    those again from the first on. sequences: of a model with states, of which the first is run step by step.

    Raises UserError E0910 and E0914 (ONNX Runtime), E0923 for a float stage that does not compute the same as the file, E11xx for a bundle
    that is not this model's, E05xx for a deadlock, E07xx where an engine refuses the program.
    """
    runs = (region.images for region in built.bundle.manifest.regions)
    count = compared_images(_macs(built.floating), lcm(*(machine.lockstep for machine in built.machines.values()), *runs), sample_count(samples))
    images = first_samples(samples, count)
    _check_floats(built, images, say)
    say("the file beside the integer network")
    errors = measure_errors(built.given.run, built.floating, built.integer, images, stored_ranges(built.machines.values()))
    say("integer network in ONNX Runtime")
    calls = region_calls(built.partitioned)
    expected = oracle_tensors(built.integer, images, _borders(built, calls))
    regions: list[RegionVerdict] = []
    for number, call in enumerate(calls):
        which = f"region {number + 1} of {len(calls)}"
        regions.append(_region(built, call, expected, size.share(number, len(calls)), lambda text, which=which: say(f"{which}: {text}")))
    say("the whole model by the executor")
    outputs = _outputs(built, images, expected)
    return ModelVerdict(
        built.bundle.manifest.model,
        " + ".join(machine.label for machine in built.machines.values()),
        count,
        tuple(regions),
        tuple(outputs),
        errors.tensors,
        closeness_of(errors),
        bool(integer_tensors(built.integer)),
        _steps(built, sequences, say),
    )


def _steps(built: Built, sequences: Sequences | None, say: Callable[[str], object]) -> StepsVerdict | None:
    """None for a model without states, and for machines whose results may differ."""
    if sequences is None or any(machine.allowance for machine in built.machines.values()):
        return None
    say("steps in a row")
    executor = open_bundle(built.bundle, [*built.machines.values()], EmulatorDevice(check=False), built.place, optimise=False)
    return compare_steps(open_steps(executor), built.integer, sequences, built.place)


def _check_floats(built: Built, images: Samples, say: Callable[[str], object]) -> None:
    """Every float stage against the file, each operator that a pass wrote against those before it."""
    (first, imported), *others = built.floats.items()
    say(f"float stage {first} beside the file")
    sample = sample_at(images, 0)
    found = check_import(built.plain.run(sample, built.place), imported, sample, built.place)
    for name, stage in others:
        say(f"float stage {name} beside the file")
        found.check(stage, name, Table(0, {}))


def _macs(model: ir.Model) -> int:
    """Multiply-accumulates of one sample."""
    return sum(work.macs for work in host_work(list(model.graph)).values())


def _region(built: Built, call: ir.Node, expected: Mapping[str, Array], size: SampleSize, say: Callable[[str], object]) -> RegionVerdict:
    say("on the machine")
    backend = built.backend(call)
    region = backend.read(built.partitioned, call)
    program = next(item for item in built.bundle.manifest.regions if item.name == region.name)
    if isinstance(region, GraphRegion):
        return climb_graph(region, Stored(built.bundle, program, backend.machine, built.place, native=True, optimise=False), expected)
    beside = ""
    if backend.machine.quantisation is not None and backend.machine.floats:
        declared = declared_tensors(built.integer, region.tensors, expected, backend.machine.quantisation, kinds_of(backend.machine), say)
        expected, beside = declared.tensors, declared.text
    if backend.tiled:
        tested = bundled_program(built.bundle, program, region, backend.machine, built.place)
        verdict = climb_region(tested, expected, size, _peek(built, backend, tested, say))
    else:
        verdict = climb_calls(backend, region, built.bundle, program, expected)
    lost = tuple((name, "no operation of the region stands for it") for name in lost_tensors(region, region_function(built.partitioned, call)))
    return replace(verdict, unseen=(*verdict.unseen, *lost), beside=beside)


def _borders(built: Built, calls: Iterable[ir.Node]) -> list[str]:
    """Tensors in floating point at the borders of graphs, which are no stored tensors of the integer network."""
    regions = (built.backend(call).read(built.partitioned, call) for call in calls if built.backend(call).graph)
    return [name for region in regions if isinstance(region, GraphRegion) for name in border_names(region)]


def lost_tensors(region: Region, nodes: Iterable[ir.Node]) -> list[str]:
    """Results of nodes that the region does not have, those left out that were merged into an operation: padding, a shuffle of its result."""
    merged = {name for bound in region.operations for name in bound.nodes}
    apart = [node for node in nodes if not merged.issuperset(sources_of(node))]
    return [value.name or "" for node in apart for value in node.outputs if value.name not in region.tensors]


def _peek(built: Built, backend: Backend, tested: ProgramUnderTest, say: Callable[[str], object]) -> OnChipReader | None:
    """Needed where some tensor stays on chip: the region compiled once more, as the bundle's schedule says, and with every tensor stored.

    Raises UserError E14xx for a schedule that is not the region's."""
    region = tested.region
    if all(name in tested.map.tensors for name in region.tensors):
        return None
    say("with every tensor stored")
    program = next(item for item in built.bundle.manifest.regions if item.name == region.name)
    schedule = bundled_schedule(built.bundle, program, built.place)
    return OnChipReader(compile_region(backend.machine, backend.kernels, region, Options(check=False, stored=True), schedule))


def verify_outputs(built: Built, samples: Samples) -> list[OutputVerdict]:
    """The model's outputs alone, of as few samples as a run takes: a fraction of the time of `verify_model`.

    samples: by input, [count, *shape]. Raises UserError E0910 and E0914 (ONNX Runtime), E05xx and E06xx for a program that must not run.
    """
    runs = (region.images for region in built.bundle.manifest.regions)
    images = first_samples(samples, lcm(*(machine.lockstep for machine in built.machines.values()), *runs))
    return _outputs(built, images, _oracle_outputs(built, images), check=True)


def _oracle_outputs(built: Built, images: Samples) -> Tensors:
    """The integer network's outputs alone, made once in a process for machines that have the same one."""

    def made() -> Tensors:
        found = oracle_tensors(built.integer, images)
        return {value.name or "": found[value.name or ""] for value in built.integer.graph.outputs}

    return ORACLES.of(digest_of_parts([*(path.read_bytes() for path in integer_files(built.stages)), *array_parts(images)]), made)


def _outputs(built: Built, images: Samples, expected: Mapping[str, Array], check: bool = False) -> list[OutputVerdict]:
    """The executor takes the same samples, its host segments as they are like the oracle. check: the programs, where that was not done already."""
    executor = open_bundle(built.bundle, [*built.machines.values()], EmulatorDevice(check=check), built.place, optimise=False)
    found = executor.run_samples(images)
    mixed = mixed_samples(executor, images, found)
    tolerance = next((machine.allowance for machine in built.machines.values() if machine.allowance), None)
    moved = oracle_tensors(built.integer, {name: nudged(array) for name, array in images.items()}) if tolerance else expected
    results = {entry.name: stacked([each[entry.name] for each in found]) for entry in built.bundle.manifest.outputs}
    return [replace(_output(name, expected[name], made, tolerance, moved[name]), mixed=mixed[name]) for name, made in results.items()]


def mixed_samples(executor: Executor, images: Samples, found: Sequence[Mapping[str, Array]]) -> dict[str, int]:
    """By output, how many elements of the first BESIDE samples are others where samples share a call, or a run, than where each is alone;
    none of a single sample.

    found: the outputs of each sample, of as many samples in a run as the machine takes.
    """
    few = {name: array[:BESIDE] for name, array in images.items()}
    if sample_count(few) < BESIDE:
        return dict.fromkeys(found[0], 0)
    alone = [executor.run_samples({name: array[k : k + 1] for name, array in few.items()})[0] for k in range(sample_count(few))]
    ways = list(zip(alone, found, strict=False))
    apart = {name: [one[name] for one in alone] for name in alone[0]}
    if joinable(executor.manifest.inputs) and all(_alike(each) for each in apart.values()):
        together = executor.run({name: joined(array) for name, array in few.items()}).outputs
        ways.append(
            ({name: joined(np.stack(each)) for name, each in apart.items()}, {name: np.atleast_1d(array) for name, array in together.items()})
        )
    return {name: sum(differing_bits(stacked([one[name]]), stacked([other[name]])) for one, other in ways) for name in apart}


def _alike(results: Sequence[Any]) -> bool:
    """Whether the results of several samples can stand in one array."""
    return all(isinstance(each, np.ndarray) for each in results) and len({each.shape for each in results}) == 1


def _output(name: str, expected: Array, found: Array, tolerance: Tolerance | None, moved: Array) -> OutputVerdict:
    """tolerance: of a machine that computes in floating point in an order of its own. moved: as expected, of inputs that differ in the last bit."""
    if tolerance is None or expected.dtype.kind != "f" or expected.shape != found.shape:
        return OutputVerdict(name, int(np.size(found)), differing_bits(expected, found))
    differing = int(np.count_nonzero(distant(expected, found, tolerance, moves_of(expected, moved))))
    return OutputVerdict(name, int(np.size(found)), differing, distance(expected, found), allowed=allowed_text(tolerance))


def compared_images(macs: int, per_run: int, samples: int) -> int:
    """The number of images that are compared: one alone may miss a wrong limit or shift, and a large network takes minutes for each.

    They fill whole runs of the program, at least IMAGES images, or IMAGES_OF_LARGE of a large network.

    macs: of one image. per_run: images that a run takes at once. samples: how many there are; none is compared in two runs.
    """
    wanted = IMAGES if macs < LARGE else IMAGES_OF_LARGE
    return per_run * ceil(max(min(wanted, samples), 1) / per_run)
