"""Whether a machine that takes a graph takes an operator of ONNX, and why not; the cost of a region on it, by its file."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import onnx_ir as ir

from toolchain.graph.integers.calls import Reasons
from toolchain.graph.operators import known_operators
from toolchain.graph.rewrite import captured, known_shape
from toolchain.graph.work import host_work, node_macs
from toolchain.passes.context import Device, NodeCost, Price, Tariff
from toolchain.schedule.kernels.kernel import Require
from toolchain.schedule.kernels.operator_calls import STANDARD, Array, known_inputs, load_operator_calls, number_names, operator_numbers
from toolchain.spec.context import Scope, problems
from toolchain.spec.errors import UserError, fail, nearest
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Expr
from toolchain.spec.model import Constraint, Host, Machine
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import Why
from toolchain.timing.cost import work_ms

FLOAT_BYTES = 4
UNHELD = ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS, ir.AttributeType.TENSOR
"""Types of attributes that the graph in JSON does not hold."""


def graph_device(machine: Machine) -> Device:
    """The questions of partitioning, answered by the machine's section `operators`, or by the functions of its library.

    Raises UserError E0107 for an operator that ONNX does not have, and for names in a condition that it does not have.
    """
    rules = GraphRules(machine)
    rules.check()
    return Device(machine.name, rules.refusal, rules.price, frozenset(), domain=STANDARD, tariff=rules.tariff, limits=machine.limits)


@dataclass(frozen=True)
class OperatorRule:
    """An operator that a machine takes, where all conditions hold. let: numbers, each from those before it. cycles: None where peak and rates tell.

    addressed: inputs that a function reads in memory, where constants, too, have to be float32."""

    conditions: Sequence[Constraint | Require]
    let: Mapping[str, Expr] = field(default_factory=dict[str, Expr])
    cycles: Expr | None = None
    addressed: tuple[int, ...] = ()


def rule_numbers(node: ir.Node, let: Mapping[str, Expr], known: Mapping[str, Array]) -> dict[str, int]:
    """The operator's numbers, and those that a file derives from them. known: constants by name."""
    found = dict(operator_numbers(node, known))
    for name, expr in let.items():
        found[name] = constant(expr, found)
    return found


def first_unmet(conditions: Iterable[Constraint | Require], numbers: Mapping[str, int]) -> str:
    """The message of the first condition that does not hold; an empty string where all do."""
    return next((condition.message for condition in conditions if not constant(condition.that, numbers)), "")


@dataclass(frozen=True)
class GraphRules:
    """The operators that a machine takes, each with conditions over its attributes and tensors."""

    machine: Machine

    @cached_property
    def taken(self) -> Mapping[str, OperatorRule]:
        """By operator. Raises UserError as `load_operator_calls` does."""
        if self.machine.calls_operators:
            calls = load_operator_calls(self.machine)
            return {name: OperatorRule(call.requires, call.let, call.cycles, call.addressed) for name, call in calls.items()}
        return {name: OperatorRule(conditions) for name, conditions in self.machine.operators.items()}

    def check(self) -> None:
        """Raises UserError as `graph_device` does."""
        if self.machine.calls_operators:
            load_operator_calls(self.machine)  # its reader looks at every name
        known = known_operators()
        for operator, conditions in self.machine.operators.items():
            if operator not in known:
                span = conditions[0].that.span if conditions else None
                raise fail("E0107", f"ONNX has no operator '{operator}'", span, nearest(operator, known))
            wrong = [d for c in conditions for d in problems(c.that, Scope(number_names(operator)))]
            if wrong:
                raise UserError(*wrong)

    def refusal(self, node: ir.Node) -> Reasons:
        """Why the machine does not take a node; none where it does."""
        rule = self.taken.get(node.op_type)
        if rule is None:
            return ((Why.NO_FUNCTION if self.machine.calls_operators else Why.UNLISTED)(operator=node.op_type),)
        if captured(node) or any(attribute.type in UNHELD for attribute in node.attributes.values()):
            return (Why.SUBGRAPH(),)
        reason = next(_unfit(node), None) or next(_unlike(node, rule.addressed), None)
        if reason:
            return (reason,)
        unmet = first_unmet(rule.conditions, rule_numbers(node, rule.let, known_inputs([node])))
        return (Why.RULE(note=unmet),) if unmet else ()

    def cycles(self, node: ir.Node, known: Mapping[str, Array]) -> float:
        """By the formula of the operator's function, else the longer of multiply-accumulates at peak and bytes by the slowest of the machine's
        resources. known: constants by name."""
        rule = self.taken.get(node.op_type)
        if rule is not None and rule.cycles is not None:
            return float(constant(rule.cycles, rule_numbers(node, rule.let, known)))
        peak, rates = self.machine.timing.peak_macs, [resource.bytes_per_cycle for resource in self.machine.timing.resources]
        size = self.bytes(node)
        return max([node_macs(node) / peak if peak else 0.0, *(size / rate for rate in rates)])

    def bytes(self, node: ir.Node) -> int:
        """Bytes of an operator's tensors, as the machine stores them."""
        return tensor_bytes(node) // (2 if self.machine.half else 1)

    def cost(self, nodes: Sequence[ir.Node], host: Host) -> NodeCost:
        clock, known = self.machine.timing.clock_khz, known_inputs(nodes)
        return NodeCost(work_ms(host_work(nodes, FLOAT_BYTES), host), sum(self.cycles(node, known) for node in nodes) / clock)

    def price(self, nodes: Sequence[ir.Node]) -> Price | None:
        """None for a machine whose file states no costs of the host."""
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


def _unfit(node: ir.Node) -> Iterator[Reason]:
    """Tensors that no engine of float32 and of planned memory takes."""
    for value in (value for value in (*node.inputs, *node.outputs) if value is not None and not value.is_initializer()):
        shape = known_shape(value)
        if not isinstance(value.type, ir.TensorType):
            yield Why.NO_TENSOR(tensor=value.name or "")
        elif shape is None or not shape or not all(shape):
            yield Why.ENGINE_SHAPE(tensor=value.name or "")
        elif value.dtype != ir.DataType.FLOAT:
            yield _not_float(value)


def _unlike(node: ir.Node, addressed: Sequence[int]) -> Iterator[Reason]:
    """Constants that a function would read as float32, and are not."""
    for value in (node.inputs[place] for place in addressed if place < len(node.inputs)):
        if value is not None and value.dtype != ir.DataType.FLOAT:
            yield _not_float(value)


def _not_float(value: ir.Value) -> Reason:
    return Why.ENGINE_TYPE(tensor=value.name or "", dtype=value.dtype.name.lower() if value.dtype else "of unknown type")
