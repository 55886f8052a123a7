"""The division of a graph between a machine and the host that takes least time: a minimum cut.

Source: H. S. Stone, Multiprocessor scheduling with the aid of network flow algorithms, IEEE Transactions on Software Engineering, 1977.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import onnx_ir as ir

from toolchain.graph.rewrite import captured
from toolchain.passes.context import Tariff

MACHINE, HOST = "machine", "host"
STEPS_PER_MS = 1_000_000_000
"""Capacities are whole numbers, so that the cut does not depend on the order of sums."""


def cheapest_division(nodes: Sequence[ir.Node], free: Collection[ir.Node], tariff: Tariff) -> set[ir.Node]:
    """The nodes that are on the machine where all others are on the host. nodes: of the graph, sorted. free: those that may be on either side.

    A node costs its time on its side, a tensor that is made on one side and read on the other its crossing, once however many read it. Launches
    are not counted: they belong to regions, which follow from the division.
    """
    import networkx  # 150 ms, and only where it is asked for

    library: Any = networkx
    flow, places = library.DiGraph(), {node: number for number, node in enumerate(nodes) if node in free}
    flow.add_nodes_from((MACHINE, HOST))
    for node, number in places.items():
        cost = tariff.node(node)
        flow.add_edge(MACHINE, number, capacity=_steps(cost.host))
        flow.add_edge(number, HOST, capacity=_steps(cost.machine))
    for number, value in enumerate(_tensors(nodes)):
        maker, *readers = (places.get(node, HOST) if node else HOST for node in (value.producer(), *_readers(value)))
        _cross(flow, maker, {*readers} - {maker}, _steps(tariff.crossing(value)), number)
    chosen: set[int | str] = library.minimum_cut(flow, MACHINE, HOST)[1][0]
    return {node for node, number in places.items() if number in chosen}


def _steps(ms: float) -> int:
    return round(ms * STEPS_PER_MS)


def _tensors(nodes: Iterable[ir.Node]) -> list[ir.Value]:
    """Computed tensors and the graph's inputs that any node reads or makes, each once."""
    found = dict.fromkeys(value for node in nodes for value in (*node.inputs, *captured(node), *node.outputs) if value is not None)
    return [value for value in found if value.producer() is not None or value.is_graph_input()]


def _readers(value: ir.Value) -> list[ir.Node | None]:
    """None stands for the caller of the whole graph."""
    return [*(node for node, _ in value.uses()), *([None] if value.is_graph_output() else [])]


def _cross(flow: Any, maker: int | str, readers: set[int | str], capacity: int, number: int) -> None:
    """Adds tensor `number`: its crossing is cut once where its maker and any of the readers are on different sides."""
    out, into = f"out {number}", f"into {number}"
    if maker != HOST and readers:
        flow.add_edge(maker, out, capacity=capacity)
        flow.add_edges_from(((out, reader) for reader in sorted(readers, key=str)), capacity=math.inf)
    if inside := readers - {HOST}:
        flow.add_edges_from(((reader, into) for reader in sorted(inside, key=str)), capacity=math.inf)
        flow.add_edge(into, maker, capacity=capacity)
