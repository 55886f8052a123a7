"""Turns nodes of a graph into one call of a local function; the model computes the same as before."""

from collections.abc import Mapping, Sequence

import onnx_ir as ir


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
        _hand_over(graph, old, new, inside)
    graph.remove(nodes, safe=True)
    return call


def _hand_over(graph: ir.Graph, old: ir.Value, new: ir.Value, inside: set[ir.Node]) -> None:
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
    copies = [_copy(node, known) for node in nodes]
    opsets = {domain: model.graph.opset_imports[domain] for domain in dict.fromkeys(("", *(node.domain for node in nodes)))}
    body = ir.Graph([known[value] for value in inputs], [known[value] for value in outputs], nodes=copies, opset_imports=opsets, name=name)
    return ir.Function(domain, name, graph=body, attributes=[])


def _copy(node: ir.Node, known: dict[ir.Value, ir.Value]) -> ir.Node:
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
