"""One region as a graph against the whole model in ONNX Runtime: results at its border, bit for bit or as near as the machine's file asks."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.graph.calibration.table import sample_at, sample_count
from toolchain.graph.graph_region import GraphRegion, onnx_of
from toolchain.graph.running.session import Session, open_session, run_session
from toolchain.runtime.contents import RegionProgram
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.handover import array_of
from toolchain.runtime.open_region import Stored, open_region
from toolchain.spec.model import Machine, Tolerance
from toolchain.verify.compare import LAST_BITS, distance, distant, moves_of, nudged
from toolchain.verify.verdict import Compared, Difference, RegionVerdict

Array = NDArray[Any]
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
