"""Pictures of a build. The graph of a model in layers: a box for each operation of the machine and each node of the host, an edge for each tensor
between them. The block diagram of a machine: memories, units, and an arrow for each memory that a unit reads or writes; one instance of each is
drawn."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import networkx as nx
import onnx_ir as ir

from toolchain.report.placement import FOLDED, HOST, NodePlaces, Placed
from toolchain.report.tables import scaled
from toolchain.spec.model import Machine, Memory
from toolchain.spec.model.instructions import Resource

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


BLOCK_WIDE, BLOCK_TALL, GAP, HEAD = 190, 46, 14, 26
"""Width and height of a block, the room between blocks, and that of a frame's title; pixels."""
ROOM = 170
"""Between columns, for the arrows."""


@dataclass(frozen=True)
class Block:
    """A memory (`memory`) or a unit (`unit`). lines: of text; doc: its description in the machine's file. x, y: of its upper left corner."""

    name: str
    role: str
    lines: tuple[str, ...]
    doc: str
    x: int
    y: int


@dataclass(frozen=True)
class ScopeFrame:
    """A frame around the blocks of one scope."""

    title: str
    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True)
class Arrow:
    """From a memory to a unit that reads it, or (`write`) the other way; path: of SVG."""

    unit: str
    memory: str
    write: bool
    path: str


@dataclass(frozen=True)
class MachinePicture:
    """width, height: pixels."""

    width: int
    height: int
    blocks: tuple[Block, ...]
    frames: tuple[ScopeFrame, ...]
    arrows: tuple[Arrow, ...]


def machine_picture(machine: Machine) -> MachinePicture:
    """Memories of the device to the left of the units, those of inner levels to the right, each level in a frame with its count."""
    outer = [memory for memory in machine.memories if memory.scope == "device"]
    inner = [level.name for level in machine.levels if any(memory.scope == level.name for memory in machine.memories)]
    middle, right = BLOCK_WIDE + ROOM, 2 * (BLOCK_WIDE + ROOM)
    frames, blocks = list[ScopeFrame](), list[Block]()
    columns = [[("the device", outer)], [], [(_count(machine, name), [m for m in machine.memories if m.scope == name]) for name in inner]]
    for x, column in zip((GAP, middle + GAP, right + GAP), columns, strict=True):
        y = GAP
        for title, memories in column:
            if memories:
                blocks += _stack(memories, machine, x, y + HEAD)
                frames.append(_frame(title, x, y, len(memories)))
                y = frames[-1].y + frames[-1].height + GAP
    if machine.units:
        frames.append(_frame(_unit_title(machine), middle + GAP, GAP, len(machine.units)))
        blocks += (
            Block(unit.name, "unit", (unit.name, "queue without limit" if unit.depth is None else f"queue of {unit.depth}"), unit.doc,
                  middle + GAP, GAP + HEAD + number * (BLOCK_TALL + GAP))
            for number, unit in enumerate(machine.units)
        )  # fmt: skip
    width = max((frame.x + frame.width for frame in frames), default=BLOCK_WIDE) + GAP
    height = max((frame.y + frame.height for frame in frames), default=BLOCK_TALL) + GAP
    return MachinePicture(width, height, tuple(blocks), tuple(frames), tuple(_arrows(machine, blocks)))


def _frame(title: str, x: int, y: int, blocks: int) -> ScopeFrame:
    return ScopeFrame(title, x - GAP // 2, y, BLOCK_WIDE + GAP, HEAD + blocks * (BLOCK_TALL + GAP) - GAP // 2)


def _stack(memories: Sequence[Memory], machine: Machine, x: int, y: int) -> Iterator[Block]:
    for number, memory in enumerate(memories):
        yield Block(memory.name, "memory", (memory.name, _size(memory, machine)), memory.doc, x, y + number * (BLOCK_TALL + GAP))


def _size(memory: Memory, machine: Machine) -> str:
    banks = f", {memory.banks} banks" if memory.banks > 1 else ""
    if memory.kind == "register":
        return f"register, {memory.elements} values" if not memory.latches else "register of fields"
    copies = machine.instances(memory.scope)
    return f"{memory.kind} {scaled(memory.bytes, 'B')}{banks}" + (f", x {copies}" if copies > 1 else "")


def _count(machine: Machine, name: str) -> str:
    """`core, 8 in each of 4 clusters`."""
    place = next(number for number, level in enumerate(machine.levels) if level.name == name)
    level, above = machine.levels[place], machine.levels[:place]
    within = f" in each of {machine.instances(above[-1].name)} {above[-1].name}s" if above else ""
    return f"{name}, {level.count}{within}{', in lockstep' if level.lockstep else ''}"


def _unit_title(machine: Machine) -> str:
    lockstep = f", on {machine.lockstep} images" if machine.lockstep > 1 else ""
    return (f"units, in each of {machine.streams} streams" if machine.streams > 1 else "units") + lockstep


def _arrows(machine: Machine, blocks: Sequence[Block]) -> Iterator[Arrow]:
    at = {(block.role, block.name): block for block in blocks}
    for unit in machine.units:
        own = at["unit", unit.name]
        for number, (write, names) in enumerate(((False, unit.reads), (True, unit.writes))):
            for name in dict.fromkeys(_memory(machine, name) for name in names):
                if ("memory", name) in at:
                    yield Arrow(unit.name, name, write, _arrow_path(own, at["memory", name], write, number))


def _memory(machine: Machine, name: str) -> str:
    """A unit may name a view of a memory."""
    return machine.view[name].memory if name in machine.view else name


def _arrow_path(unit: Block, memory: Block, write: bool, lane: int) -> str:
    """A curve between the sides that face each other; reads end above the middle of a block, writes below it."""
    left = memory.x < unit.x
    a, b = (unit.x, memory.x + BLOCK_WIDE) if left else (unit.x + BLOCK_WIDE, memory.x)
    shift = BLOCK_TALL // 3 + lane * BLOCK_TALL // 3
    ends = [(a, unit.y + shift), (b, memory.y + shift)]
    (x1, y1), (x2, y2) = ends if write else ends[::-1]
    tip = x2 + (5 if x2 < x1 else -5)  # the arrow's head has its own length
    middle = (x1 + x2) // 2
    return f"M{x1} {y1}C{middle} {y1} {middle} {y2} {tip} {y2}"


def rate_text(resource: Resource, clock_khz: int) -> str:
    """`64 bytes a cycle, 19.2 GB/s`."""
    every = "a cycle" if resource.per == 1 else f"in {resource.per} cycles"
    return f"{resource.bytes_per_cycle} bytes {every}, {scaled(resource.bytes_per_cycle / resource.per * clock_khz * 1000, 'B/s')}"
