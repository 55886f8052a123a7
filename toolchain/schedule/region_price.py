"""The saving of a region and the cost of its border, by the costs that the machine's file declares."""

import math
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from toolchain.graph.integers.calls import BOUNDARY
from toolchain.graph.integers.functions import kind_of
from toolchain.graph.recurrences import is_loop, loop_sizes, loops_that_read, operator_of
from toolchain.graph.rewrite import known_shape
from toolchain.graph.work import Recurrence, host_work, node_macs, recurrence_of
from toolchain.operations.library import Kinds, kinds_of
from toolchain.passes.context import NodeCost, Price, Tariff
from toolchain.schedule.kernel_selection import images_per_run
from toolchain.spec.model import Host, Machine
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import Why
from toolchain.timing.cost import operators_ms, work_ms

FLOAT_BYTES = 4
PICTURE = {"n", "h", "w", "c"}
"""Index names of a layout of pictures."""


def region_price(machine: Machine, nodes: Sequence[ir.Node]) -> Price | None:
    """nodes: the region's integer calls. None for a machine whose file states no costs of the host.

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
    loops = sum(_loops_ms(value, host, kinds) for value in outputs)
    border = crossing + loops + _starts_ms(machine, host, len(inputs) + len(outputs), _batch(nodes[0].outputs[0]))
    return Price(cost.host, cost.machine, border)


def recurrence_reason(machine: Machine, node: ir.Node) -> Reason | None:
    """Why the host has an LSTM, a GRU or an RNN: the least time of its products on the machine, and their time on the host, of a sample.

    The products with the inputs are one run, those with the states one for each step. Of a loop that makes a layer's steps, the states alone. None
    for other operators, and for a whole layer where the machine's file states no costs of the host.
    """
    host, found = machine.host, recurrence_of(node)
    if is_loop(node):
        return _steps_reason(machine, node)
    if host is None or found is None:
        return None
    results = found.directions * found.gates
    inputs = _products_ms(machine, host, found.input_macs, found.rows * (found.size + results), 1)
    states = _states_ms(machine, host, found)
    floats = [operators_ms(node.op_type, macs, 0, host) for macs in (found.input_macs, found.state_macs)]
    loop = found.directions * found.steps * (host.step_us.value / 1e3 if host.step_us else 0.0)
    given, after, here, there, start = (float(f"{ms:.6g}") for ms in (inputs, states, *floats, loop))
    return Why.RECURRENT(
        steps=found.steps, inputs_machine_ms=given, inputs_host_ms=here, states_machine_ms=after, states_host_ms=there, loop_ms=start
    )


def _steps_reason(machine: Machine, loop: ir.Node) -> Reason:
    host, found = machine.host, loop_sizes(loop)
    steps, macs = found.steps, found.state_macs // found.steps
    if host is None:
        return Why.STEPS_UNPRICED(steps=steps, macs=macs)
    there, here = (float(f"{ms:.6g}") for ms in (_states_ms(machine, host, found), operators_ms(operator_of(loop), found.state_macs, 0, host)))
    return Why.STEPS(steps=steps, macs=macs, machine_ms=there, host_ms=here)


def _states_ms(machine: Machine, host: Host, found: Recurrence) -> float:
    """The products with the states, a run for each step."""
    elements = found.rows * found.directions * (found.hidden + found.gates)
    return _products_ms(machine, host, found.state_macs, elements, found.directions * found.steps)


def _loops_ms(value: ir.Value, host: Host, kinds: Kinds) -> float:
    """How much longer the host takes with the loops that read a product, before or behind its conversion, and with the product by its own price than
    with the whole layer: it is whole again where the host makes the product."""
    readers = [node for node, _ in value.uses() if kind_of(node) in BOUNDARY]
    loops = [loop for tensor in (value, *(made for node in readers for made in node.outputs)) for loop in loops_that_read(tensor)]
    product = value.producer()
    if not loops or product is None:
        return 0.0
    macs = node_macs(product, kinds) + sum(loop_sizes(loop).state_macs for loop in loops)
    parts = work_ms(host_work([product, *loops], FLOAT_BYTES, kinds), host)
    return max(0.0, parts - operators_ms(operator_of(loops[0]), macs, 0, host))


def _products_ms(machine: Machine, host: Host, macs: int, elements: int, runs: int) -> float:
    """Products at peak, in so many runs, with the conversions and transfers of all their operands and results."""
    peak = machine.timing.peak_macs
    crossing = elements * (1 / host.transfer_gb_per_s.value + (1 + FLOAT_BYTES) / host.gb_per_s.value) / 1e6 + elements * _rearranging_ms(machine)
    return crossing + runs * _starts_ms(machine, host, 2, 1) + (macs / peak / machine.timing.clock_khz if peak else 0.0)


def tariff(machine: Machine) -> Tariff | None:
    """Prices by the node and by the tensor, without launches. None for a machine whose file states no costs of the host."""
    host = machine.host
    if host is None:
        return None
    kinds = kinds_of(machine)

    def crossing(value: ir.Value) -> float:
        start = host.transfer_us.value / 1e3 * _batch(value) / images_per_run(machine)
        return _crossing_ms(value, machine, host, True) + start + _loops_ms(value, host, kinds)

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
