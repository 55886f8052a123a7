"""Choose the operations that run on the machine: supported ones, in regions that save more time than their borders cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from toolchain.graph.integers.calls import BOUNDARY, Reasons
from toolchain.graph.integers.functions import is_integer, kind_of
from toolchain.graph.nodes.rewrite import captured
from toolchain.passes.context import Device, Policy, Price
from toolchain.passes.convex import convex_groups
from toolchain.passes.min_cut import cheapest_division
from toolchain.passes.region_limits import oversize, room_for
from toolchain.spec.reasons import Why

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
