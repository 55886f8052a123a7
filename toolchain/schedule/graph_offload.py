"""Whether a machine that takes a graph takes an operator of ONNX, and why not; the cost of a region on it, by its file."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import onnx
import onnx_ir as ir

from toolchain.graph.nodes.rewrite import captured, known_shape
from toolchain.graph.operators.work import host_work, node_macs
from toolchain.passes.context import Device, NodeCost, Price, Tariff
from toolchain.spec.checks.scope import Scope, problems
from toolchain.spec.errors import UserError, fail
from toolchain.spec.evaluate import constant
from toolchain.spec.model import Host, Machine
from toolchain.spec.suggest import nearest
from toolchain.timing.host import work_ms

STANDARD = ""
"""The domain of ONNX's own operators, in which such a machine computes."""
FLOAT_BYTES = 4
PLACES = 6
"""How many numbers of a list, and how many inputs, a condition can name."""
TENSOR = "rank", "inputs", "outputs"
UNHELD = ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS, ir.AttributeType.TENSOR
"""Types of attributes that the graph in JSON does not hold."""


def graph_device(machine: Machine) -> Device:
    """The questions of partitioning, answered by the machine's section `operators`.

    Raises UserError E0107 for an operator that ONNX does not have, and for names in a condition that it does not have.
    """
    rules = GraphRules(machine)
    rules.check()
    return Device(machine.name, rules.refusal, rules.price, frozenset(), domain=STANDARD, tariff=rules.tariff, limits=machine.limits)


@dataclass(frozen=True)
class GraphRules:
    """The machine's section `operators`: those that it takes, each with conditions over the operator's attributes and tensors."""

    machine: Machine

    def check(self) -> None:
        """Raises UserError as `graph_device` does."""
        known = sorted({schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == STANDARD})
        for operator, conditions in self.machine.operators.items():
            if operator not in known:
                span = conditions[0].that.span if conditions else None
                raise fail("E0107", f"ONNX has no operator '{operator}'", span, nearest(operator, known))
            wrong = [d for c in conditions for d in problems(c.that, Scope(frozenset(_names(operator))))]
            if wrong:
                raise UserError(*wrong)

    def refusal(self, node: ir.Node) -> str:
        """Why the machine does not take a node; an empty string where it does."""
        conditions = self.machine.operators.get(node.op_type)
        if conditions is None:
            return f"the machine's file does not list the operator {node.op_type}"
        if captured(node) or any(attribute.type in UNHELD for attribute in node.attributes.values()):
            return "it has a graph or a tensor among its attributes"
        reason = next(_unfit(node), "")
        if reason:
            return reason
        numbers = _numbers(node)
        return next((condition.message for condition in conditions if not constant(condition.that, numbers)), "")

    def cycles(self, node: ir.Node) -> float:
        """The longer of multiply-accumulates at peak and bytes by the slowest of the machine's resources."""
        peak, rates = self.machine.timing.peak_macs, [resource.bytes_per_cycle for resource in self.machine.timing.resources]
        size = self.bytes(node)
        return max([node_macs(node) / peak if peak else 0.0, *(size / rate for rate in rates)])

    def bytes(self, node: ir.Node) -> int:
        """Of an operator's tensors, as the machine stores them."""
        return tensor_bytes(node) // (2 if self.machine.half else 1)

    def cost(self, nodes: Sequence[ir.Node], host: Host) -> NodeCost:
        clock = self.machine.timing.clock_khz
        return NodeCost(work_ms(host_work(nodes, FLOAT_BYTES), host), sum(self.cycles(node) for node in nodes) / clock)

    def price(self, nodes: Sequence[ir.Node]) -> Price | None:
        """None for a machine whose file does not say what the host costs."""
        host = self.machine.host
        if host is None:
            return None
        inside = set(nodes)
        read = dict.fromkeys(v for n in nodes for v in n.inputs if v is not None and not v.is_initializer() and v.producer() not in inside)
        made = [v for n in nodes for v in n.outputs if v.is_graph_output() or any(user not in inside for user, _ in v.uses())]
        cost = self.cost(nodes, host)
        return Price(cost.host, cost.machine, host.launch_us.value / 1e3 + sum(_crossing_ms(value, host) for value in (*read, *made)))

    @cached_property
    def tariff(self) -> Tariff | None:
        host = self.machine.host
        if host is None:
            return None
        return Tariff(lambda node: self.cost([node], host), lambda value: _crossing_ms(value, host))


def tensor_bytes(node: ir.Node) -> int:
    """Bytes of an operator's tensors in float32, each once."""
    return sum(_size(value) for value in dict.fromkeys((*node.inputs, *node.outputs)) if value is not None)


def _size(value: ir.Value) -> int:
    """Bytes of a tensor in float32."""
    return FLOAT_BYTES * math.prod(known_shape(value) or (0,))


def _crossing_ms(value: ir.Value, host: Host) -> float:
    return host.transfer_us.value / 1e3 + _size(value) / host.transfer_gb_per_s.value / 1e6


def _unfit(node: ir.Node) -> Iterator[str]:
    """Tensors that no engine of float32 and of planned memory takes."""
    for value in (value for value in (*node.inputs, *node.outputs) if value is not None and not value.is_initializer()):
        shape = known_shape(value)
        if shape is None or not shape or not all(shape):
            yield f"the shape of '{value.name}' is not known when the engine is built, or has no axes or no elements"
        elif value.dtype != ir.DataType.FLOAT:
            yield f"'{value.name}' is {value.dtype.name.lower() if value.dtype else 'of unknown type'}, and the engine computes in float32"


def _schema(operator: str) -> onnx.defs.OpSchema:
    return onnx.defs.get_schema(operator)


def _names(operator: str) -> set[str]:
    """Names that conditions may use: numbers of attributes, those of lists as NAME_0, and facts about the tensors."""
    found = {*TENSOR, *(f"{kind}_{place}" for kind in ("rank", "known", "size") for place in range(PLACES))}
    for name, attribute in _schema(operator).attributes.items():
        found |= {name} if attribute.type == onnx.defs.OpSchema.AttrType.INT else set()
        found |= {f"{name}_{place}" for place in range(PLACES)} if attribute.type == onnx.defs.OpSchema.AttrType.INTS else set()
    return found


def _numbers(node: ir.Node) -> Mapping[str, int]:
    """rank_K, known_K: of input K; size_K: of axis K of the first. An attribute that is not there has ONNX's default, or is 0."""
    found = dict.fromkeys(_names(node.op_type), 0)
    for name, attribute in _schema(node.op_type).attributes.items():
        value: Any = node.attributes[name].value if name in node.attributes else None
        if attribute.type == onnx.defs.OpSchema.AttrType.INT:
            found[name] = int(value) if value is not None else int(attribute.default_value.i)
        elif attribute.type == onnx.defs.OpSchema.AttrType.INTS:
            found |= {f"{name}_{place}": int(number) for place, number in enumerate(list(value or ())[:PLACES])}
    for place, tensor in enumerate(node.inputs[:PLACES]):
        found[f"rank_{place}"] = len(known_shape(tensor) or ())
        found[f"known_{place}"] = int(tensor is not None and tensor.is_initializer())
    first = known_shape(node.inputs[0]) if node.inputs else None
    found |= {f"size_{place}": size for place, size in enumerate((first or ())[:PLACES])}
    return found | {"rank": len(first or ()), "inputs": sum(value is not None for value in node.inputs), "outputs": len(node.outputs)}
