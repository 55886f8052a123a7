"""One region as a graph against the whole model in ONNX Runtime: results at its border, bit for bit or as near as the machine's file asks."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.graph.calibration.table import sample_at, sample_count
from toolchain.graph.graph_region import GraphRegion
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.handover import array_of
from toolchain.runtime.open_region import Stored, open_region
from toolchain.spec.model import Machine, Tolerance
from toolchain.verify.compare import distance, distant
from toolchain.verify.verdict import Compared, Difference, RegionVerdict

Array = NDArray[Any]


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
    for port in program.outputs:
        wanted, made = expected[port.name], np.stack([array_of(sample[port.name]) for sample in found])
        maker = next((node.name or "" for node in region.nodes if port.tensor in [value.name for value in node.outputs]), "")
        difference = _difference(port.tensor, wanted, made, maker, tolerance)
        apart = distance(wanted, made) if tolerance and wanted.shape == made.shape else 0.0
        compared.append(Compared(port.tensor, maker, where, wanted.size, difference, apart))
    allowed = allowed_text(tolerance) if tolerance else ""
    return RegionVerdict(region.name, len(region.nodes), tuple(compared), (), (), (), True, None, told=_told(stored.machine), allowed=allowed)


def _told(machine: Machine) -> str:
    """The form of the region's code."""
    if machine.tool:
        return f"operators, compiled by {machine.tool.compiler}"
    if machine.calls_operators:
        return "operators, as calls in C99, in float32"
    return f"operators, as a graph in JSON{', in float16' if machine.half else ''}"


def allowed_text(near: Tolerance) -> str:
    """The machine's tolerance in words."""
    return f"{near.absolute:g} + {near.relative:g} of the number: {near.because}"


def _difference(name: str, wanted: Array, made: Array, maker: str, tolerance: Tolerance | None) -> Difference | None:
    """The first element, in row-major order, that may not be as it is."""
    differs = distant(wanted, made, tolerance)
    if not differs.any():
        return None
    place = tuple(int(k) for k in np.argwhere(differs)[0])
    found = float(made[place]) if wanted.shape == made.shape else float("nan")
    return Difference(name, place, float(wanted[place]), found, int(np.count_nonzero(differs)), maker, (maker,), None)
