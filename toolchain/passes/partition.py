"""Makes regions of the machine's operations: maximal convex sets of operations, each a local function that names its kernels; the rest says why it
stays; and cuts a region into several."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

import onnx_ir as ir

from toolchain.graph.integers.calls import Reasons, note_reasons, note_refusals, reasons_of, refusals_of
from toolchain.graph.nodes import shape_text
from toolchain.graph.regions import REGION, TARGET, region_function
from toolchain.graph.rewrite import given_names, known_shape
from toolchain.passes.context import Context, Pass
from toolchain.passes.fuse import unknown
from toolchain.passes.join_recurrent import join_recurrent
from toolchain.passes.leave import absorb_activations
from toolchain.passes.placement import is_boundary, owner_of, place_calls
from toolchain.spec.errors import Diagnostic, UserError
from toolchain.spec.reasons import Why, texts_of


def divide_region(model: ir.Model, call: ir.Node, parts: Mapping[str, Collection[str]]) -> tuple[ir.Node, ...]:
    """parts: by the name of each, the names of the tensors that its operations make, in an order in which the parts can run.

    A node that makes none of them (padding, a view) goes with its first reader; kernels stay as they are. The calls, in the order of the parts.
    The graph is sorted again.
    """
    function, graph = region_function(model, call), model.graph
    labels = {key: value for key, value in function.metadata_props.items() if key != TARGET}
    known = {inner: outer for inner, outer in zip(function.inputs, call.inputs, strict=True) if outer is not None}
    nodes = [copy_node(node, known) for node in function]
    graph.insert_before(call, nodes)
    for old, inner in zip(call.outputs, function.outputs, strict=True):
        hand_over(graph, old, known[inner], set())
    graph.remove(call, safe=True)
    del model.functions[function.identifier()]
    numbers = _numbers(nodes, [*parts.values()])
    found: list[ir.Node] = []
    for number, name in enumerate(parts):
        members = [node for node in nodes if numbers[node] == number]
        made = outline(model, members, REGION, name, {TARGET: call.metadata_props.get(TARGET, "")})
        model.functions[made.op_identifier()].metadata_props.update(labels)
        found.append(made)
    graph.sort()
    return tuple(found)


def _numbers(nodes: Sequence[ir.Node], parts: Sequence[Collection[str]]) -> dict[ir.Node, int]:
    """The part of each node; readers come first."""
    makers = {tensor: number for number, tensors in enumerate(parts) for tensor in tensors}
    found: dict[ir.Node, int] = {}
    for node in reversed(nodes):
        own = [makers[value.name] for value in node.outputs if value.name in makers]
        readers = [found[user] for value in node.outputs for user, _ in value.uses() if user in found]
        made = [makers[value.name] for value in node.inputs if value is not None and value.name in makers]
        found[node] = own[0] if own else min(readers, default=max(made, default=len(parts) - 1))
    return found


def outline(model: ir.Model, nodes: Sequence[ir.Node], domain: str, name: str, labels: Mapping[str, str]) -> ir.Node:
    """nodes: a convex set, in an order in which they can run. labels: metadata of the function and of its call.

    Inputs of the function: first the tensors that others make, then the constants, which stay in the graph and with them in its file of weights.
    The call stands where the last of the nodes stood; the graph may need sorting afterwards. Inside, tensors keep their names.
    """
    graph, inside = model.graph, set(nodes)
    read = list(dict.fromkeys(value for node in nodes for value in node.inputs if value is not None and value.producer() not in inside))
    inputs = [value for value in read if not value.is_initializer()] + [value for value in read if value.is_initializer()]
    made = [value for node in nodes for value in node.outputs]
    outputs = [value for value in made if value.is_graph_output() or any(user not in inside for user, _ in value.uses())]
    function = _function(model, nodes, inputs, outputs, domain, name)
    function.metadata_props.update(labels)
    model.functions[function.identifier()] = function
    graph.opset_imports[domain] = 1
    call = ir.node(name, inputs, domain=domain, name=name, num_outputs=len(outputs), metadata_props=dict(labels))
    graph.insert_after(nodes[-1], call)
    for old, new in zip(outputs, call.outputs, strict=True):
        _describe(new, old)
        hand_over(graph, old, new, inside)
    graph.remove(nodes, safe=True)
    return call


def hand_over(graph: ir.Graph, old: ir.Value, new: ir.Value, inside: set[ir.Node]) -> None:
    """Readers of `old`, but for those inside, and the graph's outputs take `new` in its place."""
    for user, index in list(old.uses()):
        if user not in inside:
            user.replace_input_with(index, new)
    for number, value in enumerate(graph.outputs):
        if value is old:
            graph.outputs[number] = new


