"""One region on the machine against the integer network: every tensor, as soon as it is complete."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.emulator.checks import Checked, check_program, prepare_program
from toolchain.emulator.engines import engine_named
from toolchain.emulator.state import State
from toolchain.isa.footprint.footprints import Footprints
from toolchain.isa.program import Ints
from toolchain.spec.errors import UserError
from toolchain.verify.blame import describe_writer, element_address, last_writer
from toolchain.verify.compare import first_difference
from toolchain.verify.cuts import Cut, find_cuts
from toolchain.verify.reference_sample import SampleSize, sample_reference
from toolchain.verify.subject import Subject
from toolchain.verify.verdict import Compared, Difference, RegionVerdict

Array = NDArray[Any]


def climb_region(subject: Subject, expected: Mapping[str, Array], size: SampleSize) -> RegionVerdict:
    """Runs the region on the inputs that `expected` holds and compares everything else that it holds.

    expected: int8 tensors of the integer network by name, [images, ...] with as many elements as the region's tensor.
    Raises UserError E05xx for a deadlock and E07xx for what an engine refuses; races and bad addresses are in the verdict.
    """
    wanted = {name: expected[name].reshape(shape) for name, shape in subject.region.tensors.items() if name in expected}
    inputs = {name: wanted[name] for name in subject.region.inputs}
    state = subject.state(inputs)
    checked, hazards, warnings = _checked(subject, state)
    prints = checked.footprints
    compared = _run_in_pieces(subject, state, wanted, prints)
    seen = {item.tensor for item in compared}
    unseen = tuple((name, _reason(subject, name, wanted)) for name in subject.region.tensors if name not in seen)
    ordered = _ordered(subject, inputs, state, checked.order)
    sampled = sample_reference(subject.program, prints, subject.listing, lambda: subject.state(inputs), size)
    return RegionVerdict(
        subject.region.name,
        len(subject.program),
        tuple(compared),
        unseen,
        hazards,
        warnings,
        ordered,
        sampled,
    )


def _checked(subject: Subject, state: State) -> tuple[Checked, tuple[str, ...], tuple[str, ...]]:
    """What the run needs, what forbids it, and what is only worth knowing."""
    try:
        checked = check_program(subject.program, state)
    except UserError as error:
        return prepare_program(subject.program, state), tuple(d.headline() for d in error.diagnostics), ()
    return checked, (), tuple(d.headline() for d in checked.warnings)


def _run_in_pieces(subject: Subject, state: State, wanted: Mapping[str, Array], prints: Footprints) -> list[Compared]:
    """The program in its own order, stopped after each operation; in the end the outputs are looked at again."""
    engine, done, compared = engine_named("fast"), 0, list[Compared]()
    for cut in find_cuts(subject.region, subject.owner):
        engine(subject.program, state, np.arange(done, cut.stop, dtype=np.int64))
        done = cut.stop
        compared += [_compare(subject, state, name, wanted[name], cut, prints) for name in cut.tensors if _readable(subject, name, wanted)]
    engine(subject.program, state, np.arange(done, len(subject.program), dtype=np.int64))
    end = Cut(len(subject.region.operations) - 1, len(subject.program), subject.region.outputs)
    wrong = {item.tensor for item in compared if item.difference}
    outputs = [name for name in end.tensors if name not in wrong and _readable(subject, name, wanted)]
    return compared + [item for name in outputs if (item := _compare(subject, state, name, wanted[name], end, prints)).difference]


def _readable(subject: Subject, name: str, wanted: Mapping[str, Array]) -> bool:
    return name in wanted and name in subject.map.tensors


def _reason(subject: Subject, name: str, wanted: Mapping[str, Array]) -> str:
    if name not in wanted:
        return "the integer network has no tensor of this name"
    return "it is not in DRAM" if name not in subject.map.tensors else "no operation makes it"


def _compare(subject: Subject, state: State, name: str, wanted: Array, cut: Cut, prints: Footprints) -> Compared:
    found = first_difference(wanted, subject.result(state, name))
    after = subject.region.operations[cut.operation].operation.name if cut.operation >= 0 else ""
    memory, difference = subject.map.memory, None
    if found:
        machine = subject.program.machine
        byte = element_address(machine, subject.map, name, found.coordinates)
        writer = last_writer(prints, memory, byte, cut.stop)
        told = None if writer is None else describe_writer(prints, memory, byte, writer, subject.listing)
        operation, nodes = _makers(subject, name, writer)
        difference = Difference(name, found.coordinates, found.expected, found.found, found.differing, operation, nodes, told)
    return Compared(name, after, memory, wanted.size, difference)


def _makers(subject: Subject, name: str, writer: int | None) -> tuple[str, tuple[str, ...]]:
    """The operation that should have made the element, and the nodes that it stands for: the writer's, else the tensor's own."""
    operations = subject.region.operations
    makers = [k for k, bound in enumerate(operations) if bound.tensors["y"] == name]
    if writer is not None and subject.owner[writer] >= 0:
        makers = [int(subject.owner[writer])]
    return (operations[makers[0]].operation.name, operations[makers[0]].nodes) if makers else ("", ())


def _ordered(subject: Subject, inputs: Mapping[str, Array], finished: State, order: Ints) -> bool:
    """Whether the order in which units issue leaves the same outputs as the program's order."""
    state = subject.state(inputs)
    engine_named("fast")(subject.program, state, order)
    return all(np.array_equal(subject.result(state, name), subject.result(finished, name)) for name in subject.region.outputs)


def unequal(verdicts: Sequence[RegionVerdict]) -> list[Compared]:
    """Every tensor that differs, in the order in which they are made."""
    return [item for verdict in verdicts for item in verdict.compared if item.difference]
