"""Cuts a region into several: its nodes come back into the graph, and each part becomes a function of its own."""

from collections.abc import Collection, Mapping, Sequence

import onnx_ir as ir

from toolchain.graph.regions import REGION, TARGET, region_function
from toolchain.passes.partition import copy_node, hand_over, outline


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
