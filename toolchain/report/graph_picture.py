"""The graph of a model in layers: a box for each operation of the machine and each node of the host, an edge for each tensor between them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import networkx as nx
import onnx_ir as ir

from toolchain.report.placement import FOLDED, HOST, NodePlaces, Placed

BOX_WIDE, BOX_TALL, ACROSS, DOWN = 176, 40, 24, 30
"""Width and height of a box, and the room beside and below it; pixels."""
BEND = 14
"""Room for an edge that passes a layer."""
SWEEPS = 6
"""Times that layers are put in order by their neighbours, down and up in turn."""
Key = tuple[str, str]
"""Region, empty on the host; and name of the operation or node."""


@dataclass(frozen=True)
class Box:
    """computes: kind of operation, or operators. shape: of its result, `1x64x56x56`. nodes: of the model. reason: why it is on the host."""

    key: Key
    computes: str
    shape: str
    nodes: tuple[str, ...]
    reason: str
    x: int
    y: int


@dataclass(frozen=True)
class Edge:
    """path: of SVG."""

    source: Key
    target: Key
    tensor: str
    path: str


@dataclass(frozen=True)
class GraphPicture:
    """width, height: pixels."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]


@dataclass(frozen=True)
class _Place:
    """An edge's bend in a layer that it passes, between two boxes."""

    source: Key
    target: Key
    layer: int


Point = Key | _Place


def graph_picture(floats: ir.Model, placement: NodePlaces) -> GraphPicture:
    """floats: the last stage before fusion, whose nodes `placement` has."""
    placed = {node.node: node for node in placement.nodes if node.where != FOLDED}
    nodes = [node for node in floats.graph if node.name in placed]
    tensors = _tensors(nodes, placed)
    graph: nx.DiGraph[Key] = nx.DiGraph()
    graph.add_nodes_from(dict.fromkeys(_key(placed[node.name or ""]) for node in nodes))
    graph.add_edges_from(tensors)
    layers, chains = _layers(graph)
    at = _places(layers)
    boxes = tuple(_boxes(nodes, placed, at))
    width = max((x + (BOX_WIDE if isinstance(point, tuple) else BEND) for point, (x, _) in at.items()), default=0) + ACROSS
    edges = tuple(Edge(*ends, name, _edge_path([at[ends[0]], *(at[bend] for bend in chains[ends]), at[ends[1]]])) for ends, name in tensors.items())
    return GraphPicture(width, len(layers) * (BOX_TALL + DOWN) + DOWN, boxes, edges)


def _key(placed: Placed) -> Key:
    return (placed.region, placed.operation or placed.node) if placed.where != HOST else ("", placed.operation or placed.node)


def _tensors(nodes: Sequence[ir.Node], placed: Mapping[str, Placed]) -> dict[tuple[Key, Key], str]:
    """The first tensor between each two boxes."""
    found: dict[tuple[Key, Key], str] = {}
    for node in nodes:
        target = _key(placed[node.name or ""])
        for value in node.inputs:
            maker = value.producer() if value is not None else None
            if value is not None and maker is not None and maker.name in placed and (source := _key(placed[maker.name or ""])) != target:
                found.setdefault((source, target), value.name or "")
    return found


def _layers(graph: "nx.DiGraph[Key]") -> tuple[list[list[Point]], dict[tuple[Key, Key], list[_Place]]]:
    """Layers by longest path, edges that pass some with a place in each of them; ordered so that few edges cross."""
    level = _levels(graph)
    layers: list[list[Point]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for key, layer in level.items():
        layers[layer].append(key)
    chains = {(a, b): [_Place(a, b, layer) for layer in range(level[a] + 1, level[b])] for a, b in graph.edges}
    links: dict[Point, list[Point]] = {}
    for (a, b), chain in chains.items():
        points: list[Point] = [a, *chain, b]
        for place in chain:
            layers[place.layer].append(place)
        for one, other in pairwise(points):
            links.setdefault(one, []).append(other)
            links.setdefault(other, []).append(one)
    _untangle(layers, links)
    return layers, chains


def _levels(graph: "nx.DiGraph[Key]") -> dict[Key, int]:
    """The longest path to each box. Operations that share a box's name may close a circle; its members are then placed one by one."""
    level: dict[Key, int] = {}
    whole = nx.condensation(graph)
    for number in nx.lexicographical_topological_sort(whole):
        members: list[Key] = sorted(whole.nodes[number]["members"])
        before = [level[key] for member in members for key in graph.predecessors(member) if key in level]
        level.update({key: max(before, default=-1) + 1 + step for step, key in enumerate(members)})
    return level


def _untangle(layers: Sequence[list[Point]], links: Mapping[Point, Sequence[Point]]) -> None:
    """Sorts each layer by the mean place of its neighbours in the layer before, then in the one behind."""
    for sweep in range(SWEEPS):
        order = range(1, len(layers)) if sweep % 2 == 0 else range(len(layers) - 2, -1, -1)
        for number in order:
            beside = {point: rank for rank, point in enumerate(layers[number + (-1 if sweep % 2 == 0 else 1)])}
            own = {point: rank for rank, point in enumerate(layers[number])}
            layers[number].sort(key=lambda point, beside=beside, own=own: _mean([beside[p] for p in links.get(point, ()) if p in beside], own[point]))


def _mean(ranks: Sequence[int], otherwise: int) -> float:
    return sum(ranks) / len(ranks) if ranks else otherwise


def _places(layers: Sequence[Sequence[Point]]) -> dict[Point, tuple[int, int]]:
    """Each layer is centred."""
    widths = [sum(_room(point) for point in layer) for layer in layers]
    widest, found = max(widths, default=0), dict[Point, tuple[int, int]]()
    for number, (layer, width) in enumerate(zip(layers, widths, strict=True)):
        x = ACROSS + (widest - width) // 2
        for point in layer:
            found[point] = (x, DOWN // 2 + number * (BOX_TALL + DOWN))
            x += _room(point)
    return found


def _room(point: Point) -> int:
    return BEND + ACROSS // 2 if isinstance(point, _Place) else BOX_WIDE + ACROSS


def _boxes(nodes: Sequence[ir.Node], placed: Mapping[str, Placed], at: Mapping[Point, tuple[int, int]]) -> Iterator[Box]:
    members: dict[Key, list[ir.Node]] = {}
    for node in nodes:
        members.setdefault(_key(placed[node.name or ""]), []).append(node)
    for key, own in members.items():
        first = placed[own[0].name or ""]
        operators = "+".join(dict.fromkeys(node.op_type for node in own))
        names = tuple(node.name or "" for node in own)
        yield Box(key, operators, _shape(own[-1]), names, first.reason if first.where == HOST else "", *at[key])


def _shape(node: ir.Node) -> str:
    shape = node.outputs[0].shape if node.outputs else None
    return "" if shape is None else "x".join(str(size) for size in shape)


def _edge_path(points: Sequence[tuple[int, int]]) -> str:
    """From the lower side of the first box through all bends to the upper side of the last."""
    (x, y), last = points[0], len(points) - 1
    x, y = x + BOX_WIDE // 2, y + BOX_TALL
    path = f"M{x} {y}"
    for number, (left, top) in enumerate(points[1:], 1):
        to = left + (BOX_WIDE if number == last else BEND) // 2
        path += f"C{x} {(y + top) // 2} {to} {(y + top) // 2} {to} {top}"
        if number < last:
            path += f"V{top + BOX_TALL}"
        x, y = to, top + BOX_TALL
    return path
