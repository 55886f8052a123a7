"""Conditions that are known: the branch that is taken stands in place of its If."""

from collections.abc import Mapping

import onnx
from onnx import helper, numpy_helper

from toolchain.graph.importing.fold_nodes import lift_constants
from toolchain.graph.nodes.rewrite import is_operator
from toolchain.graph.nodes.subgraphs import own_names, replace_nodes, subgraphs


def inline_branches(graph: onnx.GraphProto) -> bool:
    """Writes out every If whose condition is a constant; whether there was one."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    nodes: list[onnx.NodeProto] = []
    found = False
    for node in graph.node:
        condition = constants.get(node.input[0]) if is_operator(node, "If") else None
        if condition is None:
            nodes.append(node)
            continue
        found = True
        taken = bool(numpy_helper.to_array(condition).reshape(-1)[0])
        branch = next(a.g for a in node.attribute if a.name == ("then_branch" if taken else "else_branch"))
        nodes += _written_out(graph, branch, node)
    if found:
        replace_nodes(graph, nodes)
        lift_constants(graph)
    return found


def _written_out(graph: onnx.GraphProto, branch: onnx.GraphProto, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The nodes of a branch under names of their own; its constants go to the graph."""
    prefix = f"{node.name or node.output[0]}/"
    inner = [tensor.name for tensor in branch.initializer] + [name for part in branch.node for name in part.output if name]
    names = {name: f"{prefix}{name}" for name in inner}
    for tensor in branch.initializer:
        copy = graph.initializer.add()
        copy.CopyFrom(tensor)
        copy.name = names[tensor.name]
    nodes = [_renamed(part, names) for part in branch.node]
    for part in nodes:
        part.name = f"{prefix}{part.name or part.output[0]}"
    ends = zip(branch.output, node.output, strict=False)
    return nodes + [helper.make_node("Identity", [names.get(end.name, end.name)], [output], f"{prefix}{output}") for end, output in ends if output]


def _renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """A copy whose tensors have new names, in its subgraphs too, where those do not make tensors of these names themselves."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for field in (copy.input, copy.output):
        field[:] = [names.get(name, name) for name in field]
    for inner in subgraphs(copy):
        own = own_names(inner)
        outer = {name: new for name, new in names.items() if name not in own}
        replace_nodes(inner, [_renamed(part, outer) for part in inner.node])
        for entry in inner.output:
            entry.name = outer.get(entry.name, entry.name)
    return copy