def _function(
    model: ir.Model, nodes: Sequence[ir.Node], inputs: Sequence[ir.Value], outputs: Sequence[ir.Value], domain: str, name: str
) -> ir.Function:
    known: dict[ir.Value, ir.Value] = {}
    for value in inputs:
        known[value] = ir.Value(name=value.name, shape=value.shape, type=value.type)
        known[value].metadata_props.update(value.metadata_props)
    copies = [copy_node(node, known) for node in nodes]
    opsets = {domain: model.graph.opset_imports[domain] for domain in dict.fromkeys(("", *(node.domain for node in nodes)))}
    body = ir.Graph([known[value] for value in inputs], [known[value] for value in outputs], nodes=copies, opset_imports=opsets, name=name)
    return ir.Function(domain, name, graph=body, attributes=[])


def copy_node(node: ir.Node, known: dict[ir.Value, ir.Value]) -> ir.Node:
    """The node with values of another body, by those that it had; its results join them."""
    given = [None if value is None else known[value] for value in node.inputs]
    copy = ir.Node(node.domain, node.op_type, given, node.attributes.values(), num_outputs=len(node.outputs), name=node.name)
    copy.metadata_props.update(node.metadata_props)
    for old, new in zip(node.outputs, copy.outputs, strict=True):
        _describe(new, old)
        known[old] = new
    return copy


def _describe(new: ir.Value, old: ir.Value) -> None:
    new.name, new.shape, new.type = old.name, old.shape, old.type
    new.metadata_props.update(old.metadata_props)


@dataclass(frozen=True)
class Partition(Pass):
    """fallback: whether operations may stay on the host, besides the conversions at the border."""

    name: ClassVar[str] = "partition"
    requires: ClassVar[tuple[str, ...]] = ("quantized",)
    ensures: ClassVar[tuple[str, ...]] = ("partitioned",)
    fallback: bool = True

    def run(self, model: ir.Model, context: Context) -> ir.Model:
        if context.before:
            absorb_activations(model)
        placement = place_calls(list(model.graph), context.devices, context.policy)
        inside = {node for region in placement.regions for node in region}
        join_recurrent(model, inside, context)
        left = [node for node in model.graph if node not in inside]
        for node in left:
            _note(node, (Why.CONVERTS(),) if is_boundary(node) else _reasons(node, placement.refused), context)
        if not self.fallback:
            _refuse([node for node in left if not is_boundary(node)], context)
        names = (name for number in count() if (name := f"region{number}") not in given_names(model.graph))
        for name, region in zip(names, placement.regions, strict=False):
            device = owner_of(region[0], context.devices)
            call = outline(model, region, REGION, name, {TARGET: device.name if device else ""})
            if device:
                device.settles(model, call)
        model.graph.sort()
        return model


def _reasons(node: ir.Node, refused: Mapping[ir.Node, Reasons]) -> Reasons:
    return refused.get(node) or reasons_of(node) or (unknown(node),)


def _note(node: ir.Node, reasons: Reasons, context: Context) -> None:
    """The reasons of the first of several machines stand for all; the others are beside them."""
    asked = owner_of(node, context.devices) or context.device
    if context.before and asked is not None and not is_boundary(node):
        note_refusals(node, {asked.name: reasons})
        reasons = refusals_of(node).get(context.before[0].name, reasons)
    note_reasons(node, *reasons)


def _refuse(left: list[ir.Node], context: Context) -> None:
    """Raises UserError E0920 with every node that stays on the host."""
    if left:
        raise UserError(*(Diagnostic("E0920", _told(node), place=context.place, hint="fallback=yes leaves it to the host") for node in left))


def _told(node: ir.Node) -> str:
    value = node.outputs[0]
    where = f"node '{node.name}' ({node.op_type}), which makes '{value.name}' of shape {shape_text(known_shape(value))}"
    return f"{where}, cannot run on the machine: {texts_of(reasons_of(node))}"
