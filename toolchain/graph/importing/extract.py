"""The part of a model between some of its tensors, as a model of its own."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import onnx

from toolchain.graph.files import check_constants, read_proto, take_weights
from toolchain.graph.importing.resolve import declare_types, infer_partly
from toolchain.graph.nodes import called_functions, needed, node_text, own_names, sort_nodes, subgraphs, unify_constants
from toolchain.spec.errors import fail, nearest

Tensors = Mapping[str, onnx.ValueInfoProto]


def extract_model(path: Path, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.ModelProto:
    """inputs, outputs: names of tensors; none stands for those of the model. Nodes and constants are the file's, external data still beside it.

    Raises UserError E0001, E0901 to E0903 (the file), E0930 (no such tensor), E0931 (an input is missing), E0932 (nothing between the tensors).
    """
    proto = read_proto(path)
    check_constants(proto, path)
    unify_constants(proto.graph, path)
    sort_nodes(proto.graph, path)
    graph, constants = proto.graph, {tensor.name for tensor in proto.graph.initializer}
    given = [entry.name for entry in graph.input if entry.name not in constants]
    wanted = list(dict.fromkeys(outputs or [entry.name for entry in graph.output]))
    _check_names(graph, [*inputs, *wanted], path)
    nodes, read = _between(graph, set(inputs or given), wanted)
    ends = list(dict.fromkeys(inputs or [name for name in given if name in read]))
    _check_cut(nodes, read, ends, wanted, given, path)
    types = _types(proto)
    part = onnx.GraphProto(name=f"{graph.name} from {', '.join(ends)} to {', '.join(wanted)}", node=nodes)
    part.input.extend(_entries(ends, types, path))
    part.output.extend(_entries(wanted, types, path))
    part.initializer.extend(tensor for tensor in graph.initializer if tensor.name in (read | set(wanted)) - set(ends))
    inside = {name for node in nodes for name in node.output} - {*ends, *wanted}
    part.value_info.extend(entry for entry in graph.value_info if entry.name in inside)
    part.quantization_annotation.extend(entry for entry in graph.quantization_annotation if entry.tensor_name in inside | read)
    return _model(proto, part)


def _check_names(graph: onnx.GraphProto, names: Iterable[str], path: Path) -> None:
    known = dict.fromkeys(
        [entry.name for entry in (*graph.input, *graph.initializer)] + [name for node in graph.node for name in node.output if name]
    )
    for name in names:
        if name in known:
            continue
        holder = next((node for node in graph.node if name in set(_hidden(node))), None)
        if holder is not None:
            raise fail("E0930", f"the tensor '{name}' is inside a graph of {node_text(holder)}, which is run as a whole", place=str(path))
        raise fail("E0930", f"the model has no tensor '{name}'", hint=nearest(name, known), place=str(path))


def _hidden(node: onnx.NodeProto) -> Iterator[str]:
    """Tensors of the graphs inside a node."""
    for inner in subgraphs(node):
        yield from sorted(own_names(inner))
        for part in inner.node:
            yield from _hidden(part)


def _between(graph: onnx.GraphProto, ends: set[str], wanted: Sequence[str]) -> tuple[list[onnx.NodeProto], set[str]]:
    """The nodes that the wanted tensors need, in order, and the names that are read from outside of them."""
    makers = {name: number for number, node in enumerate(graph.node) for name in node.output if name and name not in ends}
    found, read, left = set[int](), set[str](), list(wanted)
    while left:
        name = left.pop()
        if name not in makers:
            read.add(name)
        elif makers[name] not in found:
            found.add(makers[name])
            left += needed(graph.node[makers[name]])
    return [graph.node[number] for number in sorted(found)], read


def _check_cut(nodes: Sequence[onnx.NodeProto], read: set[str], ends: Sequence[str], wanted: Sequence[str], given: Sequence[str], path: Path) -> None:
    missing = [name for name in given if name in read and name not in ends]
    if missing:
        first = next((node for node in nodes if missing[0] in set(needed(node))), None)
        reader = f", which {node_text(first)} reads" if first is not None else ""
        hint = f"add --from {' '.join(missing)}, or tensors between"
        raise fail("E0931", f"it also takes the model's input '{missing[0]}'{reader}", hint=hint, place=str(path))
    if not nodes:
        raise fail("E0932", f"no node makes {', '.join(wanted)} of anything", hint="name tensors that nodes make with --to", place=str(path))
    for name in ends:
        if name not in read:
            raise fail("E0932", f"nothing leads from '{name}' to {', '.join(wanted)}", hint="leave it out of --from", place=str(path))


def _types(proto: onnx.ModelProto) -> Tensors:
    """As inference finds them, else as the file declares them: exporters get shapes wrong. The copy for inference leaves weights out."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    take_weights(copy)
    del copy.graph.value_info[:]
    inferred = infer_partly(copy)
    declare_types(inferred)
    found = {entry.name: entry for entry in proto.graph.value_info if _typed(entry)}
    found |= {entry.name: entry for entry in (*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output) if _typed(entry)}
    stored = [onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims) for tensor in proto.graph.initializer]
    return found | {entry.name: entry for entry in stored}


def _typed(entry: onnx.ValueInfoProto) -> bool:
    return entry.type.WhichOneof("value") is not None


def _entries(names: Iterable[str], types: Tensors, path: Path) -> Iterator[onnx.ValueInfoProto]:
    for name in names:
        if name not in types:
            raise fail("E0930", f"the type of the tensor '{name}' is not known", hint="cut at another tensor", place=str(path))
        yield types[name]


def _model(proto: onnx.ModelProto, part: onnx.GraphProto) -> onnx.ModelProto:
    """With the functions that nodes of the part call, and those that these call."""
    known = {(function.domain, function.name, function.overload): function for function in proto.functions}
    found = called_functions(part.node, known.get)
    functions = [function for key, function in known.items() if key in found]
    return onnx.ModelProto(
        ir_version=proto.ir_version, opset_import=proto.opset_import, producer_name="tilewright", graph=part, functions=functions,
        metadata_props=proto.metadata_props,
    )  # fmt: skip
