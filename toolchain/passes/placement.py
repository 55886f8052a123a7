"""Placement: supported operations run on the machine in convex regions within its limits that save more time than their borders cost.

The division of a graph between a machine and the host that takes least time is a minimum cut: H. S. Stone, Multiprocessor scheduling with the aid of
network flow algorithms, IEEE Transactions on Software Engineering, 1977.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from toolchain.graph.integers.calls import BOUNDARY, Reasons
from toolchain.graph.integers.functions import is_integer, kind_of
from toolchain.graph.rewrite import captured, known_shape
from toolchain.graph.work import node_macs
from toolchain.passes.context import Device, Policy, Price, Tariff
from toolchain.spec.model import RegionLimits
from toolchain.spec.reasons import Why

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


Weight = tuple[float, ...]
"""The weight of a node or a group, in several measures."""


@dataclass(frozen=True)
class Room:
    """The most that a group may weigh in each measure, and the weight of each node."""

    most: Weight
    weights: Sequence[Weight]


def convex_groups(before: Sequence[Sequence[int]], owners: Sequence[int], rooms: Mapping[int, Room] | None = None) -> list[list[int]]:
    """Joins owned nodes with the nodes of the same owner whose results they read, in order, wherever the union is convex.

    before: for each node, in an order in which they can run, those whose results it reads. owners: of each node, 0 for none; the groups of owner 1
    are those that it would have alone, the others follow by number. rooms: by owner, where groups may not be of any size. Groups in order of
    their first nodes.
    """
    graph = _Contracted(before)
    for owner in sorted({*owners} - {0}):
        sizes = _Sizes((rooms or {}).get(owner))
        for node, makers in enumerate(before):
            for maker in makers:
                if owners[node] == owners[maker] == owner:
                    graph.join(maker, node, sizes)
    found: dict[int, list[int]] = {}
    for node, owner in enumerate(owners):
        if owner:
            found.setdefault(graph.root(node), []).append(node)
    return list(found.values())


class _Sizes:
    """The weights of groups, each at its root; without limits there are none."""

    def __init__(self, room: Room | None) -> None:
        self.most, self.weights = (room.most, [*room.weights]) if room else ((), [])

    def fit(self, one: int, other: int) -> bool:
        return not self.most or all(weight <= most for weight, most in zip(self._both(one, other), self.most, strict=True))

    def unite(self, one: int, other: int) -> None:
        if self.most:
            self.weights[one] = self._both(one, other)

    def _both(self, one: int, other: int) -> Weight:
        return tuple(a + b for a, b in zip(self.weights[one], self.weights[other], strict=True))


class _Contracted:
    """The graph with joined nodes as one."""

    def __init__(self, before: Sequence[Sequence[int]]) -> None:
        self.parents = list(range(len(before)))
        self.after: list[set[int]] = [set() for _ in before]
        for node, makers in enumerate(before):
            for maker in makers:
                self.after[maker].add(node)

    def root(self, node: int) -> int:
        while self.parents[node] != node:
            self.parents[node] = node = self.parents[self.parents[node]]
        return node

    def join(self, maker: int, node: int, sizes: "_Sizes") -> None:
        """Makes the two groups one unless a way from the first to the second leads through others, or they would be too large."""
        one, other = self.root(maker), self.root(node)
        if one == other or not sizes.fit(one, other) or self._around(one, other):
            return
        self.parents[other] = one
        self.after[one] = {root for reader in self.after[one] | self.after[other] if (root := self.root(reader)) != one}
        sizes.unite(one, other)

    def _around(self, one: int, other: int) -> bool:
        left = [root for reader in self.after[one] if (root := self.root(reader)) not in (one, other)]
        seen = set(left)
        while left:
            for reader in self.after[left.pop()]:
                root = self.root(reader)
                if root == other:
                    return True
                if root not in seen and root != one:
                    seen.add(root)
                    left.append(root)
        return False


MEASURES = ("operations", "macs", "parameter_bytes", "result_bytes")


def room_for(nodes: Sequence[ir.Node], limits: RegionLimits) -> Room | None:
    """The limits beside the weight of each node; None where nothing is limited."""
    most = _most(limits)
    return None if all(math.isinf(value) for value in most) else Room(most, [_weight(node) for node in nodes])


def oversize(node: ir.Node, limits: RegionLimits) -> Reasons:
    """Why an operation alone is more than a region may be; none where it is not."""
    most = _most(limits)
    if all(math.isinf(value) for value in most):
        return ()
    for name, value, limit in zip(MEASURES, _weight(node), most, strict=True):
        if value > limit:
            return (Why.OVERSIZE(value=value, measure=name.replace("_", " "), limit=limit),)
    return ()


def _most(limits: RegionLimits) -> Weight:
    values = (limits.operations, limits.macs, limits.parameter_bytes, limits.result_bytes)
    return tuple(math.inf if value is None else value for value in values)


def _weight(node: ir.Node) -> Weight:
    """The weight of one sample, in the order of MEASURES. A constant that several operations read counts for each."""
    constants = (value.const_value for value in node.inputs if value is not None and value.is_initializer())
    results = ((known_shape(value) or (), value.dtype) for value in node.outputs)
    made = sum(math.prod(shape) * (dtype.itemsize if dtype else 1) for shape, dtype in results)
    return 1, node_macs(node), sum(constant.nbytes for constant in constants if constant is not None), made


PLACED = ("concat", "flatten", "pad", "shuffle", "slice")
"""Kinds that a machine does by where tensors stand, without an instruction."""


@dataclass(frozen=True)
class Placement:
    """regions: sets of integer calls in an order in which they can run. refused: why other integer calls must stay on the host."""

    regions: tuple[tuple[ir.Node, ...], ...]
    refused: Mapping[ir.Node, Reasons]


def place_calls(nodes: Sequence[ir.Node], devices: Sequence[Device], policy: Policy = "pays") -> Placement:
    """nodes: of an integer graph, sorted. devices: each takes calls in its own domain; the regions of the first are those that it would have alone.

    Every region is convex and as large as it can be. policy: `pays` makes those that save time, `all` every one. `least` makes those of the machine's
    part in the cheapest division, unless `pays` saves more: the division counts no launches.
    """
    reasons = {node: _reason(node, device := owner_of(node, devices)) or _oversize(node, device) for node in nodes}
    whole = _make_regions(nodes, devices, reasons, policy)
    if policy != "least":
        return whole
    dearer = {node: (Why.DEARER(),) for device in devices for node in _dearer(nodes, reasons, device)}
    divided = _make_regions(nodes, devices, reasons | dearer, policy)
    return divided if _saving(divided, devices) > _saving(whole, devices) else whole


def _make_regions(nodes: Sequence[ir.Node], devices: Sequence[Device], reasons: Mapping[ir.Node, Reasons], policy: Policy) -> Placement:
    """reasons: why each node is not on the machine; none where it may be."""
    refused, kept = dict(reasons), list[tuple[ir.Node, ...]]()
    for group in _groups(nodes, reasons, devices):
        device = owner_of(group[0], devices)
        moves = all(kind_of(node) in PLACED for node in group)
        against: Reasons = (Why.ONLY_MOVES(),) if moves else () if policy == "all" else _loss(device, group)
        if against:
            refused.update(dict.fromkeys(group, against))
        else:
            kept.append(tuple(group))
    return Placement(tuple(kept), {node: reason for node, reason in refused.items() if reason and _is_offered(node, devices)})


def _saving(placement: Placement, devices: Sequence[Device]) -> float:
    """Milliseconds of one sample that the regions save; those without a price save none."""
    priced = ((owner_of(region[0], devices), region) for region in placement.regions)
    prices = [device.prices(region) for device, region in priced if device]
    return sum(price.host - price.machine - price.border for price in prices if price)


def _dearer(nodes: Sequence[ir.Node], reasons: Mapping[ir.Node, Reasons], device: Device) -> list[ir.Node]:
    """Nodes that the machine could take and that the host has in the cheapest division."""
    free = [node for node in nodes if node.domain == device.domain and not reasons[node]]
    if device.tariff is None or not free:
        return []
    chosen = cheapest_division(nodes, free, device.tariff)
    return [node for node in free if node not in chosen]


def owner_of(node: ir.Node, devices: Sequence[Device]) -> Device | None:
    """The machine in whose integers a call computes."""
    return next((device for device in devices if device.domain == node.domain), None)


def is_boundary(node: ir.Node) -> bool:
    """Whether a node only converts between floating point and integers."""
    return kind_of(node) in BOUNDARY


def is_operation(node: ir.Node) -> bool:
    """Whether a node computes with stored integers."""
    return is_integer(node) and not is_boundary(node)


def _is_offered(node: ir.Node, devices: Sequence[Device]) -> bool:
    """Whether some machine may have a node."""
    owner = owner_of(node, devices)
    return is_operation(node) or (owner is not None and owner.floats)


def _reason(node: ir.Node, device: Device | None) -> Reasons:
    """Why a node is not on the machine; none where it takes it."""
    if device and device.floats:
        return device.refuses(node)
    if not is_operation(node):
        return (Why.NO_OPERATION(),)
    return device.refuses(node) if device else (Why.NO_MACHINE(),)


def _oversize(node: ir.Node, device: Device | None) -> Reasons:
    """Why a node that the machine could take is too large for any region of it."""
    return oversize(node, device.limits) if device else ()


def _groups(nodes: Sequence[ir.Node], reasons: Mapping[ir.Node, Reasons], devices: Sequence[Device]) -> list[list[ir.Node]]:
    choices = {device.domain: number for number, device in enumerate(devices, 1)}
    owners = [0 if reasons[node] else choices[node.domain] for node in nodes]
    numbers = {node: number for number, node in enumerate(nodes)}
    makers = [[value.producer() for value in (*node.inputs, *captured(node)) if value is not None] for node in nodes]
    before = [sorted({numbers[maker] for maker in each if maker is not None}) for each in makers]
    rooms = {number: room for number, device in enumerate(devices, 1) if (room := room_for(nodes, device.limits))}
    return [[nodes[number] for number in group] for group in convex_groups(before, owners, rooms)]


def _loss(device: Device | None, group: Sequence[ir.Node]) -> Reasons:
    """Why a region does not pay; none where it does, or where its price is not known."""
    price = device.prices(group) if device else None
    if price is None or pays(price):
        return ()
    machine, host = (float(f"{ms:.6g}") for ms in (price.machine + price.border, price.host))
    return (Why.LOSS(operations=len(group), first=group[0].name or "", machine_ms=machine, host_ms=host),)


def pays(price: Price) -> bool:
    """Whether a region saves time even if the machine is as fast as it can be."""
    return price.machine + price.border < price.host
