"""The saving of a region and the cost of its border, by the costs that the machine's file declares."""

import math
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from toolchain.graph.integers.calls import BOUNDARY
from toolchain.graph.integers.functions import kind_of
from toolchain.graph.nodes.rewrite import known_shape
from toolchain.graph.operators.work import host_work, recurrence_of
from toolchain.operations.library import Kinds, kinds_of
from toolchain.passes.context import NodeCost, Price, Tariff
from toolchain.schedule.kernel_selection import images_per_run
from toolchain.spec.model import Host, Machine
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import Why
from toolchain.timing.host import operators_ms, work_ms

FLOAT_BYTES = 4
PICTURE = {"n", "h", "w", "c"}
"""Index names of a layout of pictures."""


def region_price(machine: Machine, nodes: Sequence[ir.Node]) -> Price | None:
    """nodes: the region's integer calls. None for a machine whose file does not say what the host costs.

    The machine's own time is its multiply-accumulates at peak, less than any schedule takes: a region that does not pay even so cannot.
    """
    if machine.host is None:
        return None
    host, inside, kinds = machine.host, set(nodes), kinds_of(machine)
    given = _distinct(value for node in nodes for value in node.inputs if value is not None and not value.is_initializer())
    inputs = [value for value in given if value.producer() not in inside]
    made = [value for node in nodes for value in node.outputs]
    outputs = [value for value in made if value.is_graph_output() or any(user not in inside for user, _ in value.uses())]
    cost = _cost(machine, host, kinds, nodes)
    crossing = sum(_crossing_ms(value, machine, host, _is_converted(value)) for value in (*inputs, *outputs))
    border = crossing + _starts_ms(machine, host, len(inputs) + len(outputs), _batch(nodes[0].outputs[0]))
    return Price(cost.host, cost.machine, border)


def recurrence_reason(machine: Machine, node: ir.Node) -> Reason | None:
    """Why the host has an LSTM, a GRU or an RNN: the least that its products would take on the machine, and what they take on the host, of a sample.

    The products with the inputs are one run, those with the states one for each step. None for other operators, and for a machine whose file does
    not say what the host costs.
    """
    host, found = machine.host, recurrence_of(node)
    if host is None or found is None:
        return None
    results, runs = found.directions * found.gates, found.directions * found.steps
    inputs = _products_ms(machine, host, found.input_macs, found.rows * (found.size + results), 1)
    states = _products_ms(machine, host, found.state_macs, found.rows * (found.directions * found.hidden + results), runs)
    floats = [operators_ms(node.op_type, macs, 0, host) for macs in (found.input_macs, found.state_macs)]
    given, after, here, there = (float(f"{ms:.6g}") for ms in (inputs, states, *floats))
    return Why.RECURRENT(steps=found.steps, inputs_machine_ms=given, inputs_host_ms=here, states_machine_ms=after, states_host_ms=there)


def _products_ms(machine: Machine, host: Host, macs: int, elements: int, runs: int) -> float:
    """Products at peak, in so many runs, with the conversions and transfers of what they read and make in all."""
    peak = machine.timing.peak_macs
    crossing = elements * (1 / host.transfer_gb_per_s.value + (1 + FLOAT_BYTES) / host.gb_per_s.value) / 1e6 + elements * _rearranging_ms(machine)
    return crossing + runs * _starts_ms(machine, host, 2, 1) + (macs / peak / machine.timing.clock_khz if peak else 0.0)


def tariff(machine: Machine) -> Tariff | None:
    """Prices by the node and by the tensor, without launches. None for a machine whose file does not say what the host costs."""
    host = machine.host
    if host is None:
        return None
    kinds = kinds_of(machine)

    def crossing(value: ir.Value) -> float:
        start = host.transfer_us.value / 1e3 * _batch(value) / images_per_run(machine)
        return _crossing_ms(value, machine, host, True) + start

    return Tariff(lambda node: _cost(machine, host, kinds, [node]), crossing)


def _cost(machine: Machine, host: Host, kinds: Kinds, nodes: Sequence[ir.Node]) -> NodeCost:
    floats = work_ms(host_work(nodes, FLOAT_BYTES, kinds), host)
    macs = sum(work.macs for work in host_work(nodes, kinds=kinds).values())
    peak = machine.timing.peak_macs
    return NodeCost(floats, macs / peak / machine.timing.clock_khz if peak else 0.0)


def _distinct(values: Iterable[ir.Value]) -> list[ir.Value]:
    return list(dict.fromkeys(values))


def _batch(value: ir.Value) -> int:
    """Images of one sample."""
    return (known_shape(value) or (1,))[0]


def _is_converted(value: ir.Value) -> bool:
    """Whether a tensor at a region's border is in floating point on the other side."""
    neighbours = [node for node, _ in value.uses()] + [value.producer()]
    return any(kind_of(node) in BOUNDARY for node in neighbours if node is not None)


def _crossing_ms(value: ir.Value, machine: Machine, host: Host, converted: bool) -> float:
    """Rearranging and copying stored bytes, and converting them."""
    elements = math.prod(known_shape(value) or (0,))
    copied = elements / host.transfer_gb_per_s.value / 1e6 + elements * _rearranging_ms(machine)
    return copied + (elements * (1 + FLOAT_BYTES) / host.gb_per_s.value / 1e6 if converted else 0.0)


def _rearranging_ms(machine: Machine) -> float:
    """Cost of a byte, for the layout of pictures that is quickest to write and read."""
    pictures = [layout for layout in machine.layouts if set(layout.domain) == PICTURE]
    times = ((layout, math.prod(copies.count for copies in layout.copies)) for layout in pictures)
    return min((0.0 if layout.gb_per_s is None else stored / layout.gb_per_s.value / 1e6 for layout, stored in times), default=0.0)


def _starts_ms(machine: Machine, host: Host, buffers: int, batch: int) -> float:
    """Launches and transfers of one sample's share of a run."""
    return (host.launch_us.value + buffers * host.transfer_us.value) / 1e3 * batch / images_per_run(machine)
