"""One region on the machine against the integer network: every tensor, as soon as it is complete."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.emulator.checks import check_program
from toolchain.emulator.engines import engine_named
from toolchain.emulator.state import State
from toolchain.isa.footprint.footprints import Footprints
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.spec.errors import UserError
from toolchain.verify.blame import describe_writer, element_address, last_writer
from toolchain.verify.compare import first_difference
from toolchain.verify.cuts import Cut, find_cuts
from toolchain.verify.reference_sample import SampleSize, sample_reference
from toolchain.verify.verdict import Compared, Difference, RegionVerdict

Array = NDArray[Any]


def climb_region(compiled: CompiledRegion, expected: Mapping[str, Array], size: SampleSize) -> RegionVerdict:
    """Runs the region on the inputs that `expected` holds and compares everything else that it holds.

    expected: int8 tensors of the integer network by name, [images, ...] with as many elements as the region's tensor.
    Raises UserError E05xx for a deadlock and E07xx for what an engine refuses; races and bad addresses are in the verdict.
    """
    wanted = {name: expected[name].reshape(shape) for name, shape in compiled.region.tensors.items() if name in expected}
    inputs = {name: wanted[name] for name in compiled.region.inputs}
    state = compiled.state(inputs)
    prints, hazards, warnings = _checked(compiled, state)
    compared = _run_in_pieces(compiled, state, wanted, prints)
    seen = {item.tensor for item in compared}
    unseen = tuple((name, _reason(compiled, name, wanted)) for name in compiled.region.tensors if name not in seen)
    sampled = sample_reference(compiled.program, prints, compiled.listing, lambda: compiled.state(inputs), size)
    return RegionVerdict(
        compiled.region.name, len(compiled.program), tuple(compared), unseen, hazards, warnings, _ordered(compiled, inputs, state), sampled
    )


def _checked(compiled: CompiledRegion, state: State) -> tuple[Footprints, tuple[str, ...], tuple[str, ...]]:
    """Footprints, what forbids the program to run, and what is only worth knowing."""
    try:
        checked = check_program(compiled.program, state)
    except UserError as error:
        return compiled.checked.footprints, tuple(d.headline() for d in error.diagnostics), ()
    return checked.footprints, (), tuple(d.headline() for d in checked.warnings)


def _run_in_pieces(compiled: CompiledRegion, state: State, wanted: Mapping[str, Array], prints: Footprints) -> list[Compared]:
    """The program in its own order, stopped after each operation; in the end the outputs are looked at again."""
    engine, done, compared = engine_named("fast"), 0, list[Compared]()
    for cut in find_cuts(compiled.region, compiled.owner):
        engine(compiled.program, state, np.arange(done, cut.stop, dtype=np.int64))
        done = cut.stop
        compared += [_compare(compiled, state, name, wanted[name], cut, prints) for name in cut.tensors if _readable(compiled, name, wanted)]
    engine(compiled.program, state, np.arange(done, len(compiled.program), dtype=np.int64))
    end = Cut(len(compiled.region.operations) - 1, len(compiled.program), compiled.region.outputs)
    wrong = {item.tensor for item in compared if item.difference}
    outputs = [name for name in end.tensors if name not in wrong and _readable(compiled, name, wanted)]
    return compared + [item for name in outputs if (item := _compare(compiled, state, name, wanted[name], end, prints)).difference]


def _readable(compiled: CompiledRegion, name: str, wanted: Mapping[str, Array]) -> bool:
    return name in wanted and name in compiled.map.tensors


def _reason(compiled: CompiledRegion, name: str, wanted: Mapping[str, Array]) -> str:
    if name not in wanted:
        return "the integer network has no tensor of this name"
    return "it is not in DRAM" if name not in compiled.map.tensors else "no operation makes it"


def _compare(compiled: CompiledRegion, state: State, name: str, wanted: Array, cut: Cut, prints: Footprints) -> Compared:
    found = first_difference(wanted, compiled.result(state, name))
    after = compiled.region.operations[cut.operation].operation.name if cut.operation >= 0 else ""
    memory, difference = compiled.map.memory, None
    if found:
        machine = compiled.program.machine
        byte = element_address(machine, compiled.map, name, found.coordinates)
        writer = last_writer(prints, memory, byte, cut.stop)
        told = None if writer is None else describe_writer(prints, memory, byte, writer, compiled.listing)
        operation, nodes = _makers(compiled, name, writer)
        difference = Difference(name, found.coordinates, found.expected, found.found, found.differing, operation, nodes, told)
    return Compared(name, after, memory, wanted.size, difference)


def _makers(compiled: CompiledRegion, name: str, writer: int | None) -> tuple[str, tuple[str, ...]]:
    """The operation that should have made the element, and the nodes that it stands for: the writer's, else the tensor's own."""
    operations = compiled.region.operations
    makers = [k for k, bound in enumerate(operations) if bound.tensors["y"] == name]
    if writer is not None and compiled.owner[writer] >= 0:
        makers = [int(compiled.owner[writer])]
    return (operations[makers[0]].operation.name, operations[makers[0]].nodes) if makers else ("", ())


def _ordered(compiled: CompiledRegion, inputs: Mapping[str, Array], finished: State) -> bool:
    """Whether the order in which units issue leaves the same outputs as the program's order."""
    state = compiled.state(inputs)
    engine_named("fast")(compiled.program, state, compiled.checked.order)
    return all(np.array_equal(compiled.result(state, name), compiled.result(finished, name)) for name in compiled.region.outputs)


def unequal(verdicts: Sequence[RegionVerdict]) -> list[Compared]:
    """Every tensor that differs, in the order in which they are made."""
    return [item for verdict in verdicts for item in verdict.compared if item.difference]
