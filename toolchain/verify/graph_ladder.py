"""One region as a graph against the whole model in ONNX Runtime: results at its border, bit for bit."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.graph.calibration.table import sample_at, sample_count
from toolchain.graph.graph_region import GraphRegion
from toolchain.runtime.contents import Bundle, RegionProgram
from toolchain.runtime.graph_engine import engine_of
from toolchain.verify.compare import differing_bits
from toolchain.verify.verdict import Compared, Difference, RegionVerdict

Array = NDArray[Any]


def border_names(region: GraphRegion) -> tuple[str, ...]:
    """Tensors whose values the comparison needs."""
    return tuple(tensor.name for tensor in (*region.inputs, *region.outputs))


def climb_graph(region: GraphRegion, bundle: Bundle, program: RegionProgram, expected: Mapping[str, Array], place: str = "") -> RegionVerdict:
    """expected: tensors of the whole model by name, [samples, *shape]. The engine runs without rewriting, as the model did that they come from.

    Raises UserError E1115 for a damaged graph, E0910 where ONNX Runtime stops.
    """
    engine = engine_of(bundle, program, place, optimise=False)
    given = {port.name: expected[port.name] for port in program.inputs}
    found, _ = engine.run([sample_at(given, number) for number in range(sample_count(given))])
    compared: list[Compared] = []
    for port in program.outputs:
        wanted, made = expected[port.name], np.stack([sample[port.name] for sample in found])
        count = differing_bits(wanted, made)
        maker = next((node.name or "" for node in region.nodes if port.tensor in [value.name for value in node.outputs]), "")
        difference = _difference(port.tensor, wanted, made, count, maker) if count else None
        compared.append(Compared(port.tensor, maker, "graph engine", wanted.size, difference))
    return RegionVerdict(region.name, len(region.nodes), tuple(compared), (), (), (), True, None, told="operators, as a graph in JSON")


def _difference(name: str, wanted: Array, made: Array, count: int, maker: str) -> Difference:
    """The first element, in row-major order, that is another number; the first of all where only bits or the shape differ."""
    places = np.argwhere(wanted != made) if wanted.shape == made.shape else np.zeros((0, wanted.ndim), np.int64)
    place = tuple(int(k) for k in (places[0] if len(places) else np.zeros(wanted.ndim, np.int64)))
    found = float(made[place]) if wanted.shape == made.shape else float("nan")
    return Difference(name, place, float(wanted[place]), found, count, maker, (maker,), None)
